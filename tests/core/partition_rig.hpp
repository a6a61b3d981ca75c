#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "core/partition/assignment.hpp"
#include "core/partition/partition.hpp"

namespace dsanalyze::testing {

/// Samples of log-normal sizes with this mean, as photographs have.
inline std::vector<IndexRecord> log_normal_records(std::size_t samples, std::uint64_t seed, double mean_bytes = 110e3) {
  constexpr double sigma = 0.6;
  RandomStream random(seed);
  std::vector<IndexRecord> records(samples);
  for (IndexRecord& record : records) record.length = static_cast<std::uint64_t>(mean_bytes * std::exp(sigma * random.normal() - sigma * sigma / 2));
  return records;
}

inline Bytes bytes_of(std::span<const IndexRecord> records) {
  return std::accumulate(records.begin(), records.end(), Bytes{0}, [](Bytes sum, const IndexRecord& record) { return sum + record.length; });
}

inline std::vector<SampleId> shuffled_ids(std::size_t samples, std::uint64_t seed) {
  std::vector<SampleId> ids(samples);
  random_permutation(seed, ids);
  return ids;
}

/// Calls with each global mini-batch of one epoch in random order.
template <typename Each>
void each_batch(std::size_t samples, std::size_t batch, std::uint64_t seed, const Each& each) {
  const std::vector<SampleId> order = shuffled_ids(samples, seed);
  for (std::size_t at = 0; at < samples; at += batch) each(std::span(order).subspan(at, std::min(batch, samples - at)));
}

/// The caches of all ranks, as MinIO fills them: what fits is taken and stays.
class CachesOfRanks {
 public:
  CachesOfRanks(std::span<const IndexRecord> records, std::vector<Bytes> capacities)
      : m_records(records),
        m_capacities(std::move(capacities)),
        m_free(m_capacities),
        m_bitmaps(m_capacities.size() * held_bitmap_bytes(records.size())) {}
  void offer(std::uint32_t rank, SampleId sample) {
    if (m_records[sample].length > m_free[rank]) return;
    m_free[rank] -= m_records[sample].length;
    hold(rank, sample);
  }
  void hold(std::uint32_t rank, SampleId sample) {
    m_bitmaps[rank * held_bitmap_bytes(m_records.size()) + sample / 8] |= std::byte(1U << (sample % 8));
  }
  [[nodiscard]] MadeDirectory make() const { return make_directory({m_bitmaps, m_free, m_capacities}, m_records); }
  [[nodiscard]] const std::vector<Bytes>& free() const { return m_free; }
  [[nodiscard]] const std::vector<Bytes>& capacities() const { return m_capacities; }

 private:
  std::span<const IndexRecord> m_records;
  std::vector<Bytes> m_capacities, m_free;
  std::vector<std::byte> m_bitmaps;
};

/// Whether the ranks' parts have a batch's samples once each, in exact sizes, nothing with the dead.
template <typename Parts>
bool parts_are_exact(const Parts& parts, std::span<const SampleId> batch, const AliveRanks& alive) {
  std::vector<SampleId> joined;
  for (std::uint32_t rank = 0; rank < alive.ranks(); ++rank) {
    const auto part = parts.part(rank);
    const std::size_t expected =
        alive.alive(rank) ? Assignment::slice(batch, static_cast<int>(alive.place(rank)), static_cast<int>(alive.count())).size() : 0;
    if (part.size() != expected) return false;
    joined.insert(joined.end(), part.begin(), part.end());
  }
  std::vector<SampleId> all(batch.begin(), batch.end());
  std::ranges::sort(all);
  std::ranges::sort(joined);
  return joined == all;
}

}  // namespace dsanalyze::testing
