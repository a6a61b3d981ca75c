#pragma once

#include <cstdint>

#include "core/cache_policy/cache_replay.hpp"
#include "core/order.hpp"

namespace dsanalyze::fidelity {

// Replays of items of one size through the cache simulator, few enough to be quick: misses are shares, and do not depend on how many items there are.
// All are deterministic.

/// The share of its reads that one job misses in the long run.
double one_job_misses(ReplayPolicy policy, double cached, OrderKind order);
/// The same of a dataset of so many bytes: the lists of page-model:linux have another balance in a large cache.
double one_job_misses_of(ReplayPolicy policy, double cached, Bytes dataset);
/// The same of `jobs`, job j a share j x stagger of an epoch late; each in orders of its own, or in file order.
double jobs_miss(ReplayPolicy policy, double cached, std::uint32_t jobs, double stagger, OrderKind order);
/// The same of jobs whose n-th epoch has the same random order for all of them, as DALI's readers have it: they shuffle by a fixed seed and the
/// epoch.
double jobs_of_one_order_miss(ReplayPolicy policy, double cached, std::uint32_t jobs, double stagger);
/// The share missed by a server that reads another random 1/servers of the dataset in each epoch.
double server_misses(ReplayPolicy policy, double cached, std::uint32_t servers);

}  // namespace dsanalyze::fidelity
