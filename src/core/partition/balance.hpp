#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dsanalyze {

/// So many samples of a mini-batch that one rank hands to another: one message.
struct Transfer {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t count = 0;
  bool operator==(const Transfer&) const = default;
};

/// Algorithm 1 of [Yang-Cong, section V-C]: the largest surplus goes to the largest deficit, two heaps. At most one message fewer than there are
/// ranks out of balance, so p - 1, and at most twice the fewest that would do (Theorem 2); O(p log p). Deterministic: of equal imbalances the lower
/// rank is first. Threads: one an object. Allocation: none once it has seen as many ranks.
class Balancer {
 public:
  /// `imbalances`: by rank, samples above its target, below 0 what lacks. What has no counterpart, where they do not add up to 0, stays. Valid until
  /// the next call.
  std::span<const Transfer> balance(std::span<const std::int32_t> imbalances);

 private:
  std::vector<std::uint64_t> m_surpluses;  ///< heaps
  std::vector<std::uint64_t> m_deficits;
  std::vector<Transfer> m_transfers;
};

/// Puts `value` in the place of a heap's largest element. The hole goes down to a leaf and the value up from there: it is seldom large. Requires a
/// heap of one element or more.
inline void replace_largest(std::vector<std::uint64_t>& heap, std::uint64_t value) {
  const std::size_t size = heap.size();
  std::size_t hole = 0;
  for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
    if (child + 1 < size) child += heap[child + 1] > heap[child] ? 1 : 0;
    heap[hole] = heap[child];
    hole = child;
  }
  for (std::size_t parent = 0; hole > 0; hole = parent) {
    parent = (hole - 1) / 2;
    if (heap[parent] >= value) break;
    heap[hole] = heap[parent];
  }
  heap[hole] = value;
}

/// Sorts by the upper 32 bits, the largest first; equal ones stay in their order. A radix sort: mini-batches of many ranks are large.
inline void sort_by_upper_half(std::vector<std::uint64_t>& values, std::vector<std::uint64_t>& scratch) {
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  scratch.resize(values.size());
  for (unsigned shift = 32; shift < 64; shift += digit_bits) {
    std::size_t ends[digits + 1] = {};
    const auto place_of = [shift](std::uint64_t value) { return digits - 1 - (value >> shift & (digits - 1)); };
    for (const std::uint64_t value : values) ++ends[place_of(value) + 1];
    for (std::size_t digit = 1; digit < digits; ++digit) ends[digit] += ends[digit - 1];
    for (const std::uint64_t value : values) scratch[ends[place_of(value)]++] = value;
    values.swap(scratch);
  }
}

}  // namespace dsanalyze
