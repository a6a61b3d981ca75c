#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsanalyze {

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
