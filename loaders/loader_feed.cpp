#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "core/partition/assignment.hpp"
#include "loader_state.hpp"
#include "loader_tag.hpp"

namespace dsanalyze {

void Loader::State::feed() {
  parts.staging != nullptr ? feed_claims() : feed_epochs();
  feeding_ended.store(true);
  assembly.close(parts.staging != nullptr ? 0 : sequence);
  notify_all();
}

void Loader::State::feed_epochs() {
  std::uint64_t current_epoch = options.start.epoch;
  std::uint64_t step = 0;
  if (!join_epoch(current_epoch)) return;
  epochs.begin(current_epoch);
  while (!over()) {
    if (options.epochs > 0 && sampler.state().epoch >= options.start.epoch + options.epochs) break;
    if (!begin_epoch(current_epoch) || !feed_step(step)) return;
  }
  if (wait_settled()) epochs.settle(current_epoch);
}

bool Loader::State::begin_epoch(std::uint64_t& current) {
  if (sampler.state().epoch == current) return true;
  sampler.prepare();  // the next order, while the last fetches of this one end
  const Nanoseconds begun = sampler_track != nullptr ? timing.clock->now() : 0;
  if (!wait_settled()) return false;
  if (sampler_track != nullptr) sampler_track->add({begun, timing.clock->now(), 0, 0, SpanKind::wait_settled});
  // What the ranks do at the boundary to fill their caches belongs to the epoch before.
  const bool goes_on = join_epoch(sampler.state().epoch);
  epochs.settle(current);
  if (!goes_on) return false;
  current = sampler.state().epoch;
  epochs.begin(current);
  return true;
}

bool Loader::State::join_epoch(std::uint64_t epoch) {
  if (parts.share == nullptr) return true;
  const Status status = parts.share->begin_epoch(epoch);
  if (!status.ok()) {
    if (status.code != StatusCode::end && !over()) failures.fail(parts.share->failure());
    return false;
  }
  sampler.set_batch_size(options.batch_size * options.slices * parts.share->ranks());
  return true;
}

bool Loader::State::feed_step(std::uint64_t& step) {
  std::uint64_t epoch = 0;
  bool last = false;
  const SamplerState before = sampler.state();
  const auto global = sampler.next(epoch, last);
  const auto mine = parts.share != nullptr ? parts.share->mine(global) : global;
  if (window) look_ahead(sampler.ahead(), epoch);
  if (over()) return false;  // then not all of the step was asked for
  if (const std::size_t most = std::size_t{options.batch_size} * options.slices; mine.size() > most)
    throw Error(fmt::format("this rank's part of a global mini-batch has {} samples, and its batches have room for {}", mine.size(), most));
  const auto slices = std::clamp<std::uint32_t>(static_cast<std::uint32_t>(mine.size()), 1, options.slices);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    ReleaseToken token;
    const Nanoseconds slice_begun = sampler_track != nullptr ? timing.clock->now() : 0;
    while (!pool->acquire(token, soon())) {
      if (over()) return false;
    }
    const Nanoseconds slot_found = sampler_track != nullptr ? timing.clock->now() : 0;
    const bool ends_step = slice + 1 == slices;
    const auto ids = Assignment::slice(mine, static_cast<int>(slice), static_cast<int>(slices));
    const BatchAssembly::Draw draw{
        token, pool->data(token.slot), sequence, step, slice, slices, epoch, last && ends_step, ends_step ? sampler.state() : before};
    const std::uint32_t entry = assembly.entry_of(sequence);
    assembly.begin(entry, draw, ids, *parts.index);
    failures.drew(ids.size());  // before any of them can fail, or a budget would be spent by batches still under way
    if (ids.empty()) {
      finish(entry, 0);
    } else if (window) {
      draw_from_window(ids, entry);
    } else {
      dispatch(ids, epoch, entry);
    }
    if (sampler_track != nullptr) {
      sampler_track->add({slice_begun, slot_found, sequence, 0, SpanKind::wait_slot});
      sampler_track->add({slice_begun, timing.clock->now(), sequence, static_cast<std::uint32_t>(ids.size()), SpanKind::batch});
    }
    ++sequence;
  }
  ++step;
  return true;
}

void Loader::State::look_ahead(std::span<const SampleId> ids, std::uint64_t epoch) {
  while (!ids.empty() && !over()) {
    const std::size_t count = std::min<std::size_t>(ids.size(), options.batch_size);
    dispatch(ids.first(count), epoch, in_window);
    ids = ids.subspan(count);
  }
}

void Loader::State::dispatch(std::span<const SampleId> ids, std::uint64_t epoch, std::uint32_t entry) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Bytes length = (*parts.index)[ids[i]].length;
    accesses[i] = {ids[i], length, 0, options.storage_cost.access_priority(length)};
  }
  const std::span<CacheLookup> found = std::span(lookups).first(ids.size());
  parts.cache->lookup(std::span(accesses).first(ids.size()), found);
  if (parts.recorder != nullptr) record(found, epoch);
  const Nanoseconds now = timing.clock->now();
  std::size_t hit_count = 0;
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision != CacheDecision::hit) continue;
    LoaderWork& item = hits[hit_count++];
    item = {};
    item.hit = found[i];
    item.entry = entry;
    item.position = entry == in_window ? window->take(ids[i]) : i;
    item.sample = ids[i];
    item.ready = now;
  }
  epochs.count(epoch, hit_count, ids.size() - hit_count);
  hit_total.fetch_add(hit_count, std::memory_order_relaxed);
  miss_total.fetch_add(ids.size() - hit_count, std::memory_order_relaxed);
  if (hit_count > 0) hand_over(std::span(hits).first(hit_count));

  std::array<FetchRequest, FetchEngine::largest_group> group;
  std::size_t grouped = 0;
  const std::size_t most = std::min(group.size(), parts.engine->capacity());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision == CacheDecision::hit) continue;
    const auto keep = found[i].decision == CacheDecision::admit ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no;
    const std::uint32_t position = entry == in_window ? window->take(ids[i]) : i;
    if (keep == LoaderWork::Keep::in_cache) awaited.add(ids[i]);
    group[grouped++] = {LoaderTag{generation, entry, position, keep}.packed(), ids[i], (*parts.index)[ids[i]].extent()};
    if (grouped == most) submit(std::span(group).first(std::exchange(grouped, 0)));
  }
  submit(std::span(group).first(grouped));
}

void Loader::State::record(std::span<const CacheLookup> found, std::uint64_t epoch) {
  for (std::size_t i = 0; i < found.size(); ++i) decisions[i] = found[i].decision;
  parts.recorder->record(std::span(accesses).first(found.size()), std::span(decisions).first(found.size()), epoch);
}

void Loader::State::draw_from_window(std::span<const SampleId> ids, std::uint32_t entry) {
  std::size_t count = 0;
  const Nanoseconds now = timing.clock->now();
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (const auto work = window->draw(ids[i], entry, i, now)) hits[count++] = *work;
  }
  if (count > 0) ready.push(std::span(hits).first(count), soon());  // the queue has room for every slot's samples
}

void Loader::State::hand_over(std::span<const LoaderWork> items) {
  if (!items.empty() && items.front().entry != in_window) {
    ready.push(items, soon());  // the queue has room for every slot's samples
    return;
  }
  for (const LoaderWork& item : items) {
    if (const auto whole = window->arrive(item.position, item)) ready.push({&*whole, 1}, soon());
  }
}

void Loader::State::submit(std::span<const FetchRequest> group) {
  while (!group.empty()) {
    const auto ticket = room.ticket();
    if (over()) return abandon(group);
    const std::size_t fits = std::min(group.size(), parts.engine->free_places());
    if (fits > 0) {
      unsettled.fetch_add(fits, std::memory_order_acq_rel);
      if (parts.engine->submit(group.first(fits)).ok()) {
        asked.notify(*timing.waiter, 1);
        group = group.subspan(fits);
        continue;
      }
      unsettled.fetch_sub(fits, std::memory_order_acq_rel);
    }
    const Nanoseconds begun = timing.clock->now();
    room.wait(*timing.waiter, ticket, soon());
    const Nanoseconds ended = timing.clock->now();
    feed_counter.add_waiting(ended - begun);
    if (sampler_track != nullptr) sampler_track->add({begun, ended, 0, 0, SpanKind::wait_storage});
  }
}

void Loader::State::abandon(std::span<const FetchRequest> requests) {
  for (const auto& request : requests) {
    if (awaited.claim(request.sample)) parts.cache->abandon(request.sample);
  }
}

bool Loader::State::wait_settled() {
  while (unsettled.load(std::memory_order_acquire) > 0) {
    if (over()) return false;
    const auto ticket = settled.ticket();
    if (unsettled.load(std::memory_order_acquire) > 0) settled.wait(*timing.waiter, ticket, soon());
  }
  return !over();
}

void Loader::State::settle(std::size_t count) {
  unsettled.fetch_sub(count, std::memory_order_acq_rel);
  settled.notify(*timing.waiter, 1);
}

}  // namespace dsanalyze
