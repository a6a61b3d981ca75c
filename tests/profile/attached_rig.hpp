#pragma once

#include <algorithm>
#include <string>

#include "profile/attached/attached_profile.hpp"

/// Launched trainings as tests make them up.
namespace dsanalyze::testing {

constexpr double samples_a_step = 32;

/// A window of 50 steps of so many seconds.
inline StepWindow window_of(double wait, double compute, double outside = 0, double ranks = 0) {
  StepWindow window;
  for (int i = 0; i < 50; ++i) {
    window.wait.push_back(wait);
    window.compute.push_back(compute);
    window.outside.push_back(outside);
    window.ranks.push_back(ranks);
    window.validation.push_back(0);
    window.samples.push_back(samples_a_step);
  }
  window.optimizer_steps = 50;
  window.end = to_nanoseconds(50 * (wait + compute + outside));
  return window;
}

/// Windows that scatter by a thousandth.
inline PhaseMeasurement phase_of(double wait, double compute, double outside = 0) {
  PhaseMeasurement phase;
  for (int i = 0; i < 8; ++i) phase.by_rank[0].push_back(window_of(wait * (1 + 0.001 * (i % 3)), compute * (1 + 0.001 * (i % 2)), outside));
  phase.before = TreeUse{};
  phase.after = TreeUse{};
  phase.after->at = to_nanoseconds(10);
  phase.after->requested_bytes = 1'000'000'000;
  return phase;
}

inline DrainMeasurement drain_of(int workers, double batch_seconds) {
  DrainMeasurement drain;
  drain.workers = workers;
  DrainedMessage& drained = drain.by_rank[0];
  drained.workers = workers;
  drained.measured = true;
  for (int i = 1; i <= 200; ++i) {
    drained.delivered.push_back(to_nanoseconds(batch_seconds * (i + 0.01 * (i % 2))));
    drained.samples.push_back(samples_a_step);
  }
  drained.main_thread_cpu_seconds = 0.64;
  drain.before = TreeUse{};
  drain.after = TreeUse{};
  drain.after->at = to_nanoseconds(10);
  drain.after->requested_bytes = 1'000'000'000;
  return drain;
}

/// 20 ms a step, of which 10 are waiting for batches that prep makes every 20 ms.
inline LaunchedTraining prep_bound() {
  LaunchedTraining launched;
  launched.use.storage_bytes = 5'000'000;
  AttachedTraining& training = launched.training;
  training.ranks[0].pid = 5;
  training.device.cuda = true;
  training.loader.emplace();
  training.loader->name = "torch.utils.data.DataLoader";
  training.loader->workers = 2;
  training.loader->batch_size = 32;
  training.loader->samples = 3200;
  training.phases[AttachPhase::full] = phase_of(0.010, 0.010);
  training.phases[AttachPhase::synthetic] = phase_of(0, 0.010);
  training.phases[AttachPhase::synthetic].kept_batches = 16;
  training.phases[AttachPhase::cached] = phase_of(0.010, 0.010);
  training.drains = {drain_of(2, 0.020), drain_of(1, 0.040)};
  return launched;
}

inline ProfileResult profile_as_measured(const LaunchedTraining& launched, const HostFacts& host = {}) {
  LaunchSettings settings;
  settings.command = {"python3", "train.py"};
  return attached_profile(launched, settings, host);
}

/// Where it is not said what steps take beside the workers, it is what they take alone.
inline ProfileResult profile_of(LaunchedTraining launched, const HostFacts& host = {}) {
  std::map<AttachPhase, PhaseMeasurement>& phases = launched.training.phases;
  if (launched.training.loader->workers > 0 && phases.contains(AttachPhase::synthetic) && phases.contains(AttachPhase::cached))
    phases.try_emplace(AttachPhase::busy, phases[AttachPhase::synthetic]);
  return profile_as_measured(launched, host);
}

/// The first finding of this code.
inline Finding finding_of(const ProfileResult& result, const std::string& code) {
  const auto found = std::ranges::find(result.findings, code, &Finding::code);
  REQUIRE(found != result.findings.end());
  return *found;
}

inline bool finds(const ProfileResult& result, const std::string& code) { return std::ranges::count(result.findings, code, &Finding::code) > 0; }

}  // namespace dsanalyze::testing
