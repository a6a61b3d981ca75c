#include <algorithm>
#include <utility>

#include "base/statistics.hpp"
#include "conductor.hpp"

/// The drains: the loader alone, with as many workers as the job has, and with others.

namespace dsanalyze {
namespace {

constexpr double most_drain_seconds = 10;
constexpr std::uint64_t most_recorded_batches = 4096;  ///< index lists that the hook keeps

}  // namespace

/// First the subset is read into memory, by as many workers as the job has; then P at the job's number of workers, and at the others.
Answer Conductor::next_drain(Nanoseconds now) {
  const int own = m_training.loader ? m_training.loader->workers : 0;
  if (m_stage == Stage::warm && !m_training.warm) {
    m_training.warm.emplace().workers = own;
    m_training.warm->before = m_use();
    const PhaseMeasurement& full = m_training.phases[AttachPhase::full];
    std::uint64_t batches = most_recorded_batches;
    if (full.before && full.after && m_plan.subset_bytes > 0) {
      double steps = 0;
      for (const auto& [rank, windows] : full.by_rank)
        for (const StepWindow& window : windows) steps += static_cast<double>(window.samples.size());
      const double read = static_cast<double>(full.after->requested_bytes) - static_cast<double>(full.before->requested_bytes);
      if (steps > 0 && read > 0) {
        const double fit =
            static_cast<double>(m_plan.subset_bytes) / (read / steps) / static_cast<double>(std::max<std::size_t>(m_training.ranks.size(), 1));
        batches = static_cast<std::uint64_t>(std::clamp(fit, 1.0, static_cast<double>(most_recorded_batches)));
      }
    }
    return DrainLoader{own, batches, warm_seconds(), false};
  }
  if (m_stage == Stage::warm) {
    m_stage = Stage::drains;
    m_drain_workers = {own};
    // How what is watched prepares is its own affair: it is drained as it is.
    const bool watched = m_training.loader && m_training.loader->style == LoaderRecord::Style::watched;
    for (const int workers : m_plan.worker_counts)
      if (workers != own && !watched) m_drain_workers.push_back(workers);
    m_next_drain = 0;
  }
  // The job's own number counts for more than the others, and one more than planned may follow.
  const double parts = static_cast<double>(m_drain_workers.size()) + 2;
  const double share = m_next_drain == 0 ? 1 : 0.5;
  const double seconds = std::min(stage_seconds(Stage::drains) * 2 / parts, most_drain_seconds) * share;
  if (m_next_drain == m_drain_workers.size()) {
    const auto more = more_workers();
    if (!more || to_seconds(now - *m_begin) + seconds + stage_seconds(Stage::cached) > m_plan.seconds) return start_stage(Stage::cached, now);
    m_drain_workers.push_back(*more);
  }
  DrainMeasurement& drain = m_training.drains.emplace_back();
  drain.workers = m_drain_workers[m_next_drain++];
  drain.before = m_use();
  return DrainLoader{drain.workers, unbounded, seconds, true};
}

/// Twice the most workers that were tried, where these delivered nearly as much more as they were more, and still less than the training takes:
/// workers that wait for something else than the CPU are worth it beyond the number of cores.
std::optional<int> Conductor::more_workers() const {
  constexpr int most_workers = 32;
  constexpr double worth_doubling = 0.6;  // of the ratio of workers
  const auto rate_of = [](const DrainMeasurement& drain) { return estimate_of_ratio(stretches_of(drain)).value; };
  const DrainMeasurement* most = nullptr;
  const DrainMeasurement* before = nullptr;
  for (const DrainMeasurement& drain : m_training.drains) {
    if (drain.workers < 1) continue;
    if (most == nullptr || drain.workers > most->workers) {
      before = std::exchange(most, &drain);
    } else if (before == nullptr || drain.workers > before->workers) {
      before = &drain;
    }
  }
  if (before == nullptr || 2 * most->workers > most_workers) return std::nullopt;
  const auto synthetic = m_training.phases.find(AttachPhase::synthetic);
  if (synthetic == m_training.phases.end() || rate_of(*most) >= estimate_of_ratio(stretches_of(synthetic->second)).value) return std::nullopt;
  const bool scales = rate_of(*most) > worth_doubling * rate_of(*before) * most->workers / before->workers;
  return scales ? std::optional(2 * most->workers) : std::nullopt;
}

void Conductor::take_drains() {
  DrainMeasurement& taken = m_stage == Stage::warm ? *m_training.warm : m_training.drains.back();
  for (auto& [number, member] : m_members)
    if (member.drained && member.hello) taken.by_rank[member.hello->rank] = std::move(*member.drained);
  taken.after = m_use();
  if (m_stage == Stage::drains && m_training.drains.size() == 1) say_prep();
}

}  // namespace dsanalyze
