#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "attached_rig.hpp"
#include "profile/attached/attached_parts.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

constexpr Bytes read_by_drain = 1'000'000'000;

/// A stream that is read once from 200 s to 210 s, which brings it into memory, and again by each drain, of which the first is from 300 s to 310 s.
LaunchedTraining stream(Bytes from_storage) {
  LaunchedTraining launched = prep_bound();
  AttachedTraining& training = launched.training;
  training.loader->style = LoaderRecord::Style::iterable;
  training.warm.emplace();
  training.warm->before = TreeUse{.at = to_nanoseconds(200)};
  training.warm->after = TreeUse{.at = to_nanoseconds(210)};
  for (std::size_t i = 0; i < training.drains.size(); ++i) {
    DrainMeasurement& drain = training.drains[i];
    drain.before->at = to_nanoseconds(300 + 100 * static_cast<double>(i));
    drain.after->at = drain.before->at + to_nanoseconds(10);
    drain.after->storage_bytes = from_storage;
    drain.before->storage_wait_seconds = 0;
    drain.after->storage_wait_seconds = 0.05;
  }
  training.phases[AttachPhase::cached].after->storage_bytes = from_storage;
  launched.accesses.emplace();
  launched.accesses->processes = {{11, "python3"}};
  for (std::uint64_t i = 0; i < 10; ++i) launched.accesses->files.push_back({"/data/" + std::to_string(i) + ".tar", 1 << 20, 1, i + 1});
  return launched;
}

void read(LaunchedTraining& launched, std::uint32_t file, double seconds, std::uint64_t offset = 0, Bytes bytes = 1 << 20) {
  launched.accesses->accesses.push_back({to_nanoseconds(seconds), offset, bytes, 0, file, file + 1, 1'000'000, AccessKind::read});
}

void differ(LaunchedTraining& launched) {
  for (DrainMeasurement& drain : launched.training.drains) drain.by_rank.at(0).differs = true;
}

}  // namespace

TEST_CASE("P of a stream that reads other data from storage once it is begun again is left out, and with it what is said of data in memory") {
  for (const bool traced : {false, true}) {
    CAPTURE(traced);
    LaunchedTraining launched = stream(read_by_drain / 2);
    if (!traced) differ(launched);
    for (std::uint32_t file = 0; traced && file < 10; ++file) read(launched, file, file < 5 ? 205 : 305);
    const ProfileResult result = profile_of(launched);
    CHECK_FALSE(result.prep);
    CHECK(result.prep_by_workers.empty());
    CHECK(result.run("prep") == nullptr);
    CHECK(result.run("cached") == nullptr);
    CHECK_FALSE(result.bottleneck);
    const std::string said = finding_of(result, "prep-not-separable").message;
    CHECK(says(said, "P with 2 workers is not separable from storage"));
    CHECK(says(said, traced ? "0 % of what it read had been read by the pass before" : "its first batches are not those of the pass before"));
    CHECK(says(said, "came from storage"));
    CHECK_FALSE(finds(result, "phases-missing"));
    CHECK_FALSE(finds(result, "cached-run-read-storage"));
    CHECK(result.ingestion);
  }
}

TEST_CASE("P stands where all came from memory, where both starts read the same, and of index lists that are given again") {
  LaunchedTraining in_memory = stream(0);
  differ(in_memory);
  CHECK(profile_of(in_memory).prep);

  LaunchedTraining same = stream(read_by_drain / 2);
  for (const double seconds : {205.0, 305.0})
    for (std::uint32_t file = 0; file < 10; ++file) read(same, file, seconds);
  differ(same);  // As batches that are padded at random do.
  CHECK(profile_of(same).prep);
  CHECK(finds(profile_of(same), "cached-run-read-storage"));

  LaunchedTraining lists = stream(read_by_drain / 2);
  differ(lists);
  lists.training.loader->style = LoaderRecord::Style::map;
  CHECK(profile_of(lists).prep);
}

TEST_CASE("a number of workers that reads other parts of a stream is left out alone") {
  LaunchedTraining launched = stream(read_by_drain / 2);
  for (const double seconds : {205.0, 305.0})
    for (std::uint32_t file = 0; file < 5; ++file) read(launched, file, seconds);
  for (std::uint32_t file = 5; file < 10; ++file) read(launched, file, 405);
  const ProfileResult result = profile_of(launched);
  REQUIRE(result.prep);
  CHECK(result.prep_by_workers.size() == 1);
  CHECK(says(finding_of(result, "prep-not-separable").message, "P with 1 worker is not separable"));
  CHECK(result.run("cached") != nullptr);
}

TEST_CASE("what a drain reads again is counted by parts of files, of data alone, and is not known where the tracer saw too little") {
  LaunchedTraining launched = stream(0);
  const DrainMeasurement& drain = launched.training.drains.front();
  CHECK_FALSE(read_before(launched, drain));
  launched.accesses->files.push_back({"/usr/lib/libz.so", 1 << 20, 1, 99});
  read(launched, 0, 205, 0, 512 << 10);
  read(launched, 10, 205);
  CHECK_FALSE(read_before(launched, drain));
  read(launched, 0, 305, 256 << 10, 512 << 10);
  read(launched, 10, 305);
  CHECK(*read_before(launched, drain) == doctest::Approx(0.5));
  launched.accesses->left_out = 1;
  CHECK_FALSE(read_before(launched, drain));
  read(launched, 0, 311);
  CHECK(read_before(launched, drain));
  launched.accesses.reset();
  CHECK_FALSE(read_before(launched, drain));
}

TEST_CASE("P is that of all drains of as many workers, but for further ones that failed or say something else") {
  const auto rate_with = [](auto&& change) {
    LaunchedTraining launched = prep_bound();
    for (DrainMeasurement& first : launched.training.drains) first.after->cpu_seconds = 15;
    launched.training.further_drains = {drain_of(2, 0.040), drain_of(1, 0.040)};
    launched.training.further_drains[0].after->cpu_seconds = 10;
    change(launched.training.further_drains[0]);
    return profile_of(launched);
  };
  const double first = profile_of(prep_bound()).prep->samples_per_s;
  const ProfileResult both = rate_with([](DrainMeasurement& /*as it is*/) {});
  CHECK(both.prep->samples_per_s == doctest::Approx(first * 2 / 3).epsilon(0.01));
  REQUIRE(both.prep_by_workers.size() == 2);
  CHECK(both.prep_by_workers[1].samples_per_s == both.prep->samples_per_s);
  const RunRecord& run = *both.run("prep");
  CHECK(run.samples == 2 * profile_of(prep_bound()).run("prep")->samples);
  CHECK(run.seconds == doctest::Approx(12).epsilon(0.01));
  CHECK(run.requested_bytes == 2'000'000'000);
  CHECK(*run.cores_used == doctest::Approx((1.5 * 4 + 1.0 * 8) / 12).epsilon(0.01));
  const auto left_out = [&](auto&& change) { return rate_with(change).prep->samples_per_s == first; };
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.at(0).error = "RuntimeError: no more"; }));
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.at(0).delivered.clear(), drain.by_rank.at(0).samples.clear(); }));
  CHECK(left_out([](DrainMeasurement& drain) { drain.by_rank.clear(); }));
}

TEST_CASE("a further drain of a stream that read other data from storage does not count") {
  LaunchedTraining launched = stream(0);
  const double first = profile_of(launched).prep->samples_per_s;
  launched.training.further_drains = {drain_of(2, 0.040)};
  DrainMeasurement& further = launched.training.further_drains[0];
  further.before->at = to_nanoseconds(600);
  further.after->at = to_nanoseconds(610);
  further.after->storage_bytes = 0;
  launched.accesses.reset();
  CHECK(profile_of(launched).prep->samples_per_s < first);
  further.after->storage_bytes = read_by_drain / 2;
  further.by_rank.at(0).differs = true;
  CHECK(profile_of(launched).prep->samples_per_s == first);
  CHECK_FALSE(finds(profile_of(launched), "prep-not-separable"));
}
