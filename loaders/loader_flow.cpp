#include "loader_flow.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "core/depths.hpp"
#include "loader_item.hpp"

namespace dsanalyze {
namespace {

/// The options with a start that is this dataset's; its digest is not carried along with every batch.
LoaderOptions bound_options(LoaderOptions options, const DatasetIndex& index) {
  options.start.require_fit(index.facts().digest, index.size(), options.batch_size * options.slices);
  options.start.batch_size = options.batch_size * options.slices;
  options.start.digest.clear();
  return options;
}

std::optional<SlotPool> own_slots(const Loader::Parts& parts, const LoaderOptions& options, const TensorShape& tensor) {
  if (parts.staging != nullptr) return std::nullopt;
  return std::optional<SlotPool>(std::in_place, options.prefetch_batches + options.held_batches, tensor, parts.timing, options.slot_pages);
}

std::uint32_t next_generation() {
  static std::atomic<std::uint32_t> loaders{0};
  return loaders.fetch_add(1, std::memory_order_relaxed) % LoaderTag::generations;
}

}  // namespace

void check_tags(std::uint64_t slots, std::uint64_t positions) {
  if (slots < in_window && positions <= LoaderTag::positions) return;
  throw UsageError(fmt::format("loader: {} slots and {} positions are more than the {} and {} that it can number", slots, positions, in_window - 1,
                               LoaderTag::positions));
}

LoaderFlow::LoaderFlow(Loader::Parts given_parts, const LoaderOptions& given_options)
    : parts(std::move(given_parts)),
      options(bound_options(given_options, *parts.index)),
      timing(parts.timing),
      tensor(parts.prep->tensor(options.batch_size)),
      pool(own_slots(parts, options, tensor)),
      assembly(slots(), tensor, options.on_error, parts.gpu.get()),
      ready(std::size_t{slots()} * options.batch_size, timing),
      ready_for_gpu(parts.gpu ? std::size_t{slots()} * options.batch_size : 1, timing),
      awaited(parts.index->size()),
      generation(next_generation()),
      epochs(*parts.engine, parts.storage_bytes),
      failures(*parts.index, options.on_error, options.error_budget) {
  if (parts.staging != nullptr) {
    claims.resize(slots());
  } else if (options.start.order.buffers()) {
    make_window();
  }
}

void LoaderFlow::make_window() {
  const std::size_t step = std::size_t{options.batch_size} * options.slices;
  const std::size_t waiting = options.start.order.shuffle_buffer + step;
  if (parts.engine->capacity() <= waiting) {
    throw UsageError(fmt::format("loader: a shuffle buffer of {} samples and batches of {} need more than the {} places of the fetch engine",
                                 options.start.order.shuffle_buffer, step, parts.engine->capacity()));
  }
  // Those that wait for their batch, and those that a batch waits for.
  const std::size_t places = waiting + std::size_t{slots()} * options.batch_size;
  check_tags(slots(), places);
  window.emplace(places, parts.index->size());
}

Deadline LoaderFlow::soon() const { return timing.clock->after(look_up_seconds); }

void LoaderFlow::notify_all() {
  for (Signal* signal : {&room, &settled, &asked, &assembly.completed()}) signal->notify(*timing.waiter, 1 << 20);
}

void LoaderFlow::hand_over(std::span<const LoaderWork> items) {
  if (!items.empty() && items.front().entry != in_window) {
    push_ready(items);
    return;
  }
  for (const LoaderWork& item : items) {
    if (const auto whole = window->arrive(item.position, item)) push_ready({&*whole, 1});
  }
}

void LoaderFlow::push_ready(std::span<const LoaderWork> items) {
  // The queues have room for every slot's samples. Neighbours go the same way.
  while (!items.empty()) {
    const auto on_gpu = [&](const LoaderWork& item) { return item.position < assembly.draw(item.entry).on_gpu; };
    const bool first = on_gpu(items.front());
    const auto end = parts.gpu ? std::ranges::find_if(items, [&](const LoaderWork& item) { return on_gpu(item) != first; }) : items.end();
    const auto count = static_cast<std::size_t>(end - items.begin());
    (first ? ready_for_gpu : ready).push(items.first(count), soon());
    items = items.subspan(count);
  }
}

void LoaderFlow::close_ready() {
  ready.close();
  ready_for_gpu.close();
}

std::uint32_t LoaderFlow::on_gpu(std::size_t samples) const { return parts.gpu ? parts.gpu->of_batch(static_cast<std::uint32_t>(samples)) : 0; }

bool LoaderFlow::keep(const LoaderWork& item) {
  if (item.keep != LoaderWork::Keep::in_cache || !awaited.claim(item.sample)) return false;
  if (item.status.ok()) {
    static_cast<void>(parts.cache->store(item.sample, item.bytes).ok());  // an item that is not kept is fetched again
  } else {
    parts.cache->abandon(item.sample);
  }
  settle(1);
  return true;
}

std::span<const std::byte> LoaderFlow::encoded(const LoaderWork& item, std::vector<std::byte>& scratch, Status& status) {
  std::span<const std::byte> bytes = item.bytes;
  if (item.hit.decision == CacheDecision::hit) {
    if (item.hit.contiguous == nullptr && scratch.size() < item.hit.length) scratch.resize(item.hit.length);
    bytes = parts.cache->read(item.hit, scratch);
  }
  status = item.status;
  if (status.ok() && bytes.empty()) status = corrupt(Corruption::empty);
  if (status.ok() && !(*parts.index)[item.sample].has_label()) status = corrupt(Corruption::label);
  return bytes;
}

void LoaderFlow::fail(const LoaderWork& item, Status status) {
  assembly.mark_failed(item.entry, item.position);
  failures.add(item.sample, status);
  if (failures.fatal()) notify_all();
}

void LoaderFlow::settle(std::size_t count) {
  unsettled.fetch_sub(count, std::memory_order_acq_rel);
  settled.notify(*timing.waiter, 1);
}

void LoaderFlow::give_back(const LoaderWork& item) {
  if (item.buffer.id == FetchBuffer::none) return;
  parts.engine->release({&item.buffer, 1});
}

void LoaderFlow::finish(std::uint32_t entry, std::uint32_t done) {
  if (!assembly.finish(entry, done, timing.clock->now())) return;
  epochs.finished(assembly.draw(entry).epoch, assembly.digest(entry), assembly.drawn(entry), assembly.finished(entry).failed);
  if (parts.staging != nullptr) {
    const BatchAssembly::Finished batch = assembly.finished(entry);
    parts.staging->publish(claims[entry], {batch.good, batch.failed, batch.ready_at});
    return;
  }
  assembly.publish(entry);
  assembly.completed().notify(*timing.waiter, 1);
}

}  // namespace dsanalyze
