#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What processes used up to now.
struct TreeUse {
  Nanoseconds at = 0;                      ///< of the look
  double cpu_seconds = 0;                  ///< user and system time
  Bytes requested_bytes = 0;               ///< by read calls, of whatever they read
  std::optional<Bytes> storage_bytes = 0;  ///< that had to come from storage, pages that are mapped too; absent where the kernel does not count them
  std::optional<Bytes> traced_bytes{};     ///< of `requested_bytes`, those that a tracer saw; absent without one
  std::optional<Bytes> network_bytes{};    ///< received by sockets of the Internet's protocols; the same
  std::size_t processes = 0;
  std::optional<double>
      machine_cpu_seconds{};  ///< of all programs on the cores that this process may use, but for its own; absent where not asked for
  std::optional<double>
      storage_wait_seconds{};  ///< in which some process of the machine waited for storage; absent where the kernel does not count it
};

/// `use` as if what was used between `from` and `to` had been used before it. The processes are those at `to`.
TreeUse moved(const TreeUse& use, const TreeUse& from, const TreeUse& to);

struct TreeProcess {
  int pid = 0;
  int parent = 0;
  std::string command;  ///< as the kernel calls it, up to 15 bytes
};

/// Bytes that the living threads of a process asked for by read calls, without what ended threads and collected children did. `process` is its folder
/// below /proc.
Bytes requested_by_threads(const std::filesystem::path& process);

/// All descendants of a process, those among them that left their group or session too. Of the calling process, which adopts what its descendants
/// leave (adopt_orphans()), none can get away. Threads: any.
class ProcessTree {
 public:
  /// `proc` stands for "/proc" in tests.
  explicit ProcessTree(int root, std::filesystem::path proc = "/proc");

  /// The descendants that live now, without those that have ended and wait to be collected.
  [[nodiscard]] std::vector<TreeProcess> living() const;
  /// What the descendants used, with those that have ended: the kernel adds what a collected process used to its parent. So what `root` itself has
  /// used is in it, unless the caller takes it off by a look before it starts anything.
  [[nodiscard]] TreeUse use() const;
  /// The memory that each uses now, by PID, without pages of files: of what several share, each has its part (PSS). Without those of which the kernel
  /// does not say it. It looks at each of their pages, which takes milliseconds for a gigabyte.
  [[nodiscard]] std::map<int, Bytes> memory() const;
  /// Whether this process has a file mapped whose path contains this.
  [[nodiscard]] bool maps(int process, std::string_view part_of_path) const;

 private:
  int m_root;
  std::filesystem::path m_proc;
};

/// From now on, a descendant whose parent ends becomes a child of this process instead of the system's first one (PR_SET_CHILD_SUBREAPER). False
/// where the system refuses.
bool adopt_orphans();
/// Collects every child that has ended. The status of `watched`, as waitpid(2) has it, if that is among them.
std::optional<int> collect_children(int watched);
/// Whether a process only cleans up what others leave (named semaphores, shared memory) and ends by itself once those have ended: Python's resource
/// tracker, and PyTorch's manager of shared memory.
bool cleans_up_after_others(int process);
/// Ends processes: SIGTERM, and SIGKILL to those of `living()` that live `patience_seconds` later; collects children. Those that clean up after
/// others have five seconds more, and are not signalled before.
void end_all(const std::function<std::vector<int>()>& living, double patience_seconds);
/// The same of every descendant of this process. Returns those that could not be ended (in an uninterruptible wait), which is none as a rule.
std::vector<TreeProcess> end_descendants(double patience_seconds);

}  // namespace dsanalyze
