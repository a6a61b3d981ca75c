#include "loader.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "core/depths.hpp"
#include "loader_state.hpp"
#include "loader_tag.hpp"

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
  return std::optional<SlotPool>(std::in_place, options.prefetch_batches + options.held_batches, tensor, parts.timing);
}

std::uint32_t next_generation() {
  static std::atomic<std::uint32_t> loaders{0};
  return loaders.fetch_add(1, std::memory_order_relaxed) % LoaderTag::generations;
}

/// Refuses what a tag has no room for.
void check_tags(std::uint64_t slots, std::uint64_t positions) {
  if (slots < in_window && positions <= LoaderTag::positions) return;
  throw UsageError(fmt::format("loader: {} slots and {} positions are more than the {} and {} that it can number", slots, positions, in_window - 1,
                               LoaderTag::positions));
}

}  // namespace

Loader::State::State(Parts given_parts, const LoaderOptions& given_options)
    : parts(std::move(given_parts)),
      options(bound_options(given_options, *parts.index)),
      timing(parts.timing),
      sampler(options.start, options.batch_size * options.slices, parts.index->records()),
      tensor(parts.prep->tensor(options.batch_size)),
      pool(own_slots(parts, options, tensor)),
      assembly(slots(), tensor, options.on_error),
      ready(std::size_t{slots()} * options.batch_size, timing),
      awaited(parts.index->size()),
      generation(next_generation()),
      strangers(parts.engine->capacity() - parts.engine->free_places()),
      epochs(*parts.engine, parts.storage_bytes),
      failures(*parts.index, options.on_error, options.error_budget),
      prep_counters(options.workers),
      prep_times(options.workers),
      delivered_state(options.start),
      accesses(options.batch_size),
      lookups(options.batch_size),
      decisions(parts.recorder != nullptr ? options.batch_size : 0),
      hits(options.batch_size) {
  if (parts.staging != nullptr) {
    claims.resize(slots());
  } else if (options.start.order.buffers()) {
    make_window();
  }
  for (std::uint32_t i = 0; i < options.workers; ++i) preps.push_back(parts.prep->make());
  make_tracks();
  try {
    for (std::uint32_t i = 0; i < options.workers; ++i) threads.emplace_back([this] { guarded(&State::work); });
    threads.emplace_back([this] { guarded(&State::reap); });
    threads.emplace_back([this] { guarded(&State::feed); });
  } catch (const std::exception& error) {
    feeding_ended.store(true);
    stop();
    throw_no_thread(error, fmt::format("{} loader threads", options.workers + 2), "pass fewer --workers");
  }
}

Loader::State::~State() { stop(); }

void Loader::State::make_tracks() {
  worker_tracks.resize(options.workers);
  if (parts.spans == nullptr) return;
  sampler_track = &parts.spans->make_track(SpanTrack::Role::sampler);
  read_track = &parts.spans->make_track(SpanTrack::Role::reads);
  for (SpanTrack*& track : worker_tracks) track = &parts.spans->make_track(SpanTrack::Role::prep_worker);
}

void Loader::State::make_window() {
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

void Loader::State::stop() {
  stopping.store(true);
  if (parts.share != nullptr) parts.share->stop();
  if (pool) pool->close();
  notify_all();
  if (threads.size() < std::size_t{options.workers} + 2) ready.close();  // nobody reaps who would
  threads.clear();
}

Deadline Loader::State::soon() const { return timing.clock->after(look_up_seconds); }

void Loader::State::guarded(void (State::*body)()) {
  try {
    (this->*body)();
  } catch (const std::exception& error) {
    failures.fail(error);
    feeding_ended.store(feeding_ended.load() || body == &State::feed);
    if (body == &State::reap) ready.close();
    notify_all();
  }
}

void Loader::State::notify_all() {
  for (Signal* signal : {&room, &settled, &asked, &assembly.completed()}) signal->notify(*timing.waiter, 1 << 20);
}

Loader::Loader(Parts parts, const LoaderOptions& options) {
  if (options.batch_size == 0 || options.workers == 0 || options.prefetch_batches == 0)
    throw UsageError("loader: batch size, workers and prefetch depth must be at least 1");
  if (parts.share != nullptr && (parts.staging != nullptr || options.start.order.kind != OrderKind::random))
    throw UsageError("loader: a rank's share is of batches in random order that are its own, not a group's");
  const std::uint64_t slots = parts.staging != nullptr ? parts.staging_slots : std::uint64_t{options.prefetch_batches} + options.held_batches;
  check_tags(slots, options.batch_size);
  m_state = std::make_unique<State>(std::move(parts), options);
}

Loader::~Loader() = default;

Status Loader::next(Batch& batch, Deadline deadline) {
  State& s = *m_state;
  for (;;) {
    const auto ticket = s.assembly.completed().ticket();
    if (s.failures.fatal()) return {StatusCode::corrupt, 0};
    if (s.stopping.load()) return {StatusCode::cancelled, 0};
    if (s.assembly.take(s.next_sequence, batch)) {
      ++s.next_sequence;
      const std::scoped_lock lock(s.delivered_mutex);
      s.delivered_state = s.assembly.state_after(batch.sequence);
      return {};
    }
    if (s.assembly.ended_at(s.next_sequence)) return {StatusCode::end, 0};
    if (s.timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    s.assembly.completed().wait(*s.timing.waiter, ticket, {std::min(deadline.at, s.soon().at)});
  }
}

void Loader::release(ReleaseToken token) {
  if (m_state->pool) static_cast<void>(m_state->pool->release(token).ok());
}
const std::byte* Loader::memory(const Batch& batch) const { return m_state->pool ? m_state->pool->data(batch.token.slot) : nullptr; }
void Loader::stop() { m_state->stop(); }

LoaderTotals Loader::totals() const {
  const State& s = *m_state;
  LoaderTotals totals;
  totals.fetch = s.fetch_counter.totals();
  totals.fetch.waiting = s.feed_counter.totals().waiting;
  for (const auto& counter : s.prep_counters) totals.prep += counter.totals();
  totals.hits = s.hit_total.load(std::memory_order_relaxed);
  totals.misses = s.miss_total.load(std::memory_order_relaxed);
  totals.peer_hits = s.peer_counter.totals().samples;
  totals.peer_bytes = s.peer_counter.totals().bytes;
  totals.waiting_for_prep = s.ready.size();
  totals.ready_batches = s.assembly.ready();
  totals.operator_times.resize(s.parts.prep->operator_names().size());
  for (const auto& prep : s.preps) {
    const auto times = prep->operator_times();
    for (std::size_t i = 0; i < times.size() && i < totals.operator_times.size(); ++i) totals.operator_times[i] += times[i];
  }
  return totals;
}

LoaderTimes Loader::times() const {
  LoaderTimes times;
  times.request = m_state->request_times.counts();
  times.peer = m_state->peer_times.counts();
  for (const DurationHistogram& worker : m_state->prep_times) times.prep += worker.counts();
  return times;
}

std::vector<EpochTotals> Loader::epochs() const { return m_state->epochs.settled(); }
std::vector<EpochPrepared> Loader::prepared() const { return m_state->epochs.prepared(); }
std::vector<SampleFailure> Loader::failures() const { return m_state->failures.list(); }
std::vector<FailureCount> Loader::failure_counts() const { return m_state->failures.counts(); }
std::uint64_t Loader::failed_samples() const { return m_state->failures.count(); }
std::string Loader::failure() const { return m_state->failures.fatal_message(); }
bool Loader::out_of_memory() const { return m_state->failures.out_of_memory(); }
SamplerState Loader::state() const {
  const std::scoped_lock lock(m_state->delivered_mutex);
  SamplerState state = m_state->delivered_state;
  state.digest = m_state->parts.index->facts().digest;
  return state;
}
Bytes Loader::slot_bytes() const { return m_state->pool ? m_state->pool->segment().size() : 0; }
std::vector<std::string_view> Loader::operator_names() const { return m_state->parts.prep->operator_names(); }

}  // namespace dsanalyze
