#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "core/partition/assignment.hpp"
#include "loader_item.hpp"
#include "loader_threads.hpp"

namespace dsanalyze {

LoaderFeeder::LoaderFeeder(LoaderFlow& flow)
    : m_flow(flow),
      m_sampler(flow.options.start, flow.options.batch_size * flow.options.slices, flow.parts.index->records()),
      m_accesses(flow.options.batch_size),
      m_lookups(flow.options.batch_size),
      m_decisions(flow.parts.recorder != nullptr ? flow.options.batch_size : 0),
      m_hits(flow.options.batch_size),
      m_track(flow.parts.spans != nullptr ? &flow.parts.spans->make_track(SpanTrack::Role::sampler) : nullptr) {}

void LoaderFeeder::add_to(LoaderTotals& totals) const {
  totals.fetch.waiting = m_counter.totals().waiting;
  totals.hits = m_hit_total.load(std::memory_order_relaxed);
  totals.misses = m_miss_total.load(std::memory_order_relaxed);
}

void LoaderFeeder::run() {
  m_flow.parts.staging != nullptr ? feed_claims() : feed_epochs();
  m_flow.feeding_ended.store(true);
  m_flow.assembly.close(m_flow.parts.staging != nullptr ? 0 : m_sequence);
  m_flow.notify_all();
}

void LoaderFeeder::feed_epochs() {
  std::uint64_t current_epoch = m_flow.options.start.epoch;
  std::uint64_t step = 0;
  if (!join_epoch(current_epoch, m_flow.options.start.position)) return;
  m_flow.epochs.begin(current_epoch);
  while (!m_flow.over()) {
    if (m_flow.options.epochs > 0 && m_sampler.state().epoch >= m_flow.options.start.epoch + m_flow.options.epochs) break;
    if (!begin_epoch(current_epoch) || !feed_step(step)) return;
  }
  if (wait_settled()) m_flow.epochs.settle(current_epoch);
}

bool LoaderFeeder::begin_epoch(std::uint64_t& current) {
  if (m_sampler.state().epoch == current) return true;
  m_sampler.prepare();  // the next order, while the last fetches of this one end
  const Nanoseconds begun = m_track != nullptr ? m_flow.timing.clock->now() : 0;
  if (!wait_settled()) return false;
  if (m_track != nullptr) m_track->add({begun, m_flow.timing.clock->now(), 0, 0, SpanKind::wait_settled});
  // What the ranks do at the boundary to fill their caches belongs to the epoch before.
  const bool goes_on = join_epoch(m_sampler.state().epoch, 0);
  m_flow.epochs.settle(current);
  if (!goes_on) return false;
  current = m_sampler.state().epoch;
  m_flow.epochs.begin(current);
  return true;
}

bool LoaderFeeder::join_epoch(std::uint64_t epoch, std::uint64_t position) {
  if (m_flow.parts.share == nullptr) return true;
  const Status status = m_flow.parts.share->begin_epoch(epoch, position);
  if (!status.ok()) {
    if (status.code != StatusCode::end && !m_flow.over()) m_flow.failures.fail(m_flow.parts.share->failure());
    return false;
  }
  m_sampler.set_batch_size(m_flow.options.batch_size * m_flow.options.slices * m_flow.parts.share->ranks());
  return true;
}

bool LoaderFeeder::feed_step(std::uint64_t& step) {
  std::uint64_t epoch = 0;
  bool last = false;
  const SamplerState before = m_sampler.state();
  const auto global = m_sampler.next(epoch, last);
  const auto mine = m_flow.parts.share != nullptr ? m_flow.parts.share->mine(global) : global;
  if (m_flow.window) look_ahead(m_sampler.ahead(), epoch);
  if (m_flow.over()) return false;  // then not all of the step was asked for
  if (const std::size_t most = std::size_t{m_flow.options.batch_size} * m_flow.options.slices; mine.size() > most)
    throw Error(fmt::format("this rank's part of a global mini-batch has {} samples, and its batches have room for {}", mine.size(), most));
  const auto slices = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(mine.size()), 1, m_flow.options.slices);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    ReleaseToken token;
    const Nanoseconds slice_begun = m_track != nullptr ? m_flow.timing.clock->now() : 0;
    while (!m_flow.pool->acquire(token, m_flow.soon())) {
      if (m_flow.over()) return false;
    }
    const Nanoseconds slot_found = m_track != nullptr ? m_flow.timing.clock->now() : 0;
    const bool ends_step = slice + 1 == slices;
    const auto ids = Assignment::slice(mine, static_cast<int>(slice), static_cast<int>(slices));
    const BatchAssembly::Draw draw{
        token, m_flow.pool->data(token.slot), m_sequence, step, slice, slices, epoch, last && ends_step, ends_step ? m_sampler.state() : before,
        epoch, m_flow.on_gpu(ids.size())};
    const std::uint32_t entry = m_flow.assembly.entry_of(m_sequence);
    m_flow.assembly.begin(entry, draw, ids, *m_flow.parts.index);
    m_flow.failures.drew(ids.size());  // before any of them can fail, or a budget would be spent by batches still in flight
    if (ids.empty()) {
      m_flow.finish(entry, 0);
    } else if (m_flow.window) {
      draw_from_window(ids, entry);
    } else {
      dispatch(ids, epoch, entry);
    }
    if (m_track != nullptr) {
      m_track->add({slice_begun, slot_found, m_sequence, 0, SpanKind::wait_slot});
      m_track->add({slice_begun, m_flow.timing.clock->now(), m_sequence, static_cast<std::uint32_t>(ids.size()), SpanKind::batch});
    }
    ++m_sequence;
  }
  ++step;
  return true;
}

void LoaderFeeder::look_ahead(std::span<const SampleId> ids, std::uint64_t epoch) {
  while (!ids.empty() && !m_flow.over()) {
    const std::size_t count = std::min<std::size_t>(ids.size(), m_flow.options.batch_size);
    dispatch(ids.first(count), epoch, in_window);
    ids = ids.subspan(count);
  }
}

void LoaderFeeder::dispatch(std::span<const SampleId> ids, std::uint64_t epoch, std::uint32_t entry) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Bytes length = (*m_flow.parts.index)[ids[i]].length;
    m_accesses[i] = {ids[i], length, 0, m_flow.options.storage_cost.access_priority(length)};
  }
  const std::span<CacheLookup> found = std::span(m_lookups).first(ids.size());
  m_flow.parts.cache->lookup(std::span(m_accesses).first(ids.size()), found);
  if (m_flow.parts.recorder != nullptr) record(found, epoch);
  const Nanoseconds now = m_flow.timing.clock->now();
  std::size_t hit_count = 0;
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision != CacheDecision::hit) continue;
    LoaderWork& item = m_hits[hit_count++];
    item = {};
    item.hit = found[i];
    item.entry = entry;
    item.position = entry == in_window ? m_flow.window->take(ids[i]) : i;
    item.sample = ids[i];
    item.ready = now;
  }
  m_flow.epochs.count(epoch, hit_count, ids.size() - hit_count);
  m_hit_total.fetch_add(hit_count, std::memory_order_relaxed);
  m_miss_total.fetch_add(ids.size() - hit_count, std::memory_order_relaxed);
  if (hit_count > 0) m_flow.hand_over(std::span(m_hits).first(hit_count));

  std::array<FetchRequest, FetchEngine::largest_group> group;
  std::size_t grouped = 0;
  const std::size_t most = std::min(group.size(), m_flow.parts.engine->capacity());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision == CacheDecision::hit) continue;
    const auto keep = found[i].decision == CacheDecision::admit ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no;
    const std::uint32_t position = entry == in_window ? m_flow.window->take(ids[i]) : i;
    if (keep == LoaderWork::Keep::in_cache) m_flow.awaited.add(ids[i]);
    group[grouped++] = {LoaderTag{m_flow.generation, entry, position, keep}.packed(), ids[i], (*m_flow.parts.index)[ids[i]].extent()};
    if (grouped == most) submit(std::span(group).first(std::exchange(grouped, 0)));
  }
  submit(std::span(group).first(grouped));
}

void LoaderFeeder::record(std::span<const CacheLookup> found, std::uint64_t epoch) {
  for (std::size_t i = 0; i < found.size(); ++i) m_decisions[i] = found[i].decision;
  m_flow.parts.recorder->record(std::span(m_accesses).first(found.size()), std::span(m_decisions).first(found.size()), epoch);
}

void LoaderFeeder::draw_from_window(std::span<const SampleId> ids, std::uint32_t entry) {
  std::size_t count = 0;
  const Nanoseconds now = m_flow.timing.clock->now();
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (const auto work = m_flow.window->draw(ids[i], entry, i, now)) m_hits[count++] = *work;
  }
  if (count > 0) m_flow.push_ready(std::span(m_hits).first(count));  // the queue has room for every slot's samples
}

void LoaderFeeder::submit(std::span<const FetchRequest> group) {
  while (!group.empty()) {
    const auto ticket = m_flow.room.ticket();
    if (m_flow.over()) return abandon(group);
    const std::size_t fits = std::min(group.size(), m_flow.parts.engine->free_places());
    if (fits > 0) {
      m_flow.unsettled.fetch_add(fits, std::memory_order_acq_rel);
      if (m_flow.parts.engine->submit(group.first(fits)).ok()) {
        m_flow.asked.notify(*m_flow.timing.waiter, 1);
        group = group.subspan(fits);
        continue;
      }
      m_flow.unsettled.fetch_sub(fits, std::memory_order_acq_rel);
    }
    const Nanoseconds begun = m_flow.timing.clock->now();
    m_flow.room.wait(*m_flow.timing.waiter, ticket, m_flow.soon());
    const Nanoseconds ended = m_flow.timing.clock->now();
    m_counter.add_waiting(ended - begun);
    if (m_track != nullptr) m_track->add({begun, ended, 0, 0, SpanKind::wait_storage});
  }
}

void LoaderFeeder::abandon(std::span<const FetchRequest> requests) {
  for (const auto& request : requests) {
    if (m_flow.awaited.claim(request.sample)) m_flow.parts.cache->abandon(request.sample);
  }
}

bool LoaderFeeder::wait_settled() {
  while (m_flow.unsettled.load(std::memory_order_acquire) > 0) {
    if (m_flow.over()) return false;
    const auto ticket = m_flow.settled.ticket();
    if (m_flow.unsettled.load(std::memory_order_acquire) > 0) m_flow.settled.wait(*m_flow.timing.waiter, ticket, m_flow.soon());
  }
  return !m_flow.over();
}

}  // namespace dsanalyze
