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
    parts.cache->abandon(work->sample);
    settle(1);
  }
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
    if (timing.clock->now() >= drained.at) return;
    if (!over() && !feeding_ended.load() && nothing_asked()) continue;
    const std::size_t count = parts.engine->reap(completions, timing.clock->after(reap_seconds));
    if (count == 0) continue;
    std::size_t passed_on = 0;
    for (std::size_t i = 0; i < count; ++i) {
      items[i] = take(completions[i]);
      if (items[i].keep == LoaderWork::Keep::no) ++passed_on;
    }
    hand_over(std::span(items).first(count));
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
