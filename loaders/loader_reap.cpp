#include <algorithm>
#include <array>

#include "loader_state.hpp"
#include "loader_tag.hpp"

namespace dsanalyze {
namespace {

constexpr double reap_seconds = 0.01;  // how often this thread looks whether the run has ended while reads are under way
constexpr double drain_seconds = 30;   // longest wait for reads that the kernel has begun when the loader stops

}  // namespace

void Loader::State::reap() {
  reap_completions();
  drop_left_over();
  ready.close();
}

void Loader::State::drop_left_over() {
  while (window) {
    const auto work = window->left_over();
    if (!work) return;
    if (work->hit.decision == CacheDecision::hit) parts.cache->release({&work->hit, 1});
    give_back(*work);
    if (work->keep == LoaderWork::Keep::no) continue;
    if (awaited.claim(work->sample)) parts.cache->abandon(work->sample);
    settle(1);
  }
}

void Loader::State::leave_behind() {
  awaited.claim_all([this](SampleId sample) { parts.cache->abandon(sample); });
}

void Loader::State::drop_stranger(const FetchCompletion& completion) {
  if (completion.buffer.id != FetchBuffer::none) parts.engine->release({&completion.buffer, 1});
  strangers -= std::min<std::size_t>(strangers, 1);
  room.notify(*timing.waiter, 1);
}

void Loader::State::reap_completions() {
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  std::array<LoaderWork, FetchEngine::largest_group> items;
  Deadline drained{INT64_MAX};
  for (;;) {
    if (over() && feeding_ended.load()) drop_left_over();  // no batch will draw them
    if (feeding_ended.load() && unsettled.load(std::memory_order_acquire) == 0) return;
    if (over() && drained.at == INT64_MAX) {
      parts.engine->cancel();
      drained = timing.clock->after(drain_seconds);
    }
    if (timing.clock->now() >= drained.at) return leave_behind();
    if (!over() && !feeding_ended.load() && strangers == 0 && nothing_asked()) continue;
    const std::size_t count = parts.engine->reap(completions, timing.clock->after(reap_seconds));
    if (count == 0) continue;
    std::size_t own = 0;
    std::size_t passed_on = 0;
    for (const FetchCompletion& completion : std::span(completions).first(count)) {
      if (LoaderTag::unpack(completion.tag).generation != generation) {
        drop_stranger(completion);
        continue;
      }
      items[own] = take(completion);
      if (items[own++].keep == LoaderWork::Keep::no) ++passed_on;
    }
    hand_over(std::span(items).first(own));
    if (passed_on > 0) settle(passed_on);
  }
}

bool Loader::State::nothing_asked() {
  const auto ticket = asked.ticket();
  if (unsettled.load(std::memory_order_acquire) > 0) return false;
  if (!over() && !feeding_ended.load()) asked.wait(*timing.waiter, ticket, soon());
  return true;
}

LoaderWork Loader::State::take(const FetchCompletion& completion) {
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
    fetch_counter.add(1, completion.bytes.size(), 0);
    const bool from_peer = completion.source == FetchSource::peer;
    (from_peer ? peer_times : request_times).add(completion.took);
    if (from_peer) {
      peer_counter.add(1, completion.bytes.size(), 0);
      epochs.count_peers(1, completion.bytes.size());
    }
    if (read_track != nullptr)
      read_track->add({completion.done_at - completion.took, completion.done_at, completion.sample,
                       static_cast<std::uint32_t>(completion.bytes.size()), SpanKind::read});
  } else {
    fetch_counter.add_failure();
  }
  return item;
}

}  // namespace dsanalyze
