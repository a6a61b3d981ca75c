#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "conductor.hpp"

/// How many steps the conductor asks for, and when a phase has had enough of them.

namespace dsanalyze {
namespace {

constexpr double most_window_seconds = 2;   ///< where a window is to hold whole cycles of the kept batches
constexpr double wanted_half_width = 0.02;  ///< of a rate: then a phase is over before its time
constexpr std::uint64_t many_steps = 50;    ///< of a window on a device,
constexpr double long_seconds = 5;          ///< or what it takes, if these are fewer steps
constexpr double device_windows = 2;        ///< of a phase, at least
constexpr double full_part = 3.0 / 9;       ///< of these phases' time; the three others have the same
constexpr double other_part = 2.0 / 9;

}  // namespace

/// The phases that take steps have 45 % of the budget, and of a long one less: the first verdict comes after them, and is waited for (45 s of the
/// default budget, with starting the script and its workers). The shortest has time for three times the least number of steps, and on a device
/// for two windows.
double Conductor::stage_seconds(Stage stage) const {
  constexpr double of_any_budget = 8;  // seconds
  constexpr double of_long_budget = 0.1;
  constexpr double times_of_least = 3;
  const double long_steps = times_of_least * least_steps * m_step_seconds / other_part;
  const double on_device = m_training.device.cuda ? device_windows * std::min(long_seconds, many_steps * m_step_seconds) / other_part : 0;
  const double wanted = std::max({of_any_budget + of_long_budget * m_plan.seconds, long_steps, on_device});
  const double steps_seconds = std::min(steps_share * m_plan.seconds, wanted);
  switch (stage) {
    case Stage::full:
      return m_plan.phases == Phases::full ? m_plan.seconds : steps_seconds * full_part;
    case Stage::cached:
    case Stage::busy:
    case Stage::synthetic:
      return steps_seconds * other_part;
    case Stage::warm:
      return 0.15 * m_plan.seconds;
    case Stage::drains:
    case Stage::done:
      break;
  }
  return 0.2 * m_plan.seconds;
}

/// Where the command ended before all phases were gone through, those that are left share its steps.
void Conductor::plan_steps() {
  if (m_training.starts == 0 || phases_with_steps() == 0) return;
  m_most_steps = std::max<std::uint64_t>(m_training.steps / phases_with_steps(), 2 * least_steps);
}

/// Of a phase, at first: ten steps, half a second, or what takes the batches that the loader had ready before; at most half of its time,
/// or a quarter of its steps.
std::uint64_t Conductor::unmeasured_steps() const {
  if (m_step_seconds <= 0) return warm_up_steps;
  const bool from_loader = m_training.loader && (m_stage == Stage::full || m_stage == Stage::cached);
  const std::uint64_t ready =
      from_loader ? static_cast<std::uint64_t>(std::max(m_training.loader->workers, 0) * m_training.loader->prefetch.value_or(0)) : 0;
  const auto fitting = [this](double seconds) { return static_cast<std::uint64_t>(seconds / m_step_seconds); };
  const std::uint64_t wanted = std::max({fitting(window_seconds), warm_up_steps, ready});
  std::uint64_t most = fitting(stage_seconds(m_stage) / 2);
  if (m_most_steps > 0) most = std::min(most, m_most_steps / 4);
  return std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(most, 1));
}

/// Of batches that are handed out again, whole cycles, where these are no longer than the limit, and no more steps than there are copies.
std::uint64_t Conductor::whole_cycles(std::uint64_t steps, std::uint64_t limit) const {
  const auto kept = m_training.phases.find(phase());
  if (m_copies == 0 || kept == m_training.phases.end() || kept->second.kept_batches == 0) return steps;
  const std::uint64_t cycle = kept->second.kept_batches;
  steps = std::min(steps, m_copies);
  limit = std::min(limit, m_copies);
  const std::uint64_t whole = std::min((steps + cycle - 1) / cycle, std::max<std::uint64_t>(limit / cycle, 1)) * cycle;
  return whole <= limit ? whole : steps;
}

/// A window on a device begins with an empty queue, so the device waits for the process once: a fiftieth of the window at most, or what a process
/// takes to ask for one step against 5 s.
std::uint64_t Conductor::steps_on_device() const {
  const double seconds = std::min(long_seconds, stage_seconds(m_stage) / device_windows);
  return std::clamp(static_cast<std::uint64_t>(seconds / std::max(m_step_seconds, 1e-6)), least_steps, many_steps);
}

double Conductor::typical_step_seconds(const StepWindow& window) const {
  return std::max(m_training.device.cuda ? mean_step_seconds(window) : median_step_seconds(window), 1e-6);
}

std::uint64_t Conductor::window_steps() const {
  const double step_seconds = std::max(m_step_seconds, 1e-6);
  const std::uint64_t least = m_training.device.cuda ? steps_on_device() : 1;
  auto steps = std::max(least, static_cast<std::uint64_t>(std::round(window_seconds / step_seconds)));
  auto limit = std::max(2 * least, static_cast<std::uint64_t>(most_window_seconds / step_seconds));
  if (m_most_steps > 0) limit = std::min(limit, std::max(m_most_steps / (2 * least_windows), std::min(least, m_most_steps / 2)));
  steps = whole_cycles(std::min(steps, limit), limit);
  return std::max<std::uint64_t>(steps, 1);
}

bool Conductor::late(Nanoseconds now) const {
  return to_seconds(now - m_stage_begin) > stage_seconds(m_stage) / 2 || (m_most_steps > 0 && m_stage_steps > m_most_steps / 2);
}

bool Conductor::enough(Nanoseconds now) {
  const PhaseMeasurement& taken = measurement();
  std::uint64_t steps = 0;
  for (const auto& [rank, windows] : taken.by_rank)
    for (const StepWindow& window : windows) steps += window.samples.size();
  if (steps > 0 && steps < least_steps * taken.by_rank.size()) return false;
  const Estimate rate = estimate_of_ratio(stretches_of(taken));
  const bool precise = rate.windows >= least_windows && rate.relative_half_width() <= wanted_half_width;
  // Of two or three windows there is hardly an interval: Student's factor is 12.7 or 4.3.
  constexpr std::size_t few_windows = 4;
  constexpr double longer = 1.5;
  const bool goes_on = rate.windows < few_windows && to_seconds(now - *m_begin) < steps_share * m_plan.seconds;
  const double most_shares = goes_on ? longer : 1;
  return precise || to_seconds(now - m_stage_begin) > most_shares * stage_seconds(m_stage) || (m_most_steps > 0 && m_stage_steps >= m_most_steps);
}

/// NVML tells what a GPU has done in the last second or less (nvmlUtilization_t), so that looks within the first one of a phase would be of the phase
/// before.
void Conductor::look_at_device(Nanoseconds now) {
  constexpr double told_seconds = 1;
  const bool is_told = !m_warming_up && to_seconds(now - m_stage_begin) > told_seconds && to_seconds(now - m_device_look) > told_seconds / 2;
  if (!m_plan.device_use || !is_told || is_draining() || finished() || m_training.device.gpus.empty()) return;
  m_device_look = now;
  if (const auto use = m_plan.device_use(m_training.device.gpus)) measurement().device_use.push_back(*use);
}

/// Of the pass that brings the subset into memory. What the phase full found there needs no long one; the drains prove that it was.
double Conductor::warm_seconds() const {
  constexpr double most_seconds = 10;
  constexpr double in_memory_seconds = 4;
  const auto full = m_training.phases.find(AttachPhase::full);
  const bool known = full != m_training.phases.end() && full->second.before && full->second.after && full->second.after->storage_bytes;
  const bool in_memory = known && full->second.after->requested_bytes > full->second.before->requested_bytes &&
                         full->second.after->storage_bytes == full->second.before->storage_bytes;
  return std::min(stage_seconds(Stage::warm), in_memory ? in_memory_seconds : most_seconds);
}

/// Whether a phase that takes steps has time for the least number of them, beside those of the phase synthetic, which says more than others.
bool Conductor::fits(Stage stage, Nanoseconds now) const {
  if (stage != Stage::synthetic && stage != Stage::cached && stage != Stage::busy) return true;
  const double least = static_cast<double>(least_steps) * m_step_seconds;
  const double still = stage == Stage::synthetic ? least : 3 * least;
  return least <= stage_seconds(stage) || to_seconds(now - *m_begin) + still <= m_plan.seconds;
}

}  // namespace dsanalyze
