#include "wire.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace dsanalyze::transport {
namespace {

bool has_possible_length(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::request:
      return head.length > 0 && head.length % entry_bytes == 0 && head.length <= most_small;
    case FrameKind::reply:
      return head.length > 0;
    case FrameKind::not_held:
    case FrameKind::other_length:
    case FrameKind::heartbeat:
    case FrameKind::given_up:
    case FrameKind::leaving:
      return head.length == 0;
    case FrameKind::gather:
    case FrameKind::training:
      return head.length <= most_gathered;
    case FrameKind::mask:
    case FrameKind::decided:
      return head.length > 0 && head.length <= most_mask;
    case FrameKind::process:
      return head.length == process_bytes;
  }
  return false;
}

constexpr std::size_t mask_bytes(std::size_t world) { return (world + 7) / 8; }

void append_mask(const RankMask& mask, std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  bytes.resize(begin + mask_bytes(mask.size()));
  for (std::size_t rank = 0; rank < mask.size(); ++rank) {
    if (mask[rank]) bytes[begin + rank / 8] |= std::byte{1} << (rank % 8);
  }
}

std::optional<RankMask> parse_mask(std::span<const std::byte> bytes, std::uint32_t world) {
  RankMask mask(world);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const bool is_set = (bytes[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
    if (bit >= world && is_set) return std::nullopt;
    if (bit < world) mask[bit] = is_set;
  }
  return mask;
}

}  // namespace

HeadBytes write_head(const FrameHead& head) {
  HeadBytes bytes;
  std::memcpy(bytes.data(), &head, bytes.size());
  return bytes;
}

std::optional<FrameHead> parse_head(std::span<const std::byte, bare_head_bytes> bytes) {
  FrameHead head;
  std::memcpy(&head, bytes.data(), bytes.size());
  if (!has_possible_length(head) || is_message(head.kind) != (head.said > 0)) return std::nullopt;
  return head;
}

void write_entry(const RequestEntry& entry, std::span<std::byte, entry_bytes> out) {
  static_assert(sizeof entry == entry_bytes);
  std::memcpy(out.data(), &entry, entry_bytes);
}

void parse_entries(std::span<const std::byte> bytes, std::vector<RequestEntry>& entries) {
  for (; bytes.size() >= entry_bytes; bytes = bytes.subspan(entry_bytes)) std::memcpy(&entries.emplace_back(), bytes.data(), entry_bytes);
}

std::vector<std::byte> write_standing(const Standing& standing) {
  std::vector<std::byte> bytes;
  append_mask(standing.going_on, bytes);
  append_mask(standing.ended, bytes);
  return bytes;
}

std::optional<Standing> parse_standing(std::span<const std::byte> bytes, std::uint32_t world) {
  const std::size_t each = mask_bytes(world);
  if (bytes.size() != 2 * each) return std::nullopt;
  auto going_on = parse_mask(bytes.first(each), world);
  auto ended = parse_mask(bytes.last(each), world);
  if (!going_on || !ended) return std::nullopt;
  return Standing{std::move(*going_on), std::move(*ended)};
}

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
