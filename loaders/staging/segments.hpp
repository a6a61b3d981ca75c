#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "base/system/shared_memory.hpp"
#include "view.hpp"

namespace dsanalyze::staging {

std::size_t slab_bytes(const StagingFacts& facts);
/// New segments that this process alone may ever write, at first in the state of a new group, job or producer. Throw Error when there is no memory.
MemorySegment make_board(const StagingFacts& facts);
MemorySegment make_page();
MemorySegment make_slab(const StagingFacts& facts, const SlabMemory& memory = {});
/// Another process's segment, to be read. Throws Error for one of another size or that anyone could still change the size of or write anew.
MemorySegment attach_sealed(FileDescriptor descriptor, std::size_t bytes);

inline Board* board_of(const MemorySegment& segment) { return reinterpret_cast<Board*>(segment.data()); }
inline ControlPage* page_of(const MemorySegment& segment) { return reinterpret_cast<ControlPage*>(segment.data()); }
inline SlabHead* slab_of(const MemorySegment& segment) { return reinterpret_cast<SlabHead*>(segment.data()); }
inline std::span<std::byte> slot_of(SlabHead* slab, const StagingFacts& facts, std::uint32_t slot) {
  return {reinterpret_cast<std::byte*>(slab) + sizeof(SlabHead) + slot * facts.slot_bytes, facts.slot_bytes};
}
inline std::span<const std::byte> slot_of(const SlabHead* slab, const StagingFacts& facts, std::uint32_t slot) {
  return {reinterpret_cast<const std::byte*>(slab) + sizeof(SlabHead) + slot * facts.slot_bytes, facts.slot_bytes};
}

/// What other processes gave to this one, mapped for a View. Threads: any; what was mapped when keep() was called stays mapped while its answer
/// lives.
class Mapped {
 public:
  explicit Mapped(View& view) : m_view(view) {}

  /// Empty segments: the place has none.
  void attach(std::uint32_t place, MemorySegment page, MemorySegment slab);
  void detach(std::uint32_t place) { attach(place, {}, {}); }
  [[nodiscard]] std::shared_ptr<const void> keep() const;
  [[nodiscard]] int page(std::uint32_t place) const;
  [[nodiscard]] int slab(std::uint32_t place) const;

 private:
  struct Pair {
    MemorySegment page;
    MemorySegment slab;
  };
  using All = std::array<std::shared_ptr<const Pair>, most_jobs + 1>;
  View& m_view;
  mutable std::mutex m_mutex;
  std::shared_ptr<const All> m_all = std::make_shared<const All>();
};

}  // namespace dsanalyze::staging
