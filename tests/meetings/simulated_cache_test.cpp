#include <doctest/doctest.h>

#include "../base/temporary_folder.hpp"
#include "../loaders/loader_rig.hpp"
#include "core/trace/access_trace.hpp"
#include "models/simulate/cache_simulator.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

constexpr std::uint64_t epoch_count = 5;

/// A real loader with a real cache.
struct RealRun {
  CacheKind kind = CacheKind::minio;
  Admission admission = Admission::first;
  OrderSpec order;
};

/// What the loader counted, epoch by epoch; its accesses are in `file`.
std::vector<EpochTotals> run_loader(const RealRun& run, const std::shared_ptr<const DatasetIndex>& index, const std::filesystem::path& file) {
  const Bytes capacity = index->bytes() * 35 / 100;
  const StorageCost cost{0.005, 1e-7};
  const float least = run.admission == Admission::cost_aware ? admission_threshold(index->records(), cost, capacity) : 0;
  ServerHolder server({run.kind, capacity, index->size(), index->bytes(), largest_sample(*index), 4096, least}, system_timing());
  const auto engine = make_null_engine(Rig::fetch(256), system_timing());
  const auto prep = no_prep();
  AccessTraceWriter trace(
      file, {index->size(), index->bytes(), index->facts().digest, 1, {replay_policy_of(run.kind, run.admission), capacity, least}, cost});
  LoaderOptions options = loader_options(32, epoch_count);
  options.storage_cost = cost;
  options.start = {11, 0, 0, index->size(), run.order};
  Loader loader({index, engine.get(), &server.cache(), prep.get(), {}, system_timing(), &trace}, options);
  const Seen seen = consume(loader);
  CHECK(seen.end.code == StatusCode::end);
  loader.stop();
  trace.finish();
  return loader.epochs();
}

}  // namespace

TEST_CASE("the real cache and the simulated one have the same hits in every epoch") {
  const TemporaryFolder folder;
  const auto index = emulated_dataset(1500, 300, 0.5);
  const std::vector<RealRun> runs = {{CacheKind::none, Admission::first, {}},
                                     {CacheKind::minio, Admission::first, {}},
                                     {CacheKind::minio, Admission::cost_aware, {}},
                                     {CacheKind::lru, Admission::first, {}},
                                     {CacheKind::page_model_random, Admission::first, {}},
                                     {CacheKind::page_model_linux, Admission::first, {}},
                                     {CacheKind::minio, Admission::first, {OrderKind::sequential, 100, 0, 1, 1}},
                                     {CacheKind::lru, Admission::first, {OrderKind::sequential, 100, 0, 1, 1}}};
  for (const RealRun& run : runs) {
    CAPTURE(cache_kind_name(run.kind));
    CAPTURE(static_cast<int>(run.admission));
    CAPTURE(order_kind_name(run.order.kind));
    const auto totals = run_loader(run, index, folder.path() / "trace");
    AccessTraceReader trace(folder.path() / "trace");
    const CaseCounts recorded = recorded_counts(trace);
    const CaseCounts simulated = replay(trace, {&trace.header().cache, 1}).front();

    // The same from the order alone, without a recording.
    JobOrders jobs;
    jobs.order = run.order;
    jobs.samples = index->size();
    jobs.sizes.records = index->records();
    jobs.storage_cost = trace.header().storage_cost;
    jobs.seed = 11;
    jobs.epochs = epoch_count;
    const CaseCounts made_up = replay(*make_order_source(jobs), {&trace.header().cache, 1}).front();

    REQUIRE(totals.size() == epoch_count);
    REQUIRE(simulated.epochs.size() == epoch_count);
    for (std::size_t epoch = 0; epoch < epoch_count; ++epoch) {
      CHECK(simulated.epochs[epoch].counts.hits == totals[epoch].hits);
      CHECK(simulated.epochs[epoch].counts.misses() == totals[epoch].misses);
      CHECK(simulated.epochs[epoch].counts.bytes_missed == totals[epoch].requested);
    }
    CHECK(simulated.epochs == recorded.epochs);
    CHECK(simulated.epochs == made_up.epochs);
    if (holds_samples(run.kind)) CHECK(simulated.items_held > 0);
  }
}

TEST_CASE("the accesses of a trace are the sampler's order of the trace's epochs, whatever the cache") {
  const TemporaryFolder folder;
  const auto index = emulated_dataset(700, 300);
  run_loader({CacheKind::lru, Admission::first, {}}, index, folder.path() / "trace");
  AccessTraceReader trace(folder.path() / "trace");
  CHECK(trace.accesses() == 700 * epoch_count);
  CHECK(trace.header().samples == 700);
  CHECK(trace.header().digest == dataset_digest(*index));
  std::vector<std::vector<SampleId>> epochs(epoch_count);
  AccessBlock block;
  while (trace.next(block)) {
    for (const CacheAccess& access : block.accesses) {
      epochs[block.epoch_of_job[0]].push_back(static_cast<SampleId>(access.key));
      CHECK(access.bytes == (*index)[static_cast<SampleId>(access.key)].length);
    }
  }
  for (std::uint64_t epoch = 0; epoch < epoch_count; ++epoch) {
    EpochOrder order;
    make_epoch_order({}, 11, epoch, {}, 700, order);
    CHECK(epochs[epoch] == order.training);
  }
}
