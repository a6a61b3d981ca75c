#include <algorithm>

#include "dsanalyze/base/host.hpp"
#include "loader_state.hpp"

namespace dsanalyze {
namespace {

constexpr double drain_seconds = 30;  // longest wait for reads that the kernel has begun when the loader stops

/// A fetch's tag: which batch entry, which position, and whether the cache wants the bytes.
struct Tag {
  std::uint32_t entry;
  std::uint32_t position;
  LoaderWork::Keep keep;
  [[nodiscard]] std::uint64_t packed() const {
    return (std::uint64_t{entry} << 33) | (std::uint64_t{position} << 1) | (keep == LoaderWork::Keep::in_cache ? 1U : 0U);
  }
  static Tag unpack(std::uint64_t tag) {
    return {static_cast<std::uint32_t>(tag >> 33), static_cast<std::uint32_t>(tag >> 1),
            (tag & 1U) != 0 ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no};
  }
};

}  // namespace

void Loader::State::feed() {
  feed_epochs();
  feeding_ended.store(true);
  assembly.close(sequence);
  notify_all();
}

void Loader::State::feed_epochs() {
  std::uint64_t current_epoch = options.start.epoch;
  std::uint64_t step = 0;
  epochs.begin(current_epoch);
  while (!over()) {
    if (options.epochs > 0 && sampler.state().epoch >= options.start.epoch + options.epochs) break;
    if (sampler.state().epoch != current_epoch) {
      sampler.prepare();  // the next order, while the last fetches of this one end
      if (!wait_settled()) return;
      epochs.settle(current_epoch);
      current_epoch = sampler.state().epoch;
      epochs.begin(current_epoch);
    }
    std::uint64_t epoch = 0;
    bool last = false;
    const SamplerState before = sampler.state();
    const auto global = sampler.next(epoch, last);
    const auto slices = std::min<std::uint32_t>(options.slices, static_cast<std::uint32_t>(global.size()));
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      ReleaseToken token;
      while (!pool.acquire(token, soon())) {
        if (over()) return;
      }
      const bool ends_step = slice + 1 == slices;
      const auto ids = Assignment::slice(global, static_cast<int>(slice), static_cast<int>(slices));
      const BatchAssembly::Draw draw{token, sequence, step, slice, slices, epoch, last && ends_step, ends_step ? sampler.state() : before};
      const std::uint32_t entry = begin_batch(draw, ids);
      dispatch(entry, epoch, ids, std::span<const CacheLookup>(lookups).first(ids.size()));
      ++sequence;
    }
    ++step;
  }
  if (wait_settled()) epochs.settle(current_epoch);
}

std::uint32_t Loader::State::begin_batch(const BatchAssembly::Draw& draw, std::span<const SampleId> ids) {
  const std::uint32_t entry = assembly.begin(draw, ids, *parts.index);
  failures.drew(ids.size());  // before any of them can fail, or a budget would be spent by batches still under way
  for (std::size_t i = 0; i < ids.size(); ++i) accesses[i] = {ids[i], (*parts.index)[ids[i]].length, 0, 0};
  parts.cache->lookup(std::span(accesses).first(ids.size()), std::span(lookups).first(ids.size()));
  return entry;
}

void Loader::State::dispatch(std::uint32_t entry, std::uint64_t epoch, std::span<const SampleId> ids, std::span<const CacheLookup> found) {
  std::size_t hit_count = 0;
  const Nanoseconds now = timing.clock->now();
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision != CacheDecision::hit) continue;
    LoaderWork& item = hits[hit_count++];
    item = {};
    item.hit = found[i];
    item.entry = entry;
    item.position = i;
    item.sample = ids[i];
    item.ready = now;
  }
  epochs.count(epoch, hit_count, ids.size() - hit_count);
  hit_total.fetch_add(hit_count, std::memory_order_relaxed);
  miss_total.fetch_add(ids.size() - hit_count, std::memory_order_relaxed);
  if (hit_count > 0) ready.push(std::span(hits).first(hit_count), soon());  // the queue has room for every slot's samples

  std::array<FetchRequest, FetchEngine::largest_group> group;
  std::size_t grouped = 0;
  const std::size_t most = std::min(group.size(), parts.engine->capacity());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (found[i].decision == CacheDecision::hit) continue;
    const auto keep = found[i].decision == CacheDecision::admit ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no;
    group[grouped++] = {Tag{entry, i, keep}.packed(), ids[i], (*parts.index)[ids[i]].extent()};
    if (grouped == most) submit(std::span(group).first(std::exchange(grouped, 0)));
  }
  submit(std::span(group).first(grouped));
}

void Loader::State::submit(std::span<const FetchRequest> group) {
  while (!group.empty()) {
    const auto ticket = room.ticket();
    if (over()) return abandon(group);
    const std::size_t fits = std::min(group.size(), parts.engine->free_places());
    if (fits > 0) {
      unsettled.fetch_add(fits, std::memory_order_acq_rel);
      if (parts.engine->submit(group.first(fits)).ok()) {
        group = group.subspan(fits);
        continue;
      }
      unsettled.fetch_sub(fits, std::memory_order_acq_rel);
    }
    const Nanoseconds begun = timing.clock->now();
    room.wait(*timing.waiter, ticket, soon());
    feed_counter.add_waiting(timing.clock->now() - begun);
  }
}

void Loader::State::abandon(std::span<const FetchRequest> requests) {
  for (const auto& request : requests) {
    if (Tag::unpack(request.tag).keep == LoaderWork::Keep::in_cache) parts.cache->abandon(request.sample);
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

void Loader::State::reap() {
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  std::array<LoaderWork, FetchEngine::largest_group> items;
  Deadline drained{INT64_MAX};
  for (;;) {
    if (feeding_ended.load() && unsettled.load(std::memory_order_acquire) == 0) break;
    if (over() && drained.at == INT64_MAX) {
      parts.engine->cancel();
      drained = timing.clock->after(drain_seconds);
    }
    if (timing.clock->now() >= drained.at) break;
    const std::size_t count = parts.engine->reap(completions, over() || feeding_ended.load() ? timing.clock->after(0.01) : soon());
    if (count == 0) continue;
    std::size_t passed_on = 0;
    for (std::size_t i = 0; i < count; ++i) {
      items[i] = take(completions[i]);
      if (items[i].keep == LoaderWork::Keep::no) ++passed_on;
    }
    ready.push(std::span(items).first(count), soon());
    if (passed_on > 0) settle(passed_on);
  }
  ready.close();
}

LoaderWork Loader::State::take(const FetchCompletion& completion) {
  const Tag tag = Tag::unpack(completion.tag);
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
  } else {
    fetch_counter.add_failure();
  }
  return item;
}

}  // namespace dsanalyze
