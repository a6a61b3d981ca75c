#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dsanalyze::transport {

/// A process, among all of this machine that there have been: its number in its namespace of processes, and when it started.
struct ProcessIdentity {
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;
  std::uint64_t started = 0;  ///< the kernel's ticks

  bool operator==(const ProcessIdentity&) const = default;
};

/// Nothing where /proc does not tell.
std::optional<ProcessIdentity> own_process();
/// For certain: it has ended, though its parent may not have heard. False where it cannot be known, as for one of another namespace of processes.
bool is_gone(const ProcessIdentity& process);

std::vector<std::byte> write_process(const ProcessIdentity& process);
/// Requires process_bytes.
ProcessIdentity parse_process(std::span<const std::byte> bytes);

}  // namespace dsanalyze::transport
