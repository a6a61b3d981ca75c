#include <algorithm>

#include "core/depths.hpp"
#include "core/partition/assignment.hpp"
#include "epoch_loader.hpp"

namespace dsanalyze::simulation {
// Goes as far as it can without time passing.
void LoaderStage::feed(Nanoseconds now) {
  m_waits_for = WaitsFor::nothing;
  m_looks_up_at = never;
  while (m_waits_for == WaitsFor::nothing) {
    switch (m_feeding) {
      case Feeding::next_step:
        if (begin_step()) m_feeding = m_window.empty() ? Feeding::slice : Feeding::ahead;
        break;
      case Feeding::ahead:
        look_ahead(now);
        break;
      case Feeding::slice:
        begin_slice(now);
        break;
      case Feeding::submit_ahead:
        if (submit(now)) m_feeding = Feeding::ahead;
        break;
      case Feeding::submit_slice:
        if (submit(now)) m_feeding = Feeding::slice;
        break;
    }
  }
}

bool LoaderStage::begin_step() {
  const bool first = m_counts.empty();
  if (first || m_draws.epoch_ends()) {
    if (m_unsettled > 0) {
      m_settled = false;
      m_waits_for = WaitsFor::settled;
      return false;
    }
    if (m_next_epoch == m_setup.epochs) {
      m_waits_for = WaitsFor::nothing_more;
      return false;
    }
    m_draws.begin_epoch(m_next_epoch++);
    m_counts.push_back({m_draws.epoch_samples(), 0, 0, 0});
    m_step = 0;
  }
  m_global = m_draws.next(std::size_t{m_setup.batch_size} * m_slices);
  m_step_slices = std::min(m_slices, static_cast<std::uint32_t>(m_global.size()));
  m_slice = 0;
  if (!m_window.empty()) m_ahead = m_draws.ahead();
  return true;
}

void LoaderStage::look_ahead(Nanoseconds now) {
  if (m_ahead.empty()) {
    m_feeding = Feeding::slice;
    return;
  }
  const std::size_t count = std::min<std::size_t>(m_ahead.size(), m_setup.batch_size);
  dispatch(m_ahead.first(count), in_window, now);
  m_ahead = m_ahead.subspan(count);
  m_feeding = Feeding::submit_ahead;
}

void LoaderStage::begin_slice(Nanoseconds now) {
  if (m_slice == m_step_slices) {
    ++m_step;
    m_feeding = Feeding::next_step;
    return;
  }
  if (m_free_slots == 0) {
    m_waits_for = WaitsFor::slot;
    return;
  }
  --m_free_slots;
  const auto samples = Assignment::slice(m_global, static_cast<int>(m_slice), static_cast<int>(m_step_slices));
  const auto entry = static_cast<std::uint32_t>(m_begun++ % m_entries.size());
  const auto count = static_cast<std::uint32_t>(samples.size());
  m_entries[entry] = {count, false, {m_next_epoch - 1, m_step, count, m_step_slices, 0, 0, 0}};
  ++m_slice;
  if (!m_window.empty()) return draw_from_window(samples, entry, now);
  dispatch(samples, entry, now);
  m_feeding = Feeding::submit_slice;
}

// Hits go on at once, misses after them.
void LoaderStage::dispatch(std::span<const SampleId> samples, std::uint32_t entry, Nanoseconds now) {
  const auto decisions = m_cache.access(samples, m_draws);
  m_misses.clear();
  m_submitted = 0;
  EpochCounts& counts = m_counts.back();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (decisions[i] == CacheDecision::hit) {
      arrive({now, samples[i], entry, Source::cache});
      continue;
    }
    m_misses.push_back({samples[i], entry, decisions[i] == CacheDecision::admit ? Source::storage_for_cache : Source::storage});
    counts.storage_bytes += m_draws.bytes(samples[i]);
  }
  counts.hits += samples.size() - m_misses.size();
  counts.misses += m_misses.size();
}

void LoaderStage::draw_from_window(std::span<const SampleId> samples, std::uint32_t entry, Nanoseconds now) {
  for (const SampleId sample : samples) {
    Place& place = m_window[sample];
    if (!place.arrived) {
      place.drawn = true;
      place.item.entry = entry;
      continue;
    }
    Item item = place.item;
    item.entry = entry;
    item.ready = now;
    place = {};
    push(item);
  }
}

bool LoaderStage::submit(Nanoseconds now) {
  for (; m_submitted < m_misses.size() && m_free_places > 0; ++m_submitted, --m_free_places, ++m_unsettled) {
    const Request& request = m_misses[m_submitted];
    m_requests.push(m_storage.request_end(m_draws.bytes(request.sample), now), request);
  }
  if (m_submitted == m_misses.size()) return true;
  m_room = false;
  m_waits_for = WaitsFor::room;
  m_looks_up_at = now + to_nanoseconds(look_up_seconds);
  return false;
}

}  // namespace dsanalyze::simulation
