#include "core/trace/draw_trace.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "../../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "core/dependent/dependent_group.hpp"
#include "core/dependent/draw_replay.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

constexpr std::uint32_t trace_samples = 300;

DependentGroup::Settings group_of(std::uint32_t places, StagingPolicy policy) { return {trace_samples, 11, places, policy}; }

/// Jobs that begin epochs over parts of the dataset, draw at speeds of their own, leave and come back, as the seed draws it: always the same calls.
DrawReplay::Counts run(DependentGroup& group, int rounds = 4000) {
  RandomStream random(23);
  DrawReplay::Counts counts;
  const auto begin = [&](std::uint32_t job) {
    if (random.below(2) == 0) {
      group.begin_epoch(job);
      return;
    }
    std::vector<SampleId> samples;
    for (SampleId sample = 0; sample < trace_samples; ++sample)
      if (sample / 10 % 3 == job % 3 || random.below(2) == 0) samples.push_back(sample);
    group.begin_epoch(job, samples);
  };
  for (int round = 0; round < rounds; ++round) {
    const auto chosen = static_cast<std::uint32_t>(random.below(5));
    if (random.below(500) == 0) group.end(chosen);
    JobSet asking = 0;
    for (std::uint32_t job = 0; job < 5; ++job) {
      if (random.below(1 + job) > 0) continue;
      if (group.sets().remaining(job) == 0) begin(job);
      asking |= set_of(job);
    }
    for (const DependentGroup::Work& work : group.draw(asking)) {
      if (work.prepare) {
        ++counts.prepared;
      } else {
        counts.from_store += static_cast<std::uint64_t>(std::popcount(work.jobs));
      }
    }
  }
  return counts;
}

DrawTraceHeader header_of(std::uint32_t places, StagingPolicy policy) { return {trace_samples, "0123456789abcdef", 11, policy, places, 602'112}; }

const std::vector<DrawReplay::Case> all_stores{{0, StagingPolicy::refcnt},  {30, StagingPolicy::refcnt}, {30, StagingPolicy::lru},
                                               {90, StagingPolicy::refcnt}, {90, StagingPolicy::lru},    {300, StagingPolicy::refcnt}};

}  // namespace

TEST_CASE("recorded draws, replayed before any store, give what a group with that store prepares") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.draws";
  DependentGroup recorded(group_of(30, StagingPolicy::lru));
  DrawTraceWriter writer(path, header_of(30, StagingPolicy::lru));
  recorded.record_to(writer);
  const DrawReplay::Counts made = run(recorded);
  writer.finish();

  DrawTraceReader reader(path);
  CHECK(reader.header() == header_of(30, StagingPolicy::lru));
  DrawReplay replay(trace_samples, all_stores);
  reader.replay(replay);
  CHECK(replay.recorded() == made);
  CHECK(replay.rounds() > 3000);
  for (std::size_t i = 0; i < all_stores.size(); ++i) {
    DependentGroup same(group_of(all_stores[i].places, all_stores[i].policy));
    CHECK(replay.counts()[i] == run(same));
  }
  CHECK(replay.counts()[2] == made);
  CHECK(replay.counts()[0].from_store == 0);
  CHECK(replay.counts()[3].from_store > replay.counts()[1].from_store);
  CHECK(replay.drawn_by()[0] > 2 * replay.drawn_by()[4]);
  std::uint64_t drawn = 0;
  for (const std::uint64_t each : replay.drawn_by()) drawn += each;
  CHECK(drawn == replay.drawn());
}

TEST_CASE("a recording that begins in mid-epoch has what jobs still need, and ends when it is told to") {
  DependentGroup group(group_of(0, StagingPolicy::refcnt));
  run(group, 50);
  DrawReplay replay(trace_samples, all_stores);
  group.record_to(replay);
  DrawReplay::Counts then;
  for (int round = 0; round < 20; ++round)
    for (const DependentGroup::Work& work : group.draw(set_of(0))) then.prepared += work.prepare ? 1 : 0;
  CHECK(replay.recorded() == then);
  group.stop_recording();
  group.draw(set_of(0));
  CHECK(replay.rounds() == 20);
}

TEST_CASE("without finish() there is no trace, and a damaged one is refused with the place, what was found and what was expected") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.draws";
  {
    DrawTraceWriter writer(path, header_of(10, StagingPolicy::refcnt));
    const SampleRange some{3, 9};
    writer.began(2, {&some, 1});
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_THROWS_AS(DrawTraceReader{path}, Error);

  DrawTraceWriter writer(path, header_of(10, StagingPolicy::refcnt));
  const SampleRange some{3, 9};
  const std::vector<DrawRecorder::Drawn> round{{4, 0b100, true}, {5, 0b001, false}};
  writer.began(2, {&some, 1});
  writer.began(0, {&some, 1});
  writer.drew(round);
  writer.ended(2);
  writer.finish();
  CHECK(is_draw_trace(path));
  const std::string whole = read_file(path);
  REQUIRE(whole.size() == 112 + 7 * 16 + 24);

  const auto refused = [&](const std::string& text, const std::string& message) {
    const std::filesystem::path other = folder.path() / "other.draws";
    write_file_atomically(other, text);
    CAPTURE(message);
    const auto read = [&] {
      DrawTraceReader reader(other);
      DrawReplay replay(reader.header().samples, {});
      reader.replay(replay);
    };
    CHECK_THROWS_WITH_AS(read(), doctest::Contains((other.native() + ": at byte " + message).c_str()), Error);
  };
  const auto with = [&](std::size_t at, std::uint32_t value) {
    std::string text = whole;
    std::memcpy(text.data() + at, &value, sizeof value);
    return text;
  };
  const auto record = [](int number, int part) { return static_cast<std::size_t>(112 + 16 * number + 4 * part); };
  for (std::size_t size = 0; size < whole.size(); size += 5) refused(whole.substr(0, size), "");
  refused(with(0, 1), "0: found other bytes");
  refused(with(8, 2), "8: found version 2");
  refused(with(12, 8), "12: found 8 bytes a record");
  refused(with(16, 0), "16: found 0 samples");
  refused(with(20, 7), "20: found policy number 7");
  refused(with(36, 1), "32: found a prepared sample of");
  refused(with(40, 301), "40: found a store of 301 samples");
  refused(with(44, 1), "44: found other bytes, expected zeros");
  refused(with(56, 1), "56: found a digest that is no text");
  refused(with(record(0, 0), 0), "112: found an epoch of no samples");
  refused(with(record(0, 0), 2), "144: found no range");
  refused(with(record(0, 2), 64), "112: found job 64");
  refused(with(record(0, 1), 9), "112: found a record of kind 9");
  refused(with(record(1, 2), 3), "128: found samples from 3 up to 3");
  refused(with(record(1, 2), 301), "128: found samples from 3 up to 301");
  refused(with(record(2, 2), 2), "160: job 2 begins an epoch while it needs 6 samples");
  refused(with(record(4, 0), 300), "176: found sample 300");
  refused(with(record(4, 0), 2), "208: sample 2 is drawn for a job that does not need it");
  refused(with(record(4, 1), 5), "176: found a draw that continues no round");
  refused(with(record(5, 2), 4), "192: found a draw for no job, or for one that has drawn");
  refused(with(record(6, 0), 1), "224: the checksum is not that of the records");
  refused(whole + " ", "");
  write_file_atomically(folder.path() / "else", std::string("dsatrace"));
  CHECK_FALSE(is_draw_trace(folder.path() / "else"));
}

TEST_CASE("samples and ranges of them are made from each other") {
  CHECK(ranges_of(std::vector<SampleId>{0, 1, 2, 5, 7, 8}) == std::vector<SampleRange>{{0, 3}, {5, 6}, {7, 9}});
  CHECK(samples_of(ranges_of(std::vector<SampleId>{0, 1, 2, 5, 7, 8})) == std::vector<SampleId>{0, 1, 2, 5, 7, 8});
  CHECK(parse_subset_ranges("5-7,8,0-1,7-20", 30) == std::vector<SampleRange>{{0, 2}, {5, 21}});
  CHECK(count_of_both(std::vector<SampleRange>{{0, 10}, {20, 30}}, std::vector<SampleRange>{{5, 22}, {29, 40}}) == 8);
  CHECK(count_of_both(std::vector<SampleRange>{}, std::vector<SampleRange>{{5, 22}}) == 0);
}
