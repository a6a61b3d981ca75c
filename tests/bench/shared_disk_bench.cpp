// Eight processes read from one emulated disk through the holder, for real: together they get its bandwidth once.
//
//   shared_disk_bench [--seconds N]

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {
namespace {

const Timing timing = system_timing();
constexpr StorageDeviceSpec ssd{530e6, 100'000, 32};
constexpr std::uint64_t request_bytes = 114'000;

/// Reads with eight requests in flight until `end`; bytes delivered.
std::uint64_t read_until(ServerDevices& devices, Nanoseconds end) {
  FetchOptions options;
  options.capacity = 8;
  const auto engine = make_emulated_engine(nullptr, options, ssd, devices.storage, timing);
  std::array<FetchCompletion, 8> done;
  const FetchRequest request{0, 0, {0, request_bytes, 0}};
  std::uint64_t bytes = 0;
  while (timing.clock->now() < end) {
    while (engine->submit({&request, 1}).ok()) continue;
    const std::size_t count = engine->reap(done, {end});
    for (std::size_t i = 0; i < count; ++i) {
      bytes += done[i].bytes.size();
      engine->release({&done[i].buffer, 1});
    }
  }
  return bytes;
}

double rate_of(int processes, double seconds) {
  ServerHolder holder({CacheKind::minio, 1, 1, 1, 1, 1}, timing);
  const Nanoseconds end = timing.clock->after(seconds).at;
  std::vector<pid_t> children;
  std::vector<FileDescriptor> results;
  for (int i = 0; i < processes; ++i) {
    auto [mine, theirs] = socket_pair();
    auto [result_here, result_there] = socket_pair();
    const pid_t child = ::fork();
    if (child == 0) {
      mine.reset();
      const auto server = attach_server(std::move(theirs), timing);
      const std::uint64_t bytes = read_until(server->devices(), end);
      static_cast<void>(send_message(result_there.get(), std::as_bytes(std::span(&bytes, 1)), {}, timing.clock->after(5)).ok());
      ::_exit(0);
    }
    children.push_back(child);
    holder.serve(std::move(mine));
    results.push_back(std::move(result_here));
  }
  std::uint64_t total = 0;
  for (auto& result : results) {
    std::uint64_t bytes = 0;
    std::size_t size = 0;
    std::vector<FileDescriptor> none;
    if (receive_message(result.get(), std::as_writable_bytes(std::span(&bytes, 1)), size, none, timing.clock->after(seconds + 10)).ok())
      total += bytes;
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  return static_cast<double>(total) / seconds;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) {
  const double seconds = argc == 3 && std::string(argv[1]) == "--seconds" ? std::stod(argv[2]) : 5;
  fmt::print("{:<12}{:>10}{:>12}\n", "processes", "MB/s", "of 530 MB/s");
  for (const int processes : {1, 2, 8}) {
    const double rate = dsanalyze::rate_of(processes, seconds);
    fmt::print("{:<12}{:>10.1f}{:>12.3f}\n", processes, rate / 1e6, rate / dsanalyze::ssd.bytes_per_second);
  }
  return 0;
}
