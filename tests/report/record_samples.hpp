#pragma once

#include "report_samples.hpp"

namespace dsanalyze::test {

/// Caches of 25, 50 and 75 % (35 % was measured) by 24 and 48 cores (as measured: not known), at two accelerator speeds: every combination.
inline WhatIfResult swept_whatif() {
  WhatIfResult result = full_whatif();
  result.search.reset();
  result.validation.reset();
  const WhatIfAnswer base = result.answers.front();
  result.answers = {base};
  for (const double cache : {0.75, 0.25, 0.5, 0.0})
    for (const double cores : {48.0, 24.0, 0.0})
      for (const double speed : {2.0, 0.0}) {
        if (cache + cores + speed == 0) continue;
        WhatIfAnswer answer = base;
        answer.not_measured.clear();
        if (cache > 0) answer.change.cache_fraction = cache;
        if (cores > 0) answer.change.cores = cores;
        if (speed > 0) answer.change.accelerator_speed = speed;
        answer.samples_per_s = 1000 + 10'000 * (cache > 0 ? cache : 0.35) + 10 * (cores > 0 ? cores : 24) + speed;
        answer.ci95_samples_per_s = {answer.samples_per_s - 100, answer.samples_per_s + 100};
        answer.speedup = answer.samples_per_s / base.samples_per_s;
        result.answers.push_back(answer);
      }
  return result;
}

/// 8, 2 and 4 servers, each partitioned in four ways: rates and bytes of their own. One answer changes the cores too.
inline WhatIfResult scaled_whatif() {
  WhatIfResult result = swept_whatif();
  const WhatIfAnswer base = result.answers.front();
  result.answers = {base};
  for (const std::uint32_t servers : {8U, 2U, 4U}) {
    double way = 1;
    for (const auto& [partition, balance_from] : {std::pair{"locality", "storage"}, {"locality", "peers"}, {"partitioned", ""}, {"none", ""}}) {
      WhatIfAnswer& answer = result.answers.emplace_back(base);
      answer.not_measured.clear();
      answer.change.servers = servers;
      answer.change.partition = partition;
      answer.change.balance_from = balance_from;
      answer.change.storage_scope = "server";
      answer.ingestion = 20'000.0 * servers;
      answer.samples_per_s = 7'200.0 * servers - 100 * way;
      answer.ci95_samples_per_s = {answer.samples_per_s - 50, answer.samples_per_s + 50};
      answer.speedup = answer.samples_per_s / base.samples_per_s;
      answer.servers = WhatIfAnswer::Servers{answer.samples_per_s / servers, "storage", 0x1p30 * way / servers,
                                             answer.change.partition == "partitioned" ? 0x1p25 / servers : 0};
      ++way;
    }
  }
  WhatIfAnswer other = result.answers.back();
  other.change.cores = 48;
  other.samples_per_s = 99'999;
  other.ci95_samples_per_s = {99'949, 100'049};
  result.answers.insert(result.answers.begin() + 1, other);
  return result;
}

/// Two policies and two sizes, each with its own misses.
inline SimulateResult sized_simulation() {
  SimulateResult result = full_simulation();
  result.times.clear();
  const CaseCounts one = result.cases.front();
  result.cases.clear();
  std::uint64_t more = 0;
  for (const Bytes capacity : {Bytes{38'500}, Bytes{55'000}})
    for (const ReplayPolicy policy : {ReplayPolicy::lru, ReplayPolicy::belady}) {
      CaseCounts& counts = result.cases.emplace_back(one);
      counts.cache = {policy, capacity, 0};
      for (auto& job : counts.jobs) job.back().counts.hits += more;
      counts.add_up();
      more += 100;
    }
  return result;
}

inline ReportInput record_input(const std::string& label, decltype(ReportInput::record) record) { return {label, std::move(record), {}, ""}; }

}  // namespace dsanalyze::test
