#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/system/files.hpp"
#include "fetch_engine.hpp"

namespace dsanalyze {

// What reading through the kernel comes with, in whichever way it is asked.

constexpr std::uint64_t page_bytes = 4096;                      ///< of the page cache
constexpr std::uint64_t largest_read = std::uint64_t{1} << 30;  ///< the kernel's limit for one call is just below 2 GiB
constexpr int most_retries = 100;                               ///< of one read, after errors that pass

/// Asked again, the kernel may well do it.
constexpr bool passes(int error) { return error == EINTR || error == EAGAIN; }

// What newer kernels than the build machine's headers offer. The running kernel is asked before any of it is relied on.

/// preadv2 and io_uring reads: the pages that this read brings in leave the page cache once they are copied (Linux 6.14; ext4, xfs, btrfs).
constexpr int rwf_dontcache = 0x80;

/// What a reader asks the kernel for to have one extent: the extent, aligned where reading is direct, and one byte more where that shows that a file
/// has grown.
struct ReadPlan {
  std::uint64_t begin = 0;   ///< in the file
  std::uint64_t size = 0;    ///< to ask for
  std::uint64_t needed = 0;  ///< of these, so that the extent is whole
  std::uint64_t lead = 0;    ///< bytes before the extent
  Bytes counted = 0;         ///< what the device is asked for
  bool whole_file = false;
};

/// What storage delivers at least of a direct read that ends at byte `end` of a file, from byte `begin` on: whole blocks of the read's alignment, but
/// at the end of the file no more than up to the end of the filesystem's own block, which may be smaller.
enum class ReadEnd : std::uint8_t { within_file, at_file_end };
Bytes direct_bytes(std::uint64_t begin, std::uint64_t end, ReadEnd where, std::uint64_t filesystem_block);

/// How pages leave the page cache behind a read.
enum class DropBehind {
  none,
  by_read,   ///< the read itself says so (RWF_DONTCACHE)
  by_call,   ///< a call after the read
  stretches  ///< a call every few MiB (DropMark)
};

/// What both engines know about reading an index's files: names, flags, alignment, dropping behind, and what errors mean.
/// Threads: any, at once.
class FileAccess {
 public:
  /// Throws Error when the dataset's folder cannot be opened.
  FileAccess(std::shared_ptr<const DatasetIndex> index, const FetchOptions& options);

  [[nodiscard]] int root() const { return m_root.get(); }
  /// Writes the path of `file`, relative to root(), with its zero; false if it is too long for a path.
  bool path_of(std::uint32_t file, std::span<char> path) const;
  [[nodiscard]] int open_flags() const;
  /// True if opening that failed with EPERM is worth another try: reading without a trace is for a file's owner alone.
  bool try_with_access_time(int error, int flags);
  /// The advice for a file of many samples that was just opened (POSIX_FADV_...).
  [[nodiscard]] int read_ahead_advice() const;

  [[nodiscard]] ReadPlan plan(const Extent& extent) const;
  /// True if a read that delivered `got` bytes altogether has to go on.
  [[nodiscard]] bool goes_on(const ReadPlan& plan, std::uint64_t got) const;
  /// What became of a read that delivered all there was.
  [[nodiscard]] static Status outcome(const ReadPlan& plan, const Extent& extent, std::uint64_t got);

  [[nodiscard]] DropBehind drop_behind(const ReadPlan& plan) const;
  /// Flags for preadv2.
  [[nodiscard]] int read_flags(const ReadPlan& plan) const { return drop_behind(plan) == DropBehind::by_read ? rwf_dontcache : 0; }
  /// True if a read failed because the filesystem cannot drop pages by itself: try again, a call will do it from now on.
  bool try_without_dropping(int error, int flags);
  /// No sample after this one lies in its file, as far as the index says.
  [[nodiscard]] bool last_of_file(SampleId sample, const Extent& extent) const;
  /// How far behind an extent others of the same file may be in flight.
  [[nodiscard]] std::uint64_t reads_span(const Extent& extent) const;

  void count(Bytes bytes) { m_requested.fetch_add(bytes, std::memory_order_relaxed); }
  [[nodiscard]] Bytes requested() const { return m_requested.load(std::memory_order_relaxed); }

  static Status status_of_errno(int error);

 private:
  [[nodiscard]] bool holds_many(std::uint32_t file) const { return (m_holds_many[file / 64] >> (file % 64) & 1U) != 0; }

  std::shared_ptr<const DatasetIndex> m_index;
  FileDescriptor m_root;
  FetchOptions m_options;
  std::uint64_t m_filesystem_block = 0;
  std::vector<std::uint64_t> m_holds_many;  ///< a bit a file; empty if no file is a sample
  std::atomic<bool> m_no_access_time{true};
  std::atomic<bool> m_uncached{true};
  std::atomic<Bytes> m_requested{0};
};

/// Which files of many samples are open, and which of them goes for the next one: the one unused for longest. Bounded. Holds no descriptors: what
/// belongs to an entry is its owner's, in an array with the same numbers. Threads: one at a time. No allocation after construction.
class KeptFiles {
 public:
  static constexpr std::size_t nowhere = SIZE_MAX;

  /// At most `most` files.
  explicit KeptFiles(std::size_t most) : m_entries(most) {}
  /// 64, or a quarter of what RLIMIT_NOFILE leaves this process.
  static std::size_t most_files();

  /// The entry of an open file; nowhere if there is none.
  [[nodiscard]] std::size_t find(std::uint32_t file) const;
  /// An entry for `file`: a free one, or the one unused for longest, whose file is forgotten; nowhere if all are in use.
  std::size_t assign(std::uint32_t file);
  /// In use: not to be closed until as many unpin() came.
  void pin(std::size_t entry);
  /// Returns how many uses are left.
  std::uint32_t unpin(std::size_t entry) { return --m_entries[entry].pins; }
  /// find() does not give it out again, assign() does once it is unused.
  void forget(std::size_t entry) { m_entries[entry].file = none; }
  [[nodiscard]] bool known(std::size_t entry) const { return m_entries[entry].file != none; }
  [[nodiscard]] bool unused(std::size_t entry) const { return m_entries[entry].pins == 0; }
  [[nodiscard]] std::size_t size() const { return m_entries.size(); }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Entry {
    std::uint32_t file = none;
    std::uint32_t pins = 0;
    std::uint64_t last_use = 0;
  };
  std::vector<Entry> m_entries;
  std::uint64_t m_uses = 0;
};

/// How far the pages of a file that is read in order have been dropped behind the reads.
///
/// Dropping each extent alone would leave the page that it shares with its neighbour in the cache for good, or have it read from storage twice; and a
/// call for each sample halves the speed. So whole stretches go, some way behind the reads that are still in flight. (Sequential extents of 115 KB,
/// one ring: 2797 MB/s without dropping, 3069 in stretches, 1805 with a call an extent, 1201 with RWF_DONTCACHE.)
class DropMark {
 public:
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;  ///< 0: nothing to drop yet
  };
  /// What to drop now that an extent at `offset` was read, while others within `span` bytes before it may be in flight.
  Stretch passed(std::uint64_t offset, std::uint64_t span);

 private:
  std::uint64_t m_dropped = 0;
};

}  // namespace dsanalyze
