#include "profile/training.hpp"

#include <doctest/doctest.h>

#include <array>

#include "loaders/dataset/dataset.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {
namespace {

TEST_CASE("the last step counts when the loader has ended, however long it lasts, and a batch that was there before the begin came at the begin") {
  DatasetSpec spec;
  spec.name = "few";
  spec.samples = 4;
  spec.mean_sample_bytes = 100;
  const auto index = make_emulated_index(spec, 0, 1, 1);
  ServerHolder server({CacheKind::none, 0, index->size(), index->bytes(), 100, 16, 0}, system_timing());
  FetchOptions fetch;
  fetch.largest_made_up = 100;
  const auto engine = make_null_engine(fetch, system_timing());
  const auto prep = make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1));
  LoaderOptions options;
  options.batch_size = 4;
  options.start.samples = index->size();
  options.epochs = 1;
  Loader loader({index, engine.get(), &server.cache(), prep.get(), {}, system_timing()}, options);

  // The accelerators' time only moves when someone waits: a step of two seconds takes none here.
  ManualTiming manual;
  manual.advance(system_timing().clock->now() + 3600 * nanoseconds_per_second);  // after all that the loader does
  std::array<DeviceLane, 2> lanes;
  const auto trainer = make_emulated_trainer({2, 2, StepMode::independent}, lanes, manual.timing());
  const TrainingLog log = train(
      loader, *trainer, [](const TrainingLog&) { return false; }, {}, manual.timing());
  REQUIRE(log.completions.size() == 1);
  CHECK(log.completions[0].samples == 4);
  CHECK(log.completions[0].end - log.completions[0].begin == 2 * nanoseconds_per_second);
  CHECK(log.first_batch == log.begun);
}

TEST_CASE("what is steady begins with the second epoch, whichever accelerator ends the first one") {
  TrainingLog log;
  log.begun = 10;
  log.completions = {{{}, 0, 0, 4, false, 0, 30, 40, 20}, {{}, 1, 1, 4, true, 0, 55, 60, 5}, {{}, 2, 0, 4, true, 0, 60, 70, 20}};
  CHECK(log.steady_begin() == 10);  // nothing came after the first epoch
  log.completions.push_back({{}, 3, 1, 4, true, 0, 78, 90, 8});
  CHECK(log.steady_begin() == 70);
  CHECK(log.longest_steady_stall() == 8);
  CHECK(log.steady_stall_fraction(1) == doctest::Approx(0.4));
  CHECK(log.steady_stall_fraction(2) == doctest::Approx(0.2));
}

}  // namespace
}  // namespace dsanalyze
