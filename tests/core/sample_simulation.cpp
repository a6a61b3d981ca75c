#include <limits>

#include "sample_results.hpp"

namespace dsanalyze::test {

SimulateResult full_simulation() {
  SimulateResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.source = "two-jobs.json";
  result.name = "two-jobs";
  result.description = "two jobs, half an epoch apart";
  result.samples = 1000;
  result.dataset_bytes = 110'000;
  result.digest = "d1";
  result.jobs = 2;
  result.accesses = 4000;
  result.orders = SimulatedOrders{"shards", 128, 2, "same", 0.5, 16, 4096, 7};
  CaseCounts counts;
  counts.cache = {ReplayPolicy::lru, 38'500, 0};
  counts.jobs = {{{0, {1000, 100, 110'000, 99'000}}, {1, {1000, 200, 110'000, 88'000}}},
                 {{0, {1000, 300, 110'000, 77'000}}, {1, {1000, 400, 110'000, 66'000}}}};
  counts.add_up();
  counts.items_held = 350;
  counts.bytes_held = 38'500;
  result.cases = {counts};
  counts.cache = {ReplayPolicy::minio_cost_aware, 38'500, 0.5F};
  result.recorded = counts;
  counts.cache = {ReplayPolicy::belady, 38'500, 0};
  counts.jobs = {{{3, {1000, 100, 110'000, 99'000}}}, {}};
  counts.add_up();
  result.cases.push_back(counts);
  result.times = {PipelineTimes{5000, 20, 0.5, 0.001, 0.02, 0.1, 6000, 7000, std::numeric_limits<double>::infinity(), 0.1, 0.2, "io", true},
                  std::nullopt};
  result.findings = {{"trace-ends-in-epoch", Finding::Severity::info, "The trace ends within epoch 2."}};
  return result;
}

SimulateResult simulated_draws() {
  SimulateResult result;
  result.tool = {"dsanalyze", "1.2.3", "abc"};
  result.source = "run.draws";
  result.samples = 1000;
  result.dataset_bytes = 602'112'000;
  result.digest = "d1";
  result.jobs = 5;
  result.accesses = 25'000;
  result.draws =
      SimulatedDraws{12'000, 25'000, 10'000, 602'112, {"refcnt", 100, 0.1, 16'000, 3'000, 0.64, 1.6}, {{"lru", 250, 0.25, 15'000, 5'000, 0.6, 1.5}}};
  return result;
}

}  // namespace dsanalyze::test
