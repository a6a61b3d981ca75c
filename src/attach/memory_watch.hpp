#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/process/process_tree.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What the processes of a training use of memory, from one look to the next, and whether the kernel has ended processes for want of it since this
/// object was made. Threads: one at a time.
class MemoryWatch {
 public:
  /// `proc` stands for "/proc" in tests.
  explicit MemoryWatch(std::filesystem::path proc = "/proc") : m_proc(std::move(proc)), m_kills(kills()) {}

  /// Takes milliseconds for a gigabyte.
  void look(const ProcessTree& tree);
  /// "; meanwhile the kernel ended 1 process of this machine, as memory was short (out of memory): ..." with the peak of all and the processes that
  /// have grown most. Empty where it has ended none.
  [[nodiscard]] std::string kills_text() const;

 private:
  struct Use {
    std::string command;
    Bytes first = 0, last = 0;
  };
  /// Since the machine's start.
  [[nodiscard]] std::uint64_t kills() const;

  std::filesystem::path m_proc;
  std::uint64_t m_kills;
  std::map<int, Use> m_uses;
  Bytes m_peak = 0;
};

}  // namespace dsanalyze
