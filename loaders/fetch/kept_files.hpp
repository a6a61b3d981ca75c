#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsanalyze {

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
/// call for each sample halves the speed. So whole stretches go, some way behind the reads that are still under way. (Sequential extents of 115 KB,
/// one ring: 2797 MB/s without dropping, 3069 in stretches, 1805 with a call an extent, 1201 with RWF_DONTCACHE.)
class DropMark {
 public:
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t length = 0;  ///< 0: nothing to drop yet
  };
  /// What to drop now that an extent at `offset` was read, while others within `span` bytes before it may be under way.
  Stretch passed(std::uint64_t offset, std::uint64_t span);

 private:
  std::uint64_t m_dropped = 0;
};

}  // namespace dsanalyze
