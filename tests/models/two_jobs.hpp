#pragma once

#include "models/whatif/job_mix.hpp"

namespace dsanalyze {

/// What two jobs share that draw dependently at fixed speeds, in the limit of many samples, without a store.
struct TwoJobsShared {
  double shared = 0;                ///< samples that both got from one preparing
  double prepared_per_fastest = 0;  ///< preparings while the faster one runs, over its samples
};
/// The closed form. Let a and b be what the faster and the slower job still need, c what both need, and r the ratio of their speeds. In a draw of
/// both they get the same sample with probability c / max(a, b) [JOADER, Theorem 1]; while a <= b, c is in proportion to a, else to b a^(1 - r).
/// Where a job starts an epoch, c is what the other still needs of its samples, as every order is uniform. Between these points the integrals are
/// elementary. It supposes that prep keeps up with both, and that the slower one's draws are all made together with the faster one's. Pure.
TwoJobsShared two_jobs_shared(const MixedJob& one, const MixedJob& other);

}  // namespace dsanalyze
