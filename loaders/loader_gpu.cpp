#include <algorithm>
#include <array>

#include "base/host/host.hpp"
#include "loader_threads.hpp"

namespace dsanalyze {

LoaderGpuWorkers::LoaderGpuWorkers(LoaderFlow& flow) : m_flow(flow), m_counters(flow.parts.gpu ? GpuPrep::threads : 0) {
  for (std::size_t i = 0; i < m_counters.size(); ++i) m_preps.push_back(std::make_unique<GpuPrep::Worker>(*flow.parts.gpu));
}

void LoaderGpuWorkers::add_to(LoaderTotals& totals) const {
  for (const StageCounter& counter : m_counters) totals.gpu_prep += counter.totals();
  totals.prep.samples += totals.gpu_prep.samples;
  totals.prep.bytes += totals.gpu_prep.bytes;
  totals.prep.failures += totals.gpu_prep.failures;
}

void LoaderGpuWorkers::run() {
  const std::uint32_t worker = m_started.fetch_add(1);
  if (!m_flow.options.worker_cpus.empty()) set_thread_affinity(m_flow.options.worker_cpus);
  StageCounter& counter = m_counters[worker];
  std::array<LoaderWork, GpuPrep::group> items;
  std::array<CacheLookup, GpuPrep::group> used;
  Nanoseconds idle_since = m_flow.timing.clock->now();
  for (;;) {
    const std::size_t count = m_flow.ready_for_gpu.pop(items, m_flow.soon());
    if (count == 0) {
      if (m_flow.ready_for_gpu.closed()) return;
      continue;
    }
    const Nanoseconds begun = m_flow.timing.clock->now();
    counter.add_waiting(begun - idle_since);
    const auto group = std::span(items).first(count);
    for (const LoaderWork& item : group) m_flow.keep(item);
    std::size_t prepared = 0;
    try {
      if (!m_flow.over()) prepared = prepare(group, *m_preps[worker]);
    } catch (const std::exception& error) {  // what comes is taken all the same, or the others would wait for it
      m_flow.failures.fail(error);
      m_flow.notify_all();
    }
    const bool over = m_flow.over();
    counter.add(prepared, prepared * m_flow.tensor.sample_bytes(), m_flow.timing.clock->now() - begun);
    for (std::size_t failed = over ? count : prepared; failed < count; ++failed) counter.add_failure();
    std::size_t hits = 0;
    for (const LoaderWork& item : group) {
      m_flow.give_back(item);
      if (item.hit.decision == CacheDecision::hit) used[hits++] = item.hit;
      if (!over) m_flow.finish(item.entry, 1);
    }
    m_flow.room.notify(*m_flow.timing.waiter, 1);
    if (hits > 0) m_flow.parts.cache->release(std::span(used).first(hits));
    idle_since = m_flow.timing.clock->now();
  }
}

std::size_t LoaderGpuWorkers::prepare(std::span<const LoaderWork> items, GpuPrep::Worker& prep) {
  std::array<std::vector<std::byte>, GpuPrep::group> scratch;
  std::vector<GpuPrep::Task> tasks;
  std::vector<const LoaderWork*> of_tasks;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const LoaderWork& item = items[i];
    Status status;
    const auto encoded = m_flow.encoded(item, scratch[i], status);
    if (!status.ok()) {
      m_flow.fail(item, status);
      continue;
    }
    tasks.push_back({{encoded, item.sample, m_flow.assembly.generation(item.entry), item.ready, m_flow.assembly.sample(item.entry, item.position)},
                     m_flow.assembly.draw(item.entry).token.slot,
                     item.position});
    of_tasks.push_back(&item);
  }
  std::array<Status, GpuPrep::group> statuses;
  const auto answers = std::span(statuses).first(tasks.size());
  prep.prepare(tasks, answers);
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (!answers[i].ok()) m_flow.fail(*of_tasks[i], answers[i]);
  return static_cast<std::size_t>(std::ranges::count_if(answers, [](const Status& status) { return status.ok(); }));
}

}  // namespace dsanalyze
