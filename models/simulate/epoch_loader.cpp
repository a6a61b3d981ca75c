#include "epoch_loader.hpp"

#include <algorithm>

#include "core/depths.hpp"

namespace dsanalyze::simulation {
namespace {

std::uint32_t slots_of(const EpochSetup& setup) { return setup.prefetch_batches + setup.accelerators.count; }

}  // namespace

LoaderStage::LoaderStage(const EpochSetup& setup, Held held)
    : m_setup(setup),
      m_draws(setup),
      m_cache(setup, m_draws, held),
      m_storage(setup.storage, setup.seed),
      m_prep(setup.prep, setup.cache.copy_bytes_per_s, setup.seed),
      m_slices(setup.accelerators.step == StepMode::lockstep ? setup.accelerators.count : 1),
      m_free_slots(slots_of(setup)),
      m_free_places(setup.storage.fetch_places),
      m_requests(setup.storage.fetch_places),
      m_ready(std::size_t{slots_of(setup)} * setup.batch_size),
      m_workers(setup.prep.workers),
      m_busy_workers(setup.prep.workers),
      m_entries(slots_of(setup)) {
  m_misses.reserve(setup.batch_size);
  if (setup.order.buffers()) m_window.resize(setup.samples);
  for (std::uint32_t i = 0; i < setup.prep.workers; ++i) m_idle_workers.push_back(i);
  m_counts.reserve(setup.epochs);
  feed(0);
  settle_down(0);
}

Nanoseconds LoaderStage::next_event() const { return std::min({m_requests.next(), m_busy_workers.next(), m_looks_up_at}); }

void LoaderStage::run(Nanoseconds now) {
  complete_requests(now);
  while (m_busy_workers.next() <= now) {
    const std::uint32_t number = m_busy_workers.front();
    Worker& worker = m_workers[number];
    end_sample(worker, now);
    const Nanoseconds end = go_on(worker, now);
    if (end != never) {
      m_busy_workers.replace_front(end, number);
    } else {
      m_busy_workers.pop();
      m_idle_workers.push_back(number);
    }
  }
  settle_down(now);
}

// All that follows without time passing.
void LoaderStage::settle_down(Nanoseconds now) {
  for (;;) {
    start_idle_workers(now);
    const bool wakes = (m_waits_for == WaitsFor::settled && m_settled) || (m_waits_for == WaitsFor::room && (m_room || m_looks_up_at <= now));
    if (!wakes) return;
    feed(now);
  }
}

// The reaper.
void LoaderStage::complete_requests(Nanoseconds now) {
  while (m_requests.next() <= now) {
    const Request& request = m_requests.front();
    arrive({m_requests.next(), request.sample, request.entry, request.source});
    if (request.source == Source::storage && --m_unsettled == 0) m_settled = true;
    m_requests.pop();
  }
}

void LoaderStage::arrive(const Item& item) {
  if (item.entry != in_window) return push(item);
  Place& place = m_window[item.sample];
  if (!place.drawn) {
    place.item = item;
    place.arrived = true;
    return;
  }
  Item whole = item;
  whole.entry = place.item.entry;
  place = {};
  push(whole);
}

// Workers.
void LoaderStage::end_sample(Worker& worker, Nanoseconds now) {
  const Item& item = worker.items[worker.at];
  if (item.source != Source::cache) ++m_free_places;
  ++worker.at;
  ++worker.done_of_entry;
  if (worker.at < worker.count && worker.items[worker.at].entry == item.entry) return;
  Entry& entry = m_entries[item.entry];
  entry.pending -= worker.done_of_entry;
  worker.done_of_entry = 0;
  if (entry.pending > 0) return;
  entry.batch.ready = now;
  entry.prepared = true;
}

// When the worker's next sample ends; `never` when there is none.
Nanoseconds LoaderStage::go_on(Worker& worker, Nanoseconds now) {
  for (;;) {
    if (worker.at == worker.count) {
      m_room = m_room || worker.count > 0;
      if (!take_group(worker)) return never;
    }
    const Item& item = worker.items[worker.at];
    const Bytes in_cache = item.source == Source::cache ? m_draws.bytes(item.sample) : 0;
    const Nanoseconds end = m_prep.sample_end(item.ready, in_cache, now);
    if (end > now) return end;
    end_sample(worker, now);
  }
}

bool LoaderStage::take_group(Worker& worker) {
  worker.at = 0;
  worker.count =
      static_cast<std::uint32_t>(std::min({worker_group, m_ready_count, std::max<std::size_t>(m_ready_count / (m_workers.size() * 2), 1)}));
  for (std::uint32_t i = 0; i < worker.count; ++i) {
    worker.items[i] = m_ready[m_ready_head];
    m_ready_head = m_ready_head + 1 == m_ready.size() ? 0 : m_ready_head + 1;
    if (worker.items[i].source == Source::storage_for_cache && --m_unsettled == 0) m_settled = true;  // kept before the first is prepared
  }
  m_ready_count -= worker.count;
  return worker.count > 0;
}

void LoaderStage::start_idle_workers(Nanoseconds now) {
  while (m_ready_count > 0 && !m_idle_workers.empty()) {
    const std::uint32_t number = m_idle_workers.back();
    Worker& worker = m_workers[number];
    worker.count = worker.at = 0;
    const Nanoseconds end = go_on(worker, now);
    if (end == never) continue;  // its samples took no time
    m_idle_workers.pop_back();
    m_busy_workers.push(end, number);
  }
}

// The consumer's side.
bool LoaderStage::take(TrainedBatch& batch) {
  Entry& entry = m_entries[m_taken % m_entries.size()];
  if (m_taken == m_begun || !entry.prepared) return false;
  batch = entry.batch;
  entry.prepared = false;
  ++m_taken;
  return true;
}

void LoaderStage::release_slots(std::size_t count, Nanoseconds now) {
  m_free_slots += static_cast<std::uint32_t>(count);
  if (m_waits_for == WaitsFor::slot) feed(now);
  settle_down(now);
}

void TrainingLoop::run(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started) {
  while (m_doing != Doing::nothing_more) {
    if (m_doing == Doing::awaits_end) {
      if (now < m_goes_on_at) return;
      loader.release_slots(m_accelerators.reap(now), now);
      m_doing = Doing::looks;
    } else if (!ask(loader, now, started)) {
      return;
    }
  }
}

bool TrainingLoop::ask(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started) {
  const bool waited = m_doing == Doing::awaits_batch;
  m_doing = Doing::looks;
  if (m_more && m_accelerators.wants_batch()) {
    TrainedBatch batch;
    if (loader.take(batch)) {
      m_accelerators.submit(batch, started);
      if (m_accelerators.wants_batch()) return true;
    } else if (loader.ended()) {
      m_more = false;
    } else if (!waited || now < m_goes_on_at) {
      if (!waited) m_goes_on_at = now + to_nanoseconds(look_up_seconds);
      m_doing = Doing::awaits_batch;
      return false;
    }
  }
  begin_reaping(now);
  return true;
}

void TrainingLoop::begin_reaping(Nanoseconds now) {
  if (m_accelerators.runs()) {
    m_goes_on_at = std::min(m_accelerators.first_end(), now + to_nanoseconds(look_up_seconds));
    m_doing = Doing::awaits_end;
  } else if (!m_more) {
    m_goes_on_at = never;
    m_doing = Doing::nothing_more;
  }
}

}  // namespace dsanalyze::simulation
