#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "access_trace.hpp"
#include "base/clock.hpp"
#include "base/process/process_tree.hpp"
#include "base/system/files.hpp"
#include "trace_ring.hpp"

namespace dsanalyze {

/// Takes what the processes of a command read from their tracers (libdsanalyze-trace.so), which they loaded by LD_PRELOAD. Memory is bounded: beyond
/// its limits, accesses are counted and not kept. Threads: one at a time.
class AccessTracer {
 public:
  /// `library`: the tracer. `folder` is the launch's: the socket lies there. Throws Error.
  AccessTracer(std::filesystem::path library, const std::filesystem::path& folder, const Clock& clock);
  ~AccessTracer();
  AccessTracer(const AccessTracer&) = delete;
  AccessTracer& operator=(const AccessTracer&) = delete;

  /// What is added to the command's environment, so that it and its descendants are traced. What LD_PRELOAD and ASAN_OPTIONS have stays in them.
  [[nodiscard]] std::vector<std::string> environment() const;
  /// To be called several times a second: welcomes processes, and takes what they left about ten times a second.
  void serve();
  /// Looks for processes without a tracer.
  void look(const ProcessTree& tree);
  /// Bytes that were read by calls up to now, from files and from all else, as the kernel counts them for each process (rchar).
  [[nodiscard]] Bytes traced_bytes();
  /// Received so far by sockets of the Internet's protocols.
  [[nodiscard]] Bytes network_bytes() const;
  /// All that came, in the order of time. Once, when the processes have ended.
  [[nodiscard]] AccessTrace take();

 private:
  struct Process {
    int pid = 0;
    std::uint32_t number = 0;  ///< in AccessTrace::processes
    TraceRing ring;
    std::unordered_map<std::uint32_t, std::uint32_t> file_of_opening{};
  };
  struct Newcomer {
    FileDescriptor connection;
    int pid = 0;
    Nanoseconds since = 0;
  };
  void accept_all(Nanoseconds now);
  /// Whether it has said what it will, or will not.
  bool hear(const Newcomer& newcomer, Nanoseconds now);
  void welcome(int pid, const FileDescriptor& memory, Nanoseconds now);
  void drain_all(Nanoseconds now);
  void drain(Process& process, Nanoseconds now, bool ended);
  void keep(Process& process, RingRecord& record);
  std::uint32_t file_number(TracedFile& file);
  void count_out(const Process& process);

  std::filesystem::path m_library, m_socket;
  const Clock& m_clock;
  FileDescriptor m_listening;
  std::list<Newcomer> m_newcomers;
  std::list<Process> m_processes;
  Nanoseconds m_next_drain = 0;
  AccessTrace m_trace;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint32_t>> m_files;  ///< by device and inode
  std::size_t m_path_bytes = 0;
  std::set<std::pair<int, std::string>> m_looked_at;            ///< processes that need no further look
  std::map<std::pair<int, std::string>, int> m_with_tracer;     ///< looks at each that found the tracer
  std::map<std::pair<int, std::string>, int> m_without_tracer;  ///< and in how many looks
};

}  // namespace dsanalyze
