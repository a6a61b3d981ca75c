#include "slot_pool.hpp"

#include <numeric>

#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t slot_alignment = 4096;

}  // namespace

SlotLayout::SlotLayout(const TensorShape& batch_tensor) {
  const auto batch = static_cast<std::size_t>(batch_tensor.shape[0]);
  ids_at = round_up(batch * batch_tensor.sample_bytes(), 64);
  labels_at = ids_at + round_up(batch * sizeof(SampleId), 64);
  bytes = round_up(labels_at + batch * sizeof(std::uint32_t), slot_alignment);
}

SlotPool::SlotPool(std::uint32_t slots, const TensorShape& batch_tensor, Timing timing, SlotPages pages)
    : m_layout(batch_tensor), m_memory(required("batch slots", m_layout.bytes * slots)), m_generations(slots), m_free(slots, timing) {
  for (std::uint32_t slot = 0; slot < slots; ++slot) m_rooms.emplace_back(m_sample_memory);
  if (pages == SlotPages::before_use) m_memory.populate();  // or a short run would treat it as the pace of prep
  std::vector<std::uint32_t> all(slots);
  std::iota(all.begin(), all.end(), 0U);
  m_free.push(all, timing.clock->after(1));
}

bool SlotPool::acquire(ReleaseToken& token, Deadline deadline) {
  std::uint32_t slot = 0;
  if (m_free.pop({&slot, 1}, deadline) == 0) return false;
  token = {slot, m_generations[slot].fetch_add(1, std::memory_order_acq_rel) + 1};
  return true;
}

Status SlotPool::release(ReleaseToken token) {
  if (token.slot >= m_generations.size() || token.generation % 2 == 0) return {StatusCode::corrupt, 0};
  std::uint64_t expected = token.generation;
  if (!m_generations[token.slot].compare_exchange_strong(expected, token.generation + 1, std::memory_order_acq_rel)) return {StatusCode::corrupt, 0};
  m_rooms[token.slot].clear();
  m_free.push({&token.slot, 1}, Deadline{0});
  return {};
}

}  // namespace dsanalyze
