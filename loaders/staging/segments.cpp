#include "segments.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze::staging {

std::size_t slab_bytes(const StagingFacts& facts) { return sizeof(SlabHead) + facts.slots() * facts.slot_bytes; }

MemorySegment make_board(const StagingFacts& facts) {
  MemorySegment segment = MemorySegment::create("staging board", sizeof(Board), HugePages::never);
  auto* const board = new (segment.data()) Board;
  board->facts = facts;
  board->opened.store(facts.first_epoch, std::memory_order_release);
  segment.forbid_future_writers();
  return segment;
}

MemorySegment make_page() {
  MemorySegment segment = MemorySegment::create("staging control page", sizeof(ControlPage), HugePages::never);
  new (segment.data()) ControlPage;
  segment.forbid_future_writers();
  return segment;
}

MemorySegment make_slab(const StagingFacts& facts, const SlabMemory& memory) {
  MemorySegment segment = MemorySegment::create("staged batches", slab_bytes(facts), HugePages::where_allowed, memory.promised);
  new (segment.data()) SlabHead;
  if (!memory.aside) segment.populate();  // or the first batches would pay for it
  segment.forbid_future_writers();
  return segment;
}

MemorySegment attach_sealed(FileDescriptor descriptor, std::size_t bytes) {
  MemorySegment segment = MemorySegment::attach(std::move(descriptor), Access::read_only, bytes);
  if (!segment.future_writers_forbidden()) throw Error("cannot attach staging memory: it is not sealed against other writers");
  if (segment.size() != bytes) {
    throw Error(fmt::format("cannot attach staging memory: it has {} bytes, the group agreed on {}", segment.size(), bytes));
  }
  return segment;
}

void Mapped::attach(std::uint32_t place, MemorySegment page, MemorySegment slab) {
  const std::scoped_lock lock(m_mutex);
  auto all = std::make_shared<All>(*m_all);
  auto pair = std::make_shared<const Pair>(Pair{std::move(page), std::move(slab)});
  if (place < most_jobs) m_view.map_page(place, pair->page.size() == 0 ? nullptr : page_of(pair->page));
  m_view.map_slab(place, pair->slab.size() == 0 ? nullptr : slab_of(pair->slab));
  (*all)[place] = std::move(pair);
  m_all = std::move(all);
}

std::shared_ptr<const void> Mapped::keep() const {
  const std::scoped_lock lock(m_mutex);
  return m_all;
}

int Mapped::page(std::uint32_t place) const {
  const std::scoped_lock lock(m_mutex);
  const auto& pair = m_all->at(place);
  return pair == nullptr ? -1 : pair->page.descriptor();
}

int Mapped::slab(std::uint32_t place) const {
  const std::scoped_lock lock(m_mutex);
  const auto& pair = m_all->at(place);
  return pair == nullptr ? -1 : pair->slab.descriptor();
}

}  // namespace dsanalyze::staging
