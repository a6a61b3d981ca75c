#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "core/trace/span_recorder.hpp"
#include "loader_rig.hpp"

namespace dsanalyze::testing {
namespace {

constexpr std::size_t span_room = 100'000;

std::vector<Span> spans_of(const SpanRecorder& recorder, SpanTrack::Role role, SpanKind kind) {
  std::vector<Span> found;
  for (const SpanTrack& track : recorder.tracks()) {
    if (track.role() != role) continue;
    for (const Span& span : track.spans())
      if (span.kind == kind) found.push_back(span);
  }
  return found;
}

/// On each track, what is not apart lies one in the other. Reads may overlap.
void check_nested(const SpanTrack& track) {
  std::vector<Span> spans = track.spans();
  std::ranges::sort(spans, [](const Span& a, const Span& b) { return std::tuple(a.begin, -a.end, a.kind) < std::tuple(b.begin, -b.end, b.kind); });
  std::vector<Nanoseconds> ends;
  for (const Span& span : spans) {
    CHECK(span.begin <= span.end);
    while (!ends.empty() && ends.back() <= span.begin) ends.pop_back();
    if (!ends.empty()) CHECK(span.end <= ends.back());
    ends.push_back(span.end);
  }
}

struct Traced {
  Traced(Rig& rig, LoaderOptions options) : recorder(span_room) {
    options.start.samples = rig.index->size();
    Loader loader({rig.index, rig.engine.get(), &rig.server.cache(), rig.prep.get(), {}, system_timing(), nullptr, &recorder}, options);
    consume(loader);
    loader.stop();
    totals = loader.totals();
    for (const SpanTrack& track : recorder.tracks())
      if (track.role() != SpanTrack::Role::reads) check_nested(track);
  }
  [[nodiscard]] std::vector<Span> of_workers(SpanKind kind) const { return spans_of(recorder, SpanTrack::Role::prep_worker, kind); }

  SpanRecorder recorder;
  LoaderTotals totals;
};

}  // namespace

TEST_CASE("a traced loader leaves a track for each worker, and each sample in it with its operators' very times") {
  FileDataset data;
  Rig rig(pictures(data, {}), CacheKind::minio, 1 << 20, small_prep());
  const Traced traced(rig, loader_options(4, 3));
  CHECK(std::ranges::count(traced.recorder.tracks(), SpanTrack::Role::prep_worker, &SpanTrack::role) == 3);
  CHECK(traced.of_workers(SpanKind::sample).size() == 30);
  CHECK(traced.recorder.dropped() == 0);

  std::vector<Nanoseconds> spent(traced.totals.operator_times.size());
  for (const Span& span : traced.of_workers(SpanKind::prep)) spent.at(span.amount) += span.end - span.begin;
  CHECK(spent == traced.totals.operator_times);

  const auto batches = traced.of_workers(SpanKind::batch);
  CHECK(std::accumulate(batches.begin(), batches.end(), 0U, [](unsigned sum, const Span& span) { return sum + span.amount; }) == 30);
  const auto last = std::ranges::max_element(batches, {}, &Span::number);
  CHECK(last->number == 8);  // three epochs of three batches

  const auto reads = spans_of(traced.recorder, SpanTrack::Role::reads, SpanKind::read);
  CHECK(reads.size() == traced.totals.misses);
  CHECK(reads.size() == 10);
  for (const Span& read : reads) CHECK(read.amount == (*rig.index)[static_cast<SampleId>(read.number)].length);
  const auto kept = traced.of_workers(SpanKind::keep);
  CHECK(std::accumulate(kept.begin(), kept.end(), 0U, [](unsigned sum, const Span& span) { return sum + span.amount; }) == 10);
  CHECK(spans_of(traced.recorder, SpanTrack::Role::sampler, SpanKind::batch).size() == 9);
}

TEST_CASE("a traced loader with a shuffle buffer, and one without prep, nest as well") {
  Rig rig(emulated_dataset(500, 100), CacheKind::minio, 20'000, no_prep(), 256);
  LoaderOptions options = loader_options(32, 2);
  CHECK(Traced(rig, options).of_workers(SpanKind::sample).size() == 1000);
  options.start.order = {OrderKind::sequential, 64, 1};
  CHECK(Traced(rig, options).of_workers(SpanKind::sample).size() == 1000);
}

TEST_CASE("a broken sample has its place in the trace") {
  FileDataset data;
  Rig rig(pictures(data, {3}), CacheKind::none, 0, small_prep());
  LoaderOptions options = loader_options(5, 1);
  options.error_budget = 1;
  const Traced traced(rig, options);
  CHECK(traced.of_workers(SpanKind::sample).size() == 10);
  CHECK(traced.totals.prep.failures == 1);
}

TEST_CASE("a loader goes on when the trace is full") {
  Rig rig(emulated_dataset(5000, 100), CacheKind::none, 0, no_prep(), 256);
  SpanRecorder recorder(1);
  LoaderOptions options = loader_options(100, 2);
  options.start.samples = rig.index->size();
  Loader loader({rig.index, rig.engine.get(), &rig.server.cache(), rig.prep.get(), {}, system_timing(), nullptr, &recorder}, options);
  const Seen seen = consume(loader);
  CHECK(seen.end.code == StatusCode::end);
  loader.stop();
  CHECK(recorder.dropped() > 5000);
}

}  // namespace dsanalyze::testing
