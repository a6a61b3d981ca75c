#include "buffer_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <numeric>
#include <utility>

#include "file_access.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t region_bytes = std::size_t{32} << 20;  // of addresses: memory comes with the first touch
constexpr std::size_t region_pages = region_bytes / page_bytes;
constexpr std::size_t largest_shared = region_bytes / 8;

constexpr std::size_t pages_of(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes; }

std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);  // without them it works too, slower
  return static_cast<std::byte*>(memory);
}

/// `region_bytes` that begin at a huge page.
std::byte* map_region() {
  std::byte* const memory = map(region_bytes + huge_page);
  if (memory == nullptr) return nullptr;
  const std::size_t lead = (huge_page - reinterpret_cast<std::uintptr_t>(memory) % huge_page) % huge_page;
  if (lead > 0) munmap(memory, lead);
  munmap(memory + lead + region_bytes, huge_page - lead);
  return memory + lead;
}

/// The number of equal bits from `at` on.
std::size_t run_length(std::span<const std::uint64_t> bits, std::size_t at, std::size_t most, std::uint64_t same) {
  std::size_t length = 0;
  while (length < most && at + length < bits.size() * 64) {
    const std::size_t bit = (at + length) % 64;
    const std::uint64_t differs = (bits[(at + length) / 64] ^ same) >> bit;
    const std::size_t here = std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(differs)), 64 - bit);
    length += here;
    if (here < 64 - bit) break;
  }
  return length;
}

/// The smallest run of free pages that has `count`, which leaves the larger ones whole; bits.size() * 64 when there is none.
std::size_t find_run(std::span<const std::uint64_t> used, std::size_t count) {
  const std::size_t end = used.size() * 64;
  std::size_t best = end, best_length = end + 1;
  for (std::size_t at = 0; at < end;) {
    at += run_length(used, at, end, ~std::uint64_t{0});
    const std::size_t free = run_length(used, at, end, 0);
    if (free == count) return at;
    if (free > count && free < best_length) {
      best = at;
      best_length = free;
    }
    at += free;
  }
  return best;
}

void set_bits(std::span<std::uint64_t> bits, std::size_t at, std::size_t count, bool value) {
  while (count > 0) {
    const std::size_t bit = at % 64;
    const std::size_t here = std::min(count, 64 - bit);
    const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << bit;
    bits[at / 64] = value ? bits[at / 64] | mask : bits[at / 64] & ~mask;
    at += here;
    count -= here;
  }
}

}  // namespace

BufferPool::BufferPool(std::size_t places) : m_free(places), m_places(places) {
  std::iota(m_free.rbegin(), m_free.rend(), 0U);
  m_large.reserve(places);
}

BufferPool::~BufferPool() {
  for (const Region& region : m_regions) munmap(region.data, region_bytes);
  for (const Large& large : m_large) {
    if (large.data != nullptr) munmap(large.data, large.size);
  }
}

bool BufferPool::take(std::span<std::uint32_t> ids) {
  const std::scoped_lock lock(m_mutex);
  if (m_free.size() < ids.size()) return false;
  for (auto& id : ids) {
    id = m_free.back();
    m_free.pop_back();
  }
  return true;
}

void BufferPool::give_back(std::span<const FetchBuffer> buffers) {
  const std::scoped_lock lock(m_mutex);
  for (const FetchBuffer& buffer : buffers) {
    if (buffer.id == FetchBuffer::none) continue;
    free_memory(m_places[buffer.id]);
    m_free.push_back(buffer.id);
  }
}

std::size_t BufferPool::free_places() const {
  const std::scoped_lock lock(m_mutex);
  return m_free.size();
}

std::size_t BufferPool::arena_bytes() const {
  const std::scoped_lock lock(m_mutex);
  std::size_t bytes = 0;
  for (const Region& region : m_regions) bytes += region.highest * page_bytes;
  for (const Large& large : m_large) bytes += large.size;
  return bytes;
}

std::span<std::byte> BufferPool::memory(std::uint32_t id, std::size_t bytes) {
  const std::scoped_lock lock(m_mutex);
  Place& place = m_places[id];
  free_memory(place);
  try {
    const bool taken = bytes > largest_shared ? take_large(place, bytes) : take_pages(place, std::max<std::size_t>(pages_of(bytes), 1));
    if (taken) return {place.data, place.pages * page_bytes};
  } catch (const std::bad_alloc&) {  // as if the system had none for the bytes themselves
    return {};
  }
  return {};
}

bool BufferPool::take_pages(Place& place, std::size_t pages) {
  for (std::size_t i = 0;; ++i) {
    if (i == m_regions.size() && !add_region()) return false;
    Region& region = m_regions[i];
    if (region.free_pages < pages) continue;
    const std::size_t at = find_run(region.used, pages);
    if (at == region_pages) continue;
    set_bits(region.used, at, pages, true);
    region.free_pages -= pages;
    region.highest = std::max(region.highest, at + pages);
    place = {region.data + at * page_bytes, pages, i, false};
    return true;
  }
}

/// The smallest free one that is large enough; else the largest free one grows; else there is one more.
bool BufferPool::take_large(Place& place, std::size_t bytes) {
  Large* best = nullptr;
  for (Large& large : m_large) {
    if (large.taken) continue;
    const bool fits = large.size >= bytes;
    const bool best_fits = best != nullptr && best->size >= bytes;
    if (best == nullptr || (fits ? !best_fits || large.size < best->size : !best_fits && large.size > best->size)) best = &large;
  }
  if (best == nullptr) best = &m_large.emplace_back();
  if (best->size < bytes) {
    if (best->data != nullptr) munmap(best->data, best->size);
    const std::size_t wanted = pages_of(bytes + bytes / 16) * page_bytes;
    *best = {map(wanted), wanted, false};
    if (best->data == nullptr) {
      best->size = 0;
      return false;
    }
  }
  best->taken = true;
  place = {best->data, best->size / page_bytes, static_cast<std::size_t>(best - m_large.data()), true};
  return true;
}

bool BufferPool::add_region() {
  std::vector<std::uint64_t> used(region_pages / 64);
  m_regions.reserve(m_regions.size() + 1);
  std::byte* const data = map_region();
  if (data == nullptr) return false;
  m_regions.push_back({data, std::move(used), region_pages, 0});
  return true;
}

void BufferPool::free_memory(Place& place) {
  if (place.data == nullptr) return;
  if (place.large) {
    m_large[place.part].taken = false;
  } else {
    Region& region = m_regions[place.part];
    set_bits(region.used, static_cast<std::size_t>(place.data - region.data) / page_bytes, place.pages, false);
    region.free_pages += place.pages;
  }
  place = {};
}

}  // namespace dsanalyze
