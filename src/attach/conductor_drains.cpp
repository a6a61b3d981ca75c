#include <algorithm>
#include <utility>

#include "base/statistics.hpp"
#include "conductor.hpp"

/// The drains: the loader alone, with as many workers as the job has, and with others.

namespace dsanalyze {
namespace {

constexpr double most_drain_seconds = 10;
constexpr double sure_half_width = 0.02;               ///< of a rate: then its drain is not repeated
constexpr std::uint64_t most_recorded_batches = 4096;  ///< index lists that the hook keeps

bool has_failed(const DrainMeasurement& drain) {
  return drain.by_rank.empty() || std::ranges::any_of(drain.by_rank, [](const auto& each) { return !each.second.error.empty(); });
}

/// Of the numbers of workers whose rate is not sure, that which was drained least often; the first of them before others. What a machine gives may
/// change for seconds, so that one long drain would say less than several.
std::optional<int> unsure_workers(const AttachedTraining& training, const std::vector<int>& numbers, std::size_t least_windows) {
  std::optional<int> least;
  std::size_t least_often = 0;
  for (const int workers : numbers) {
    const std::vector<const DrainMeasurement*> drains = training.drains_of(workers);
    if (std::ranges::any_of(drains, [](const DrainMeasurement* drain) { return has_failed(*drain); })) continue;
    const Estimate rate = estimate_of_ratio(stretches_of(drains));
    if (rate.windows == 0 || (rate.windows >= least_windows && rate.relative_half_width() <= sure_half_width)) continue;
    if (least && drains.size() >= least_often) continue;
    least = workers;
    least_often = drains.size();
  }
  return least;
}

}  // namespace

/// First the subset is read into memory, by as many workers as the job has; then P at the job's number of workers, and at the others.
Answer Conductor::next_drain(Nanoseconds now) {
  const int own = m_training.loader ? m_training.loader->workers : 0;
  if (m_stage == Stage::warm && !m_is_warm) {
    m_is_warm = true;
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
  if (m_stage == Stage::warm) return start_following(now);
  if (m_drain_workers.empty()) {
    m_drains_begin = now;
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
  const double longest = std::min(stage_seconds(Stage::drains) * 2 / parts, most_drain_seconds);
  const double seconds = longest * share;
  if (m_next_drain == m_drain_workers.size()) {
    const auto more = m_training.further_drains.empty() ? more_workers() : std::nullopt;
    const bool fits = to_seconds(now - *m_begin) + seconds <= m_plan.seconds;
    if (!more || !fits) {
      const auto again = unsure_workers(m_training, m_drain_workers, least_windows);
      if (!again || !another_drain_fits(now)) {
        m_training.drained = true;
        return start_following(now);
      }
      return start_drain(m_training.further_drains, *again, longest);
    }
    m_drain_workers.push_back(*more);
  }
  return start_drain(m_training.drains, m_drain_workers[m_next_drain++], seconds);
}

DrainLoader Conductor::start_drain(std::vector<DrainMeasurement>& drains, int workers, double seconds) const {
  DrainMeasurement& drain = drains.emplace_back();
  drain.workers = workers;
  drain.before = m_use();
  return DrainLoader{workers, unbounded, seconds, true};
}

bool Conductor::another_drain_fits(Nanoseconds now) const {
  const double so_far = to_seconds(now - m_drains_begin) / static_cast<double>(m_training.drains.size() + m_training.further_drains.size());
  return to_seconds(now - *m_begin) + so_far <= m_plan.seconds;
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

DrainMeasurement& Conductor::drain() { return m_training.further_drains.empty() ? m_training.drains.back() : m_training.further_drains.back(); }

void Conductor::take_drains() {
  if (m_stage == Stage::warm) return;
  DrainMeasurement& taken = drain();
  for (auto& [number, member] : m_members)
    if (member.drained && member.hello) taken.by_rank[member.hello->rank] = std::move(*member.drained);
  taken.after = m_use();
  if (m_training.drains.size() == 1 && m_training.further_drains.empty()) say_prep();
}

}  // namespace dsanalyze
