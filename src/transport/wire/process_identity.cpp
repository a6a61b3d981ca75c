#include "process_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "wire.hpp"

namespace dsanalyze::transport {
namespace {

struct State {
  char letter = 0;
  std::uint64_t started = 0;
};

/// Of /proc/PID/stat [proc(5)], whose second field is a name that may hold anything.
std::optional<State> state_of(const std::string& pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  State state;
  fields >> state.letter;
  constexpr int between = 18;  // fields 4 to 21
  std::string skipped;
  for (int i = 0; i < between; ++i) fields >> skipped;
  fields >> state.started;
  return fields ? std::optional(state) : std::nullopt;
}

std::optional<std::uint64_t> own_pid_namespace() {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) != 0) return std::nullopt;
  return status.st_ino;
}

}  // namespace

std::optional<ProcessIdentity> own_process() {
  const auto pid_namespace = own_pid_namespace();
  const auto state = state_of("self");
  if (!pid_namespace || !state) return std::nullopt;
  return ProcessIdentity{*pid_namespace, static_cast<std::uint64_t>(::getpid()), state->started};
}

bool is_gone(const ProcessIdentity& process) {
  if (own_pid_namespace() != process.pid_namespace) return false;
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const auto state = state_of(fmt::format("{}", process.pid));
  return state && (state->started != process.started || state->letter == 'Z' || state->letter == 'X');
}

std::vector<std::byte> write_process(const ProcessIdentity& process) {
  static_assert(sizeof process == process_bytes);
  const auto bytes = std::as_bytes(std::span(&process, 1));
  return {bytes.begin(), bytes.end()};
}

ProcessIdentity parse_process(std::span<const std::byte> bytes) {
  ProcessIdentity process;
  std::memcpy(&process, bytes.data(), sizeof process);
  return process;
}

}  // namespace dsanalyze::transport
