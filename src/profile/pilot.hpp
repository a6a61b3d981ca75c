#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runs.hpp"

namespace dsanalyze {

/// Rough rates, samples/s, for choosing how much data the runs can take; never reported.
struct PilotRates {
  double storage = 0;
  double prep = 0;
  double training = 0;  ///< of all accelerators; infinite without
};
/// Known figures of emulated devices; a second or two of real reading and decoding otherwise.
PilotRates run_pilot(RunContext& context, double seconds);
/// The same run on a few samples: spread evenly over the dataset, or neighbours where the order reads neighbours one after another. Its findings are
/// not reported.
RunContext pilot_context(const RunContext& context);

/// What a profile does, in its order.
enum class TimedRun : std::uint8_t { pilot, servers, fetch, curve, synthetic, transfer, filling, prep, fewer_cores, cache, cached, full };

/// How long each run may take. Runs that come after one that took longer than it might have less each, and none of them less than a rate needs.
class TimeShares {
 public:
  using Weights = std::array<double, static_cast<std::size_t>(TimedRun::full) + 1>;
  /// `weights` divide `planned` seconds among the runs; a run of weight 0 is none. The budget is over after `budget` seconds.
  TimeShares(const Weights& weights, double planned, double budget);

  /// As planned, whatever the runs before it took.
  [[nodiscard]] double planned(TimedRun run) const { return m_seconds[static_cast<std::size_t>(run)]; }
  /// What `run` and those after it have of their planned time, `elapsed` seconds after the begin of the profile: 0 to 1.
  [[nodiscard]] double left(TimedRun run, double elapsed) const;
  /// What `run` may take then: its part of what is left, and no less than a rate needs or was planned. 0 of a run that is none.
  [[nodiscard]] double seconds(TimedRun run, double elapsed) const;

 private:
  Weights m_seconds;
  double m_end = 0;
};
TimeShares share_time(const ProfileInputs& inputs, const ProfilePlan& plan);

/// Samples of the subset: what the cold epochs of the full run and the filling of the cache can get through in their seconds, within the plan's
/// bound.
std::uint64_t choose_subset(const ProfileInputs& inputs, const ProfilePlan& plan, const PilotRates& rates, double full_seconds,
                            double filling_seconds);

/// So many samples of the dataset: at random, or neighbours where the order reads neighbours one after another.
std::shared_ptr<const DatasetIndex> draw_subset(const ProfileInputs& inputs, std::uint64_t samples);

}  // namespace dsanalyze
