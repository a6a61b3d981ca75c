#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.hpp"
#include "base/text/text.hpp"
#include "conductor.hpp"

/// The training on fewer cores, once all phases are over: its loader alone, and the training as found.

namespace dsanalyze {

namespace {

constexpr double least_seconds = 2;

}  // namespace

/// Of those that the training may use, so that they are fewer for it, too. Empty where it may not use twice as many.
std::vector<int> Conductor::fewer_cpus() const {
  const auto wanted = static_cast<std::size_t>(std::max(m_plan.fewer_cores, 0));
  if (m_training.cpus.empty()) return {};
  const std::vector<int>& all = m_training.cpus.begin()->second;
  if (all.size() < 2 * wanted) return {};
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted)};
}

/// Of several ranks each may have cores of its own, and a training without workers says nothing on fewer cores that it does not say on all.
bool Conductor::plans_fewer_cores() const {
  return m_plan.phases == Phases::all && m_plan.restrict_to && !fewer_cpus().empty() && m_training.ranks.size() <= 1 && m_training.loader &&
         m_training.loader->workers >= 1 && stage_seconds(Stage::fewer_cores) >= least_seconds;
}

bool Conductor::has_time_on_fewer_cores(Nanoseconds now) const { return to_seconds(now - *m_begin) + least_seconds <= m_plan.seconds; }

/// Fewer cores are tried of a training whose own steps leave them alone: what takes many threads would have fewer, had it been started there.
bool Conductor::worth_fewer_cores(Nanoseconds now) const {
  constexpr double most_used = 0.5;  // of a core, by the steps
  if (!plans_fewer_cores() || !has_time_on_fewer_cores(now)) return false;
  const auto steps = m_training.phases.find(AttachPhase::synthetic);
  if (steps == m_training.phases.end() || !steps->second.before || !steps->second.after) return false;
  const TreeUse& before = *steps->second.before;
  const TreeUse& after = *steps->second.after;
  return after.cpu_seconds - before.cpu_seconds <= most_used * to_seconds(after.at - before.at);
}

bool Conductor::take_cores(Nanoseconds now) {
  if (!worth_fewer_cores(now) || !m_plan.restrict_to(fewer_cpus())) return false;
  m_fewer_workers = fewer_drain_workers();
  m_fewer_since = now;
  return true;
}

void Conductor::start_fewer_cores(Nanoseconds now) {
  m_training.on_fewer_cores.emplace();
  m_fewer_since = now;
  constexpr double most_shares = 2;
  m_fewer_seconds = std::min(m_plan.seconds - to_seconds(now - *m_begin), most_shares * stage_seconds(Stage::fewer_cores));
}

/// A stream that reads on to its place, or a validation in the midst of an epoch: the profile is complete, and need not wait for that.
bool Conductor::fewer_cores_take_too_long(Nanoseconds now) const {
  constexpr double most_shares = 3;
  const bool tries_fewer = m_stage == Stage::fewer_drains || m_stage == Stage::fewer_cores;
  const double share = stage_seconds(Stage::fewer_cores);
  return tries_fewer && (to_seconds(now - m_fewer_since) > most_shares * share || to_seconds(now - *m_begin) > m_plan.seconds + share);
}

/// Whether the script is known to do little between epochs. A validation there may take long, and would take longer on fewer cores.
bool Conductor::pauses_briefly() const {
  constexpr double most_of_stage = 0.25;
  const auto full = m_training.phases.find(AttachPhase::full);
  if (full == m_training.phases.end() || full->second.gaps.empty() || full->second.gaps.begin()->second.empty()) return false;
  const std::vector<EpochGap>& gaps = full->second.gaps.begin()->second;
  const EpochGap& longest = *std::ranges::max_element(gaps, {}, [](const EpochGap& gap) { return gap.end - gap.begin; });
  return to_seconds(longest.end - longest.begin) <= most_of_stage * stage_seconds(Stage::fewer_cores);
}

/// Workers that chose their CPUs themselves had more than the training was to have: then what was measured is of something else.
Answer Conductor::end_fewer_cores(Nanoseconds now) {
  if (m_plan.restrict_to(fewer_cpus()) != std::optional<std::size_t>(0)) {
    m_training.on_fewer_cores.reset();
    m_training.drains_on_fewer_cores.clear();
  } else if (m_training.on_fewer_cores && m_training.on_fewer_cores->by_rank.empty()) {
    m_training.on_fewer_cores.reset();
  } else if (m_training.on_fewer_cores) {
    const Estimate rate = estimate_of_ratio(stretches_of(*m_training.on_fewer_cores));
    m_events.note(fmt::format("as found, on {} core{}: {:.1f} samples/s", m_plan.fewer_cores, m_plan.fewer_cores == 1 ? "" : "s", rate.value));
  }
  return start_stage(Stage::done, now);
}

bool Conductor::give_up_fewer_cores(const std::string& why) {
  if (m_stage != Stage::fewer_drains && m_stage != Stage::fewer_cores) return false;
  m_training.on_fewer_cores.reset();
  const std::string text =
      fmt::format("the training was not measured on {} core{}: {}", m_plan.fewer_cores, m_plan.fewer_cores == 1 ? "" : "s", printable(why));
  m_training.notes.push_back({"fewer-cores-not-measured", text});
  m_events.note(text);
  m_stage = Stage::done;
  return true;
}

}  // namespace dsanalyze
