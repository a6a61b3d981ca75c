#include "job_batches.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/clock.hpp"

namespace dsanalyze {

Status JobBatches::next(Batch& batch, Deadline deadline) {
  const Status status = m_from.next(batch, deadline);
  if (!status.ok()) return status;
  const std::byte* const slot = m_from.memory(batch);
  Epoch& epoch = m_epochs[batch.epoch];
  epoch.samples += batch.count;
  m_failed += batch.failed;
  for (std::uint32_t i = 0; i < batch.count; ++i) {
    SampleId id = 0;
    std::memcpy(&id, slot + batch.ids_offset + i * sizeof id, sizeof id);
    epoch.digest.add(id);
  }
  if (m_copy.empty()) return status;
  const Nanoseconds before = thread_cpu_time();
  std::memcpy(m_copy.data(), slot + batch.samples_offset, std::min(m_copy.size(), batch.count * batch.tensor.sample_bytes()));
  m_copying += thread_cpu_time() - before;
  batch.ready_at = m_timing.clock->now();
  return status;
}

}  // namespace dsanalyze
