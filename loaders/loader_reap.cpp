#include <algorithm>
#include <array>

#include "loader_item.hpp"
#include "loader_threads.hpp"

namespace dsanalyze {
namespace {

constexpr double reap_seconds = 0.01;  // how often this thread looks whether the run has ended while reads are in flight
constexpr double drain_seconds = 30;   // longest wait for reads that the kernel has begun when the loader stops

}  // namespace

LoaderReaper::LoaderReaper(LoaderFlow& flow)
    : m_flow(flow),
      m_strangers(flow.parts.engine->capacity() - flow.parts.engine->free_places()),
      m_track(flow.parts.spans != nullptr ? &flow.parts.spans->make_track(SpanTrack::Role::reads) : nullptr) {}

void LoaderReaper::add_to(LoaderTotals& totals) const {
  const Nanoseconds waiting = totals.fetch.waiting;
  totals.fetch = m_fetched.totals();
  totals.fetch.waiting = waiting;
  totals.peer_hits = m_from_peers.totals().samples;
  totals.peer_bytes = m_from_peers.totals().bytes;
}

void LoaderReaper::add_to(LoaderTimes& times) const {
  times.request = m_request_times.counts();
  times.peer = m_peer_times.counts();
}

void LoaderReaper::run() {
  reap_completions();
  drop_left_over();
  m_flow.close_ready();
}

void LoaderReaper::drop_left_over() {
  while (m_flow.window) {
    const auto work = m_flow.window->left_over();
    if (!work) return;
    if (work->hit.decision == CacheDecision::hit) m_flow.parts.cache->release({&work->hit, 1});
    m_flow.give_back(*work);
    if (work->keep == LoaderWork::Keep::no) continue;
    if (m_flow.awaited.claim(work->sample)) m_flow.parts.cache->abandon(work->sample);
    m_flow.settle(1);
  }
}

void LoaderReaper::leave_behind() {
  m_flow.awaited.claim_all([this](SampleId sample) { m_flow.parts.cache->abandon(sample); });
}

void LoaderReaper::drop_stranger(const FetchCompletion& completion) {
  if (completion.buffer.id != FetchBuffer::none) m_flow.parts.engine->release({&completion.buffer, 1});
  m_strangers -= std::min<std::size_t>(m_strangers, 1);
  m_flow.room.notify(*m_flow.timing.waiter, 1);
}

void LoaderReaper::reap_completions() {
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  std::array<LoaderWork, FetchEngine::largest_group> items;
  Deadline drained{INT64_MAX};
  for (;;) {
    if (m_flow.over() && m_flow.feeding_ended.load()) drop_left_over();  // no batch will draw them
    if (m_flow.feeding_ended.load() && m_flow.unsettled.load(std::memory_order_acquire) == 0) return;
    if (m_flow.over() && drained.at == INT64_MAX) {
      m_flow.parts.engine->cancel();
      drained = m_flow.timing.clock->after(drain_seconds);
    }
    if (m_flow.timing.clock->now() >= drained.at) return leave_behind();
    if (!m_flow.over() && !m_flow.feeding_ended.load() && m_strangers == 0 && nothing_asked()) continue;
    const std::size_t count = m_flow.parts.engine->reap(completions, m_flow.timing.clock->after(reap_seconds));
    if (count == 0) continue;
    std::size_t own = 0;
    std::size_t passed_on = 0;
    for (const FetchCompletion& completion : std::span(completions).first(count)) {
      if (LoaderTag::unpack(completion.tag).generation != m_flow.generation) {
        drop_stranger(completion);
        continue;
      }
      items[own] = take(completion);
      if (items[own++].keep == LoaderWork::Keep::no) ++passed_on;
    }
    m_flow.hand_over(std::span(items).first(own));
    if (passed_on > 0) m_flow.settle(passed_on);
  }
}

bool LoaderReaper::nothing_asked() {
  const auto ticket = m_flow.asked.ticket();
  if (m_flow.unsettled.load(std::memory_order_acquire) > 0) return false;
  if (!m_flow.over() && !m_flow.feeding_ended.load()) m_flow.asked.wait(*m_flow.timing.waiter, ticket, m_flow.soon());
  return true;
}

LoaderWork LoaderReaper::take(const FetchCompletion& completion) {
  const LoaderTag tag = LoaderTag::unpack(completion.tag);
  LoaderWork item;
  item.bytes = completion.bytes;
  item.buffer = completion.buffer;
  item.status = completion.status;
  item.keep = tag.keep;
  item.entry = tag.entry;
  item.position = tag.position;
  item.sample = completion.sample;
  item.ready = completion.done_at;
  if (completion.status.ok()) {
    m_fetched.add(1, completion.bytes.size(), 0);
    const bool from_peer = completion.source == FetchSource::peer;
    (from_peer ? m_peer_times : m_request_times).add(completion.took);
    if (from_peer) {
      m_from_peers.add(1, completion.bytes.size(), 0);
      m_flow.epochs.count_peers(1, completion.bytes.size());
    }
    if (m_track != nullptr)
      m_track->add({completion.done_at - completion.took, completion.done_at, completion.sample, static_cast<std::uint32_t>(completion.bytes.size()),
                    SpanKind::read});
  } else {
    m_fetched.add_failure();
  }
  return item;
}

}  // namespace dsanalyze
