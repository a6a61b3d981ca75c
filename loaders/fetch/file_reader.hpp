#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/system/files.hpp"
#include "buffer_pool.hpp"
#include "file_access.hpp"

namespace dsanalyze {

/// Reads one extent of an index's files into a buffer, in the calling thread. Files of many samples stay open. Threads: any, at once.
class FileReader {
 public:
  FileReader(FileAccess& access, Timing timing) : m_access(access), m_timing(timing), m_kept(KeptFiles::most_files()), m_open(m_kept.size()) {}

  /// On success `bytes` is the extent's content inside the buffer.
  Status read(const FetchRequest& request, BufferPool& pool, std::uint32_t buffer, std::span<const std::byte>& bytes);

 private:
  struct OpenFile {
    FileDescriptor descriptor;
    DropMark mark;
    bool ended = false;  ///< its last sample was read: what is left of its pages goes with the last reader
  };
  struct Use {
    FileDescriptor own;  ///< closed after the read
    std::size_t kept = KeptFiles::nowhere;
    int descriptor = -1;
  };

  Status open_once(std::uint32_t file, FileDescriptor& descriptor);
  Status open_retrying(std::uint32_t file, FileDescriptor& descriptor);
  Status begin_use(const FetchRequest& request, const ReadPlan& plan, Use& use);
  void drop_pages(const FetchRequest& request, const ReadPlan& plan, const Use& use);
  void end_use(const FetchRequest& request, const ReadPlan& plan, const Use& use, Status status);
  bool close_unused();
  bool wait_for_descriptor(std::uint32_t ticket);
  Status read_in_turn(const FetchRequest& request, const ReadPlan& plan, std::span<std::byte> memory, std::uint64_t& got);
  Status read_range(int descriptor, const ReadPlan& plan, std::span<std::byte> into, std::uint64_t& got);

  FileAccess& m_access;
  Timing m_timing;
  std::atomic<int> m_reading{0};  ///< reads that hold a descriptor, or want one
  std::atomic<int> m_without{0};  ///< of them, those that got none
  Signal m_released;
  std::mutex m_mutex;
  KeptFiles m_kept;
  std::vector<OpenFile> m_open;  ///< by the numbers of m_kept
};

}  // namespace dsanalyze
