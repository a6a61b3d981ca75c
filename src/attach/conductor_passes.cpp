#include <algorithm>
#include <utility>

#include "conductor.hpp"

/// Passes over the loader that are too short for warming up and measuring within one.

namespace dsanalyze {

/// Whether the script's steps can be told from storage by its data in memory.
bool Conductor::can_be_cached() const {
  return !m_training.stream_goes_on() && (!short_passes() || m_training.loader->style == LoaderRecord::Style::map);
}

/// How many steps the next pass over the loader will have, as far as is known: those of an epoch, or fewer where the script left the last pass early.
std::optional<std::uint64_t> Conductor::pass_steps() const {
  std::optional<std::uint64_t> steps = m_training.loader ? m_training.loader->batches : std::nullopt;
  for (const auto& [number, member] : m_members)
    if (member.trains && member.last_pass) steps = std::min(steps.value_or(*member.last_pass), *member.last_pass);
  return steps;
}

/// A pass too short for warming up and measuring is measured as a whole, or several of them together; not where it takes long.
bool Conductor::short_passes() const {
  const auto steps = pass_steps();
  if (!steps) return false;
  const bool quick = static_cast<double>(*steps) * m_step_seconds <= stage_seconds(m_stage) / 4;
  return *steps < short_pass_steps && (quick || *steps <= 2 * least_steps);
}

bool Conductor::settled_passes() const {
  return std::ranges::all_of(m_members, [](const auto& each) { return !each.second.trains || each.second.passes_agree; });
}

/// Several short passes are a window, and the next phase begins with a pass.
Answer Conductor::next_pass(Nanoseconds now) {
  const RunSteps whole{short_pass_steps + 1};  // A pass that is longer after all is not lost track of.
  if (m_warming_up) {
    const bool steady = settled_passes();
    if (now < m_stage_begin || (!steady && !late(now))) return whole;
    start_measuring(steady);
    for (auto& [number, member] : m_members) member.passes.reset();
    return whole;
  }
  constexpr double too_long = 3;
  const bool stage_is_over = to_seconds(now - m_stage_begin) > stage_seconds(m_stage);
  if (stage_is_over)
    for (auto& [number, member] : m_members) take_passes(member);
  if (measurement().by_rank.empty() && to_seconds(now - m_stage_begin) < too_long * stage_seconds(m_stage)) return whole;
  return enough(now) ? next_stage(now) : Answer(whole);
}

/// Of a training whose batches are its own loader's, the waiting between two passes is a part of the second one.
void Conductor::begin_pass(Member& member) {
  member.whole_pass = m_begin && member.at->why == CheckpointMessage::Why::start;
  member.gap.reset();
  if (!member.whole_pass || (m_stage != Stage::full && m_stage != Stage::cached)) return;
  member.gap = member.at->between;
  // The steps that showed that a loader made anew trains: the waiting for its first batch is in them.
  if (member.at->window && short_passes()) add_to_passes(member, *member.at->window);
}

void Conductor::end_pass(Member& member) {
  constexpr double most_of_stage = 0.08;  // for one window
  std::optional<StepWindow> window = std::exchange(member.at->window, std::nullopt);
  const std::optional<EpochGap> gap = std::exchange(member.gap, std::nullopt);
  member.at.reset();
  member.last_pass = std::exchange(member.pass_steps, 0);
  measurement().pass_steps = *member.last_pass + (gap && gap->first_step_seconds ? 1 : 0);
  if (!window || window->samples.empty() || is_draining()) return;
  if (short_passes()) {
    m_step_seconds = typical_step_seconds(*window);
    if (!member.whole_pass) return;
    if (gap) begin_with(*window, *gap);
    add_to_passes(member, *window);
    const std::size_t steps = member.passes->samples.size();
    const bool took_long = steps >= least_steps && to_seconds(m_now - member.passes_since) > most_of_stage * stage_seconds(m_stage);
    if (steps >= warm_up_steps || step_seconds(*member.passes) > window_seconds || took_long) take_passes(member);
  } else if (!m_warming_up && window->samples.size() * 2 >= window_steps() && member.hello) {
    keep(member.hello->rank, *window);
    measurement().after = m_use();
  }
}

void Conductor::add_to_passes(Member& member, const StepWindow& steps) {
  if (member.passes) return append(*member.passes, steps);
  member.passes = steps;
  member.passes_since = steps.begin;
}

/// What there is of short passes is a window now.
void Conductor::take_passes(Member& member) {
  const std::optional<StepWindow> passes = std::exchange(member.passes, std::nullopt);
  if (!passes || !member.hello) return;
  member.passes_agree = agrees_with_last(member, *passes);
  if (m_warming_up) return;
  measurement().passes = true;
  keep(member.hello->rank, *passes);
  measurement().after = m_use();
}

}  // namespace dsanalyze
