#include <algorithm>

#include "dsanalyze/base/host.hpp"
#include "loader_state.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t worker_group = 32;
/// Nanoseconds a sample; below, reading the clock for each would take a tenth of its time, and the group's mean stands for each.
constexpr Nanoseconds worth_timing = 1000;

}  // namespace

void Loader::State::work() {
  const std::uint32_t worker = workers_started.fetch_add(1);
  if (!options.worker_cpus.empty()) set_thread_affinity(options.worker_cpus);
  Prep& prep = *preps[worker];
  StageCounter& counter = prep_counters[worker];
  std::array<LoaderWork, worker_group> items;
  std::array<CacheLookup, worker_group> used;
  std::vector<std::byte> scratch;
  bool each_timed = true;
  Nanoseconds idle_since = timing.clock->now();
  for (;;) {
    const std::size_t count = ready.pop(items, soon(), std::size_t{options.workers} * 2);
    if (count == 0) {
      if (ready.closed()) return;
      continue;
    }
    const Nanoseconds begun = timing.clock->now();
    counter.add_waiting(begun - idle_since);
    // The cache first: the next epoch waits for it, and a second worker may need the item.
    for (const LoaderWork& item : std::span(items).first(count)) keep(item);
    std::size_t hit_count = 0;
    std::size_t prepared = 0;
    std::uint32_t of_entry = 0;
    std::uint64_t bytes = 0;
    Nanoseconds item_begun = begun;
    for (std::size_t i = 0; i < count; ++i) {
      const LoaderWork& item = items[i];
      if (!over()) {
        bytes += prepare(item, prep, scratch, counter);
        ++prepared;
        ++of_entry;
        if (each_timed) {
          const Nanoseconds now = timing.clock->now();
          prep_times[worker].add(now - std::exchange(item_begun, now));
        }
      }
      give_back(item);
      if (item.hit.decision == CacheDecision::hit) used[hit_count++] = item.hit;
      const bool entry_ends = i + 1 == count || items[i + 1].entry != item.entry;
      if (entry_ends && of_entry > 0) finish(item.entry, std::exchange(of_entry, 0));
    }
    room.notify(*timing.waiter, 1);  // once for the group: the feeder's requests, and what wakes at their ends, come in groups too
    if (hit_count > 0) parts.cache->release(std::span(used).first(hit_count));
    idle_since = timing.clock->now();
    counter.add(prepared, bytes, idle_since - begun);
    if (prepared == 0) continue;
    if (!each_timed) prep_times[worker].add_mean(idle_since - begun, prepared);
    each_timed = idle_since - begun >= worth_timing * static_cast<Nanoseconds>(prepared);
  }
}

void Loader::State::keep(const LoaderWork& item) {
  if (item.keep != LoaderWork::Keep::in_cache) return;
  if (item.status.ok()) {
    static_cast<void>(parts.cache->store(item.sample, item.bytes).ok());  // an item that is not kept is fetched again
  } else {
    parts.cache->abandon(item.sample);
  }
  settle(1);
}

std::uint64_t Loader::State::prepare(const LoaderWork& item, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter) {
  std::span<const std::byte> encoded = item.bytes;
  if (item.hit.decision == CacheDecision::hit) {
    if (item.hit.contiguous == nullptr && scratch.size() < item.hit.length) scratch.resize(item.hit.length);
    encoded = parts.cache->read(item.hit, scratch);
  }
  const auto output = assembly.sample(item.entry, item.position);
  Status status = item.status;
  if (status.ok() && encoded.empty()) status = corrupt(Corruption::empty);
  if (status.ok()) status = prep.prepare({encoded, item.sample, assembly.generation(item.entry), item.ready, output});
  if (!status.ok()) {
    counter.add_failure();
    assembly.mark_failed(item.entry, item.position);
    failures.add(item.sample, status);
    if (failures.fatal()) notify_all();
  }
  return output.size();
}

void Loader::State::give_back(const LoaderWork& item) {
  if (item.buffer.id == FetchBuffer::none) return;
  parts.engine->release({&item.buffer, 1});
}

void Loader::State::finish(std::uint32_t entry, std::uint32_t done) {
  if (!assembly.finish(entry, done, timing.clock->now())) return;
  epochs.finished(assembly.draw(entry).epoch, assembly.digest(entry), assembly.drawn(entry));
  assembly.publish(entry);
  assembly.completed().notify(*timing.waiter, 1);
}

}  // namespace dsanalyze
