#include "batch_assembly.hpp"

#include <algorithm>
#include <cstring>

#include "base/random.hpp"
#include "loaders/prep/gpu_prep.hpp"

namespace dsanalyze {

BatchAssembly::BatchAssembly(std::uint32_t entries, const TensorShape& tensor, OnError on_error, GpuPrep* gpu)
    : m_tensor(tensor), m_layout(tensor), m_sample_bytes(tensor.sample_bytes()), m_on_error(on_error), m_gpu(gpu), m_entries(entries) {
  for (auto& entry : m_entries) entry.bad.resize(static_cast<std::size_t>(tensor.shape[0]));
}

std::span<SampleId> BatchAssembly::ids(const Entry& entry) const {
  auto* first = reinterpret_cast<SampleId*>(entry.draw.slot + m_layout.ids_at);
  return {first, entry.drawn};
}

std::span<std::uint32_t> BatchAssembly::labels(const Entry& entry) const {
  auto* first = reinterpret_cast<std::uint32_t*>(entry.draw.slot + m_layout.labels_at);
  return {first, entry.drawn};
}

void BatchAssembly::begin(std::uint32_t number, const Draw& draw, std::span<const SampleId> drawn_ids, const DatasetIndex& index) {
  Entry& entry = m_entries[number];
  entry.draw = draw;
  entry.drawn = static_cast<std::uint32_t>(drawn_ids.size());
  entry.digest = {};
  if (entry.failed.exchange(0, std::memory_order_relaxed) > 0) std::ranges::fill(entry.bad, std::uint8_t{0});
  entry.pending.store(entry.drawn, std::memory_order_release);
  std::ranges::copy(drawn_ids, ids(entry).begin());
  const auto label = labels(entry);
  for (std::size_t i = 0; i < drawn_ids.size(); ++i) label[i] = index[drawn_ids[i]].label;
}

std::span<std::byte> BatchAssembly::sample(std::uint32_t entry, std::uint32_t position) const {
  return {m_entries[entry].draw.slot + position * m_sample_bytes, m_sample_bytes};
}

void BatchAssembly::mark_failed(std::uint32_t entry, std::uint32_t position) {
  m_entries[entry].bad[position] = 1;
  m_entries[entry].failed.fetch_add(1, std::memory_order_relaxed);
}

bool BatchAssembly::finish(std::uint32_t number, std::uint32_t done, Nanoseconds now) {
  Entry& entry = m_entries[number];
  if (entry.pending.fetch_sub(done, std::memory_order_acq_rel) != done) return false;
  entry.good = entry.drawn;
  const std::uint32_t failed = entry.failed.load(std::memory_order_relaxed);
  if (failed > 0 && failed < entry.drawn && m_on_error == OnError::substitute) {
    substitute(entry);
  } else if (failed > 0) {
    close_gaps(entry);
  }
  for (const SampleId id : ids(entry).first(entry.good)) entry.digest.add(id);
  entry.ready_at = now;
  return true;
}

void BatchAssembly::copy_sample(const Entry& entry, std::uint32_t from, std::uint32_t to) {
  std::byte* samples = entry.draw.slot;
  if (m_gpu != nullptr)
    m_gpu->move({entry.draw.token.slot, samples, entry.draw.on_gpu, from, to});
  else
    std::memcpy(samples + to * m_sample_bytes, samples + from * m_sample_bytes, m_sample_bytes);
  ids(entry)[to] = ids(entry)[from];
  labels(entry)[to] = labels(entry)[from];
}

// Which good sample fills a gap depends on the batch alone, so every process that makes the batch makes the same one.
void BatchAssembly::substitute(Entry& entry) {
  for (std::uint32_t position = 0; position < entry.drawn; ++position) {
    if (entry.bad[position] == 0) continue;
    auto from = static_cast<std::uint32_t>(mix(entry.draw.epoch, ids(entry)[position]) % entry.drawn);
    while (entry.bad[from] != 0) from = (from + 1) % entry.drawn;
    copy_sample(entry, from, position);
  }
}

void BatchAssembly::close_gaps(Entry& entry) {
  std::uint32_t end = entry.drawn;
  for (std::uint32_t position = 0; position < end; ++position) {
    if (entry.bad[position] == 0) continue;
    while (end > position + 1 && entry.bad[end - 1] != 0) --end;
    --end;
    if (end == position) break;
    copy_sample(entry, end, position);
  }
  entry.good = end;
}

BatchAssembly::Finished BatchAssembly::finished(std::uint32_t number) const {
  const Entry& entry = m_entries[number];
  return {entry.good, entry.failed.load(std::memory_order_relaxed), entry.ready_at};
}

void BatchAssembly::publish(std::uint32_t entry) {
  m_published.fetch_add(1, std::memory_order_relaxed);
  m_entries[entry].published.store(m_entries[entry].draw.sequence + 1, std::memory_order_release);
}

bool BatchAssembly::take(std::uint64_t sequence, Batch& batch) {
  const Entry& entry = m_entries[entry_of(sequence)];
  if (entry.published.load(std::memory_order_acquire) != sequence + 1) return false;
  m_taken.fetch_add(1, std::memory_order_release);
  batch = {.sequence = sequence,
           .step = entry.draw.step,
           .slice = entry.draw.slice,
           .slices = entry.draw.slices,
           .epoch = entry.draw.epoch,
           .generation = entry.draw.epoch,
           .count = entry.good,
           .failed = entry.failed.load(std::memory_order_relaxed),
           .last_of_epoch = entry.draw.last,
           .tensor = m_tensor,
           .samples_offset = 0,
           .ids_offset = m_layout.ids_at,
           .labels_offset = m_layout.labels_at,
           .ready_at = entry.ready_at,
           .token = entry.draw.token,
           .on_gpu = std::min(entry.draw.on_gpu, entry.good)};
  batch.tensor.shape[0] = entry.good;
  return true;
}

}  // namespace dsanalyze
