#include "core/trace/trace_events.hpp"
#include "../base/sanitizers.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "trace_lines.hpp"

using namespace dsanalyze;

namespace {

constexpr Nanoseconds begun = 77'000'000'000'123;
constexpr std::size_t few_events = 10'000;

TracedRun run_over(const SpanRecorder& spans) {
  TracedRun run;
  run.spans = &spans;
  run.operators = {"decode", "resize"};
  run.begun = begun;
  run.name = "a run";
  return run;
}

/// So many samples of two operators, one after the other.
void add_samples(SpanTrack& track, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const Nanoseconds at = begun + static_cast<Nanoseconds>(i) * 1000;
    track.add({at, at + 700, i, 0, SpanKind::prep});
    track.add({at + 700, at + 999, i, 1, SpanKind::prep});
    track.add({at, at + 999, i, 0, SpanKind::sample});
  }
}

}  // namespace

TEST_CASE("spans nest as they were: batch, in it samples, in them operators") {
  SpanRecorder recorder(few_events);
  SpanTrack& track = recorder.make_track(SpanTrack::Role::prep_worker);
  add_samples(track, 3);
  track.add({begun, begun + 2999, 9, 3, SpanKind::batch});
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  const TraceEventsSummary written = write_trace_events(file, run_over(recorder), few_events);
  const test::ReadTrace trace = test::read_trace(file);
  CHECK(written.events == trace.events());
  CHECK(written.dropped == 0);
  const auto workers = trace.named("prep worker");
  REQUIRE(workers.size() == 1);
  CHECK(workers.front()->name == "prep worker 1");
  CHECK(workers.front()->depths == std::vector<std::size_t>{0, 1, 2, 2, 1, 2, 2, 1, 2, 2});
  CHECK(workers.front()->spans[0]["name"] == "batch");
  CHECK(workers.front()->spans[0]["ts"] == 0);
  CHECK(workers.front()->spans[2]["name"] == "decode");
  CHECK(workers.front()->spans[3]["name"] == "resize");
}

TEST_CASE("a loader that begins before the run keeps its first spans whole") {
  SpanRecorder recorder(few_events);
  recorder.make_track(SpanTrack::Role::prep_worker).add({begun - 5000, begun + 1000, 0, 0, SpanKind::sample});
  TracedRun run = run_over(recorder);
  run.epochs = {{begun + 15'000, 0}};
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  write_trace_events(file, run, few_events);
  const test::ReadTrace trace = test::read_trace(file);
  const nlohmann::json& sample = trace.named("prep worker").front()->spans.front();
  CHECK(sample["ts"] == 0);
  CHECK(sample["dur"] == 6);
  const nlohmann::json& epoch = trace.named("epochs").front()->spans.front();
  CHECK(epoch["ts"] == 5);
  CHECK(epoch["dur"] == 15);
}

TEST_CASE("whatever instants nested spans have, they nest in the file, in numbers that binary holds exactly") {
  RandomStream random(3);
  SpanRecorder recorder(few_events);
  SpanTrack& track = recorder.make_track(SpanTrack::Role::prep_worker);
  Nanoseconds at = begun;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Nanoseconds begin = at + static_cast<Nanoseconds>(random.uniform(0, 300));
    const Nanoseconds middle = begin + static_cast<Nanoseconds>(random.uniform(0, 300));
    const Nanoseconds end = middle + static_cast<Nanoseconds>(random.uniform(0, 300));
    track.add({begin, middle, i, 0, SpanKind::prep});
    track.add({middle, end, i, 1, SpanKind::prep});
    track.add({begin, end, i, 0, SpanKind::sample});
    at = end;
  }
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  write_trace_events(file, run_over(recorder), few_events);
  const test::ReadTrace trace = test::read_trace(file);
  for (const nlohmann::json& span : trace.named("prep worker").front()->spans)
    for (const char* key : {"ts", "dur"})
      CHECK(span[key].get<double>() * 8 == static_cast<double>(static_cast<std::int64_t>(span[key].get<double>() * 8)));
}

TEST_CASE("reads and steps that overlap lie on tracks of their own, as many as were in flight at once") {
  SpanRecorder recorder(few_events);
  SpanTrack& reads = recorder.make_track(SpanTrack::Role::reads);
  for (const auto& [from, to] : {std::pair<Nanoseconds, Nanoseconds>{0, 50}, {10, 20}, {15, 40}, {20, 30}, {60, 70}})
    reads.add({begun + from * 1000, begun + to * 1000, 1, 10, SpanKind::read});
  TracedRun run = run_over(recorder);
  run.steps = {{begun + 20'000, begun + 30'000, 5000, 1, 8}, {begun + 10'000, begun + 15'000, 0, 0, 8}, {begun + 12'000, begun + 29'000, 2000, 1, 8}};
  run.epochs = {{begun + 15'000, 0}, {begun + 30'000, 1}};
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  write_trace_events(file, run, few_events);
  const test::ReadTrace trace = test::read_trace(file);
  CHECK(trace.named("read in flight").size() == 3);
  CHECK(trace.named("read in flight").front()->spans.size() == 2);
  CHECK(trace.named("accelerator").size() == 2);
  CHECK(trace.named("accelerator").front()->spans.size() == 3);  // a step, a wait, a step
  CHECK(trace.named("epochs").front()->spans.size() == 2);
  CHECK(trace.kinds.at("i") == 2);
}

TEST_CASE("names of strangers cannot break the document") {
  SpanRecorder recorder(few_events);
  add_samples(recorder.make_track(SpanTrack::Role::prep_worker), 1);
  TracedRun run = run_over(recorder);
  const std::string hostile = "\"},{\n]\x1b[2J\\u0000</script>\xff\xc3";
  run.operators.front() = hostile;
  run.name = hostile;
  run.facts = {{hostile, hostile}, {"dataset", std::string("a\0b", 3)}};
  run.counters = {{hostile, {{begun, 1}, {begun + 1000, std::nan("")}}}};
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  write_trace_events(file, run, few_events);
  const test::ReadTrace trace = test::read_trace(file);
  const std::string shown = "\"},{\n]\x1b[2J\\u0000</script>\xef\xbf\xbd\xef\xbf\xbd";
  CHECK(trace.facts[shown] == shown);
  CHECK(trace.facts["dataset"] == std::string("a\0b", 3));
  CHECK(trace.counters.at(shown) == 1);
  CHECK(trace.named("prep worker").front()->spans[1]["name"] == shown);
}

TEST_CASE("however many spans there are, epochs, counters and names keep their room, and what is left out is counted") {
  SpanRecorder recorder(room_for_spans(few_events));
  add_samples(recorder.make_track(SpanTrack::Role::prep_worker), few_events);
  TracedRun run = run_over(recorder);
  run.epochs = {{begun + 1'000'000, 0}, {begun + 9'000'000, 1}};
  run.counters.push_back({"cache hits", {}});
  for (Nanoseconds i = 0; i < 100'000; ++i) run.counters.front().points.push_back({begun + i * 1000, static_cast<double>(i)});
  for (Nanoseconds i = 0; i < 100'000; ++i) run.steps.push_back({begun + i * 1000, begun + i * 1000 + 900, 0, 1, 1});
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  const TraceEventsSummary written = write_trace_events(file, run, few_events);
  const test::ReadTrace trace = test::read_trace(file);
  CHECK(written.events <= few_events);
  CHECK(written.events > few_events * 9 / 10);
  CHECK(written.dropped == recorder.dropped() + 100'000 - trace.named("accelerator").front()->spans.size());
  CHECK(trace.facts["dropped_spans"] == written.dropped);
  CHECK(trace.kinds.at("i") == 2);
  CHECK(trace.counters.at("cache hits") > 100);
  CHECK(trace.named("prep worker").front()->spans.size() > few_events * 8 / 10);
}

TEST_CASE("a million events are written and read back" * doctest::skip(testing::too_often)) {
  constexpr std::size_t million = 1'000'000;
  SpanRecorder recorder(room_for_spans(million));
  add_samples(recorder.make_track(SpanTrack::Role::prep_worker), million / 3);
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "trace.json").native();
  const TraceEventsSummary written = write_trace_events(file, run_over(recorder), million);
  CHECK(written.events >= room_for_spans(million));
  CHECK(written.events + written.dropped >= million - 1);
  std::ifstream stream(file);
  std::uint64_t lines = 0;
  std::string line, last_span;
  for (; std::getline(stream, line); ++lines)
    if (line.starts_with(R"({"ph":"X")")) last_span = line;
  CHECK(lines == written.events + 2);
  CHECK(nlohmann::json::parse(last_span)["dur"].get<double>() > 0);
}

TEST_CASE("a trace that cannot be written names the file and leaves none") {
  SpanRecorder recorder(few_events);
  add_samples(recorder.make_track(SpanTrack::Role::prep_worker), 3000);
  const testing::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(write_trace_events((folder.path() / "none/trace.json").native(), run_over(recorder), few_events), doctest::Contains("none"),
                       Error);
  CHECK_THROWS_WITH_AS(write_trace_events("/dev/full", run_over(recorder), few_events), doctest::Contains("/dev/full"), Error);
  CHECK(folder.entries() == 0);
}
