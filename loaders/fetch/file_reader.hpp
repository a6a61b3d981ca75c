#pragma once

#include <atomic>
#include <memory>

#include "buffer_pool.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/loaders/fetch_engine.hpp"

namespace dsanalyze {

/// Reads one extent of an index's files into a buffer. Stateless between reads. Threads: any, at once.
class FileReader {
 public:
  /// Throws Error when the dataset's folder cannot be opened.
  FileReader(std::shared_ptr<const DatasetIndex> index, ReadMode read_mode, PageCacheUse page_cache);

  /// On success `bytes` is the extent's content inside the buffer.
  Status read(const Extent& extent, BufferPool& pool, std::uint32_t buffer, std::span<const std::byte>& bytes);
  /// Bytes asked for so far.
  [[nodiscard]] Bytes requested() const { return m_requested.load(std::memory_order_relaxed); }

 private:
  FileDescriptor open_file(std::uint32_t file, int& error) const;

  std::shared_ptr<const DatasetIndex> m_index;
  FileDescriptor m_root;
  ReadMode m_read_mode;
  PageCacheUse m_page_cache;
  std::atomic<Bytes> m_requested{0};
};

}  // namespace dsanalyze
