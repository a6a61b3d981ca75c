#include "epoch_stages.hpp"

namespace dsanalyze::simulation {
namespace {

constexpr std::uint64_t request_key = 0x72657175657374;
constexpr std::uint64_t prep_key = 0x70726570;

}  // namespace

StorageStage::StorageStage(const SimulatedStorage& storage, std::uint64_t seed)
    : m_storage(storage), m_random(mix(seed, request_key)), m_under_way(storage.concurrency) {
  for (std::uint32_t i = 0; i < storage.concurrency; ++i) m_under_way.push(0, 0);
}

Nanoseconds StorageStage::end_when_begun(Bytes bytes, Nanoseconds begin) {
  switch (m_storage.kind) {
    case SimulatedStorage::Kind::device:
      m_busy_seconds += static_cast<double>(bytes) / m_storage.device.bytes_per_second;
      return storage_request_end(m_device, m_storage.device, bytes, begin);
    case SimulatedStorage::Kind::measured: {
      const double seconds = m_storage.request_seconds.draw(m_random.uniform());
      m_busy_seconds += seconds / m_storage.concurrency;
      return begin + to_nanoseconds(seconds);
    }
    case SimulatedStorage::Kind::instant:
      break;
  }
  return begin;
}

Nanoseconds StorageStage::request_end(Bytes bytes, Nanoseconds now) {
  if (m_storage.concurrency == 0) return end_when_begun(bytes, now);
  const Nanoseconds end = end_when_begun(bytes, std::max(now, m_under_way.next()));
  m_under_way.replace_front(end, 0);
  return end;
}

double StorageStage::busy_seconds() const { return m_busy_seconds; }

PrepStage::PrepStage(const SimulatedPrep& prep, double copy_bytes_per_s, std::uint64_t seed)
    : m_kind(prep.kind),
      m_service(prep.seconds_per_sample),
      m_constant_service(to_nanoseconds(prep.seconds_per_sample.mean())),
      m_copy_bytes_per_s(copy_bytes_per_s),
      m_own_core(prep.kind == SimulatedPrep::Kind::threads && (prep.cores == 0 || prep.workers <= prep.cores)),
      m_random(mix(seed, prep_key)),
      m_cores(prep.cores == 0 ? prep.workers : prep.cores) {}

Nanoseconds PrepStage::service() { return m_service.is_constant() ? m_constant_service : to_nanoseconds(m_service.draw(m_random.uniform())); }

Nanoseconds PrepStage::sample_end(Nanoseconds ready, Bytes bytes_in_cache, Nanoseconds now) {
  if (m_kind == SimulatedPrep::Kind::threads) ready = now;
  if (bytes_in_cache > 0 && m_copy_bytes_per_s > 0) {
    ready = std::max(ready, reserve(m_copies, now, to_nanoseconds(static_cast<double>(bytes_in_cache) / m_copy_bytes_per_s), now));
  }
  const Nanoseconds duration = service();
  m_busy += duration;
  return m_own_core ? ready + duration : reserve_earliest(m_cores, ready, duration, now);
}

AcceleratorStage::AcceleratorStage(const SimulatedAccelerators& accelerators)
    : m_samples_per_s(accelerators.samples_per_s),
      m_step(m_samples_per_s > 0 ? accelerators.step : StepMode::independent),
      m_count(m_samples_per_s > 0 ? accelerators.count : 1),
      m_last_ends(m_step == StepMode::lockstep ? 1 : m_count) {
  m_ends.reserve(m_count);
  m_gathered.reserve(m_count);
}

bool AcceleratorStage::wants_batch() const { return m_step == StepMode::lockstep ? m_ends.empty() : m_ends.size() < m_count; }

Nanoseconds AcceleratorStage::step_time(std::uint32_t samples) const { return m_samples_per_s > 0 ? to_nanoseconds(samples / m_samples_per_s) : 0; }

void AcceleratorStage::start(TrainedBatch& batch, Nanoseconds begin_not_before, Nanoseconds step, std::size_t lane) {
  batch.end = accelerator_step_end(m_last_ends[lane], begin_not_before, step);
  batch.stall = m_last_ends[lane] == 0 ? 0 : batch.end - step - m_last_ends[lane];  // nothing is waited for before the first step
  m_ends.push_back(batch.end);
  m_busy += step;
}

void AcceleratorStage::submit(const TrainedBatch& batch, std::vector<TrainedBatch>& started) {
  if (m_step == StepMode::independent) {
    const auto first = static_cast<std::size_t>(std::ranges::min_element(m_last_ends) - m_last_ends.begin());
    TrainedBatch& begun = started.emplace_back(batch);
    start(begun, batch.ready, step_time(batch.samples), first);
    m_last_ends[first] = begun.end;
    return;
  }
  m_gathered.push_back(batch);
  if (m_gathered.size() < std::min(batch.slices, m_count)) return;
  Nanoseconds ready = 0;
  std::uint32_t largest = 0;
  for (const TrainedBatch& each : m_gathered) {
    ready = std::max(ready, each.ready);
    largest = std::max(largest, each.samples);
  }
  for (const TrainedBatch& each : m_gathered) start(started.emplace_back(each), ready, step_time(largest), 0);
  m_last_ends[0] = started.back().end;
  m_gathered.clear();
}

Nanoseconds AcceleratorStage::first_end() const { return *std::ranges::min_element(m_ends); }

std::size_t AcceleratorStage::reap(Nanoseconds now) {
  return std::erase_if(m_ends, [now](Nanoseconds end) { return end <= now; });
}

}  // namespace dsanalyze::simulation
