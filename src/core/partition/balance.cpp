#include "balance.hpp"

#include <algorithm>

namespace dsanalyze {
namespace {

/// An element of a heap: the amount above, the rank reversed below, so that of equal amounts the lower rank is the greater element.
std::uint64_t heap_element(std::uint32_t amount, std::uint32_t rank) { return std::uint64_t{amount} << 32 | (UINT32_MAX - rank); }
std::uint32_t amount_of(std::uint64_t element) { return static_cast<std::uint32_t>(element >> 32); }
std::uint32_t rank_of(std::uint64_t element) { return UINT32_MAX - static_cast<std::uint32_t>(element); }

void take_from_largest(std::vector<std::uint64_t>& heap, std::uint32_t amount) {
  const std::uint64_t largest = heap.front();
  if (amount_of(largest) > amount) {
    replace_largest(heap, heap_element(amount_of(largest) - amount, rank_of(largest)));
  } else {
    std::ranges::pop_heap(heap);
    heap.pop_back();
  }
}

}  // namespace

std::span<const Transfer> Balancer::balance(std::span<const std::int32_t> imbalances) {
  for (auto* heap : {&m_surpluses, &m_deficits}) {
    heap->clear();
    heap->reserve(imbalances.size());
  }
  m_transfers.clear();
  m_transfers.reserve(imbalances.size());
  for (std::uint32_t rank = 0; rank < imbalances.size(); ++rank) {
    const std::int32_t imbalance = imbalances[rank];
    if (imbalance > 0) m_surpluses.push_back(heap_element(static_cast<std::uint32_t>(imbalance), rank));
    if (imbalance < 0) m_deficits.push_back(heap_element(0U - static_cast<std::uint32_t>(imbalance), rank));
  }
  std::ranges::make_heap(m_surpluses);
  std::ranges::make_heap(m_deficits);
  while (!m_surpluses.empty() && !m_deficits.empty()) {
    const std::uint64_t surplus = m_surpluses.front();
    const std::uint64_t deficit = m_deficits.front();
    const std::uint32_t count = std::min(amount_of(surplus), amount_of(deficit));
    m_transfers.push_back({rank_of(surplus), rank_of(deficit), count});
    take_from_largest(m_surpluses, count);
    take_from_largest(m_deficits, count);
  }
  return m_transfers;
}

}  // namespace dsanalyze
