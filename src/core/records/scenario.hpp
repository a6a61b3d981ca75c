#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"
#include "core/cache_policy/cache_replay.hpp"
#include "core/order.hpp"
#include "core/workload.hpp"

namespace dsanalyze {

/// What `dsanalyze simulate SCENARIO.json` is asked: jobs that read a dataset through a cache, and the caches to try.
struct Scenario {
  std::string name;
  std::string description;
  std::string source;  ///< of its figures: paper and section, and what was assumed

  std::string preset;         ///< a dataset of configs/datasets by name; empty: `dataset` says it all
  DatasetSpec dataset;        ///< without a preset
  std::uint64_t samples = 0;  ///< with a preset: so many instead of all; 0: all

  OrderSpec order;
  std::uint32_t shard_samples = 1024;  ///< with `shards`
  std::uint32_t jobs = 1;
  enum class JobOrders { own, same };
  JobOrders job_orders = JobOrders::own;  ///< orders of their own, or the same for all
  double stagger = 0;                     ///< share of an epoch between the begins of two jobs
  std::uint32_t turn_samples = 1;         ///< what a job reads before the next one's turn
  std::uint32_t epochs = 3;
  Bytes unit_bytes = 1;               ///< items are kept in whole units: 4096 for pages
  std::optional<std::uint64_t> seed;  ///< not given: the program that runs it says

  std::string storage;  ///< a device of configs/storage by name, for cost-aware admission and `pipeline`; may be empty
  std::vector<ReplayPolicy> policies;
  std::vector<ByteAmount> cache_sizes;

  /// What the samples go through after the cache, on one server, for the time that an epoch takes.
  struct Pipeline {
    int cores = 1;
    double prep_rate_per_core = 0;  ///< samples/s
    int accelerators = 1;
    double accelerator_rate = 0;  ///< samples/s of one; they step together
    int batch_size = 256;         ///< of one
  };
  std::optional<Pipeline> pipeline;  ///< with one job and `storage`
};

constexpr std::array<const char*, 2> names_of(Scenario::JobOrders /*type*/) { return {"own", "same"}; }

/// Throws UsageError that names file, JSON pointer, what was found and what was expected. Unknown keys are errors. That presets are there is the
/// caller's to look up.
Scenario parse_scenario(std::string_view text, const std::string& source);

}  // namespace dsanalyze
