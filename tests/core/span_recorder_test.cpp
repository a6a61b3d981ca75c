#include "core/trace/span_recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

using namespace dsanalyze;

namespace {

constexpr std::size_t block = SpanRecorder::block_spans;

Span span_number(std::uint64_t number) {
  return {static_cast<Nanoseconds>(number), static_cast<Nanoseconds>(number) + 1, number, 0, SpanKind::sample};
}

}  // namespace

TEST_CASE("a track gives its spans back in the order they were added, across blocks") {
  SpanRecorder recorder(10 * block);
  SpanTrack& track = recorder.make_track(SpanTrack::Role::sampler);
  CHECK(track.spans().empty());
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{block}, std::uint64_t{2 * block + 7}}) {
    for (std::uint64_t i = track.spans().size(); i < count; ++i) track.add(span_number(i));
    const std::vector<Span> spans = track.spans();
    REQUIRE(spans.size() == count);
    for (std::uint64_t i = 0; i < count; ++i) CHECK(spans[i].number == i);
  }
  CHECK(recorder.dropped() == 0);
  CHECK(recorder.memory_bytes() == 10 * block * sizeof(Span));
}

TEST_CASE("a full recorder drops what comes, counts it, and keeps what it has") {
  SpanRecorder recorder(2 * block);
  SpanTrack& first = recorder.make_track(SpanTrack::Role::prep_worker);
  SpanTrack& second = recorder.make_track(SpanTrack::Role::prep_worker);
  second.add(span_number(0));
  for (std::uint64_t i = 0; i < block + 100; ++i) first.add(span_number(i));
  CHECK(first.spans().size() == block);
  CHECK(first.dropped() == 100);
  second.add(span_number(1));  // its own block has room still
  CHECK(second.spans().size() == 2);
  CHECK(recorder.dropped() == 100);
  CHECK(first.number() == 0);
  CHECK(second.number() == 1);
}

TEST_CASE("threads that record at once share the room and lose nothing while there is some") {
  constexpr std::size_t threads = 4;
  constexpr std::uint64_t each = 50 * block;
  SpanRecorder recorder(threads * each);
  std::vector<SpanTrack*> tracks;
  for (std::size_t i = 0; i < threads; ++i) tracks.push_back(&recorder.make_track(SpanTrack::Role::prep_worker));
  {
    std::vector<std::jthread> workers;
    workers.reserve(threads);
    for (SpanTrack* track : tracks) {
      workers.emplace_back([track] {
        for (std::uint64_t i = 0; i < each; ++i) track->add(span_number(i));
      });
    }
  }
  CHECK(recorder.dropped() == 0);
  for (const SpanTrack* track : tracks) {
    const std::vector<Span> spans = track->spans();
    REQUIRE(spans.size() == each);
    CHECK(std::ranges::is_sorted(spans, {}, &Span::number));
    CHECK(spans.back().number == each - 1);
  }
}
