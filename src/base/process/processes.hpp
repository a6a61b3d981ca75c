#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dsanalyze {

/// CPU time that a process used while it was watched.
struct ProcessUse {
  int pid = 0;
  std::string command;  ///< as the kernel calls it, up to 15 bytes
  double cpu_seconds = 0;
};

/// Adds up what each process of the machine, or of this container, uses of the CPU from one look to another. Processes that end between two looks
/// count up to the look before. Threads: one at a time.
class ProcessWatch {
 public:
  /// `root` stands for "/" in tests: reads <root>/proc/PID/stat.
  explicit ProcessWatch(std::filesystem::path root = "/");
  void look();
  /// Since the first look, without this process, the busiest first; those that used nothing are left out.
  [[nodiscard]] std::vector<ProcessUse> used() const;

 private:
  struct Seen {
    std::string command;
    double first_seconds = 0;
    double last_seconds = 0;
  };
  std::filesystem::path m_root;
  bool m_looked = false;
  std::map<std::pair<int, std::uint64_t>, Seen> m_seen;  ///< by number and start time: numbers are used again
};

}  // namespace dsanalyze
