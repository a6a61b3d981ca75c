#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "conductor.hpp"

/// Which ranks are here: those that train, that follow, that keep others waiting, and that are on other servers.

namespace dsanalyze {

/// A rank's helper process, whose environment names no ranks, takes no rank's place.
void Conductor::take_hello(Member& sender, const HelloMessage& hello) {
  sender.hello = hello;
  const auto [known, is_new] = m_training.ranks.try_emplace(hello.rank, hello);
  if (!is_new && hello.world >= known->second.world) known->second = hello;
  m_elsewhere_since.reset();
}

/// One launcher covers one server: ranks on others would not change phase with those here, and these would wait for them in vain.
void Conductor::find_elsewhere(Nanoseconds now) {
  const RankCount ranks = m_training.rank_count();
  if (m_begin || ranks.elsewhere() == 0) return;
  if (!m_elsewhere_since) m_elsewhere_since = now;
  if (to_seconds(now - *m_elsewhere_since) <= m_plan.follower_seconds) return;
  throw Error(
      fmt::format("the training has {}: {} {} elsewhere, on other servers or in processes without the hook. A profile covers the ranks of one "
                  "server: start the training with those alone (torchrun --nnodes 1), or pass --passive for a real training of several servers, of "
                  "which the clocks of the ranks here are read",
                  text_of(ranks), ranks.elsewhere(), ranks.elsewhere() == 1 ? "is" : "are"));
}

/// Phases of two trainings mixed would be those of neither.
void Conductor::refuse_second_training(const Member& member) {
  if (!member.hello) return;
  const auto [first, is_new] = m_trainers.try_emplace(member.hello->rank, member.hello->pid);
  if (is_new || first->second == member.hello->pid) return;
  const auto full = m_training.phases.find(AttachPhase::full);
  m_training.several_trainings |= full != m_training.phases.end() && full->second.whole_run;
  if (!m_begin) return;
  throw Error(
      fmt::format("the command runs more than one training: process {} trains, too, after process {} was measured in part. Profile a command that "
                  "runs one training, which lasts until its phases are over, or pass a shorter --time-budget",
                  member.hello->pid, first->second));
}

Conductor::Answers Conductor::leave(int member, Nanoseconds now) {
  const auto left = m_members.find(member);
  if (left == m_members.end()) return {};
  const bool trained = left->second.trains && !left->second.said_bye;
  const HelloMessage hello = left->second.hello.value_or(HelloMessage{});
  m_members.erase(left);
  if (finished()) return {};
  if (!trained) return meet(now);
  const auto others = std::ranges::count_if(m_members, [](const auto& each) { return each.second.trains; });
  // Another rank may hear first of one that was killed, and fail by it.
  if (others == 0 && !m_rank_failed && m_killed.empty()) return meet(now);
  m_killed.insert(fmt::format("rank {} (PID {})", hello.rank, hello.pid));
  return {};
}

Conductor::Answers Conductor::tick(Nanoseconds now) {
  if (finished()) return {};
  // torch's launchers end all ranks when one was killed: which ended first is known to none.
  if (!m_killed.empty())
    throw Error(fmt::format("{} of the training ended while it was profiled: killed, or the script came to its end there before the other ranks'",
                            fmt::join(m_killed, " and ")));
  look_at_device(now);
  find_elsewhere(now);
  Answers answers = meet(now);
  if (!answers.empty()) return answers;
  const Member* waiting = nullptr;  // for the longest
  const Member* missing = nullptr;
  for (const auto& [number, member] : m_members) {
    if (!member.trains || !member.hello) continue;
    if (!member.waits()) missing = missing == nullptr ? &member : missing;
    if (member.waits() && (waiting == nullptr || member.since < waiting->since)) waiting = &member;
  }
  if (waiting == nullptr || missing == nullptr || to_seconds(now - waiting->since) <= m_plan.hang_seconds) {
    find_hanging(now);
    return {};
  }
  const bool epochs_differ = waiting->at && waiting->at->why == CheckpointMessage::Why::start && !missing->between_epochs && m_begin;
  if (epochs_differ)
    throw StandsStill(fmt::format(
        "rank {} (PID {}) has not ended its epoch, while rank {} has waited for it at the start of the next for {:.0f} s: the ranks' epochs "
        "differ in length (give each as many batches, or use --passive), or it hangs",
        missing->hello->rank, missing->hello->pid, waiting->hello->rank, m_plan.hang_seconds));
  throw StandsStill(
      fmt::format("rank {} (PID {}) has not come to its next checkpoint for {:.0f} s while the other ranks wait there: it hangs, or it takes fewer "
                  "steps",
                  missing->hello->rank, missing->hello->pid, m_plan.hang_seconds));
}

/// A rank between two checkpoints takes a window's steps, or drains. What a script does between epochs, validation for one, may take longer.
void Conductor::find_hanging(Nanoseconds now) const {
  // A drain of a DataLoader has a patience of its own; one of an iterable that the script watches has none.
  const bool watched = m_training.loader && m_training.loader->style == LoaderRecord::Style::watched;
  const double drain_slack = watched ? std::min(150.0, m_plan.hang_seconds) : 150;
  constexpr double between_epochs = 600;
  for (const auto& [number, member] : m_members) {
    if (!member.trains || !m_begin || member.waits() || member.said_bye || !member.hello) continue;
    double allowed = 2 * window_seconds + static_cast<double>(std::max<std::uint64_t>(2 * m_window_steps, 20)) * m_step_seconds;
    if (member.drain_seconds > 0) allowed = member.drain_seconds + drain_slack;
    if (member.between_epochs) allowed = between_epochs;
    allowed += m_plan.hang_seconds;
    if (to_seconds(now - member.since) > allowed)
      throw StandsStill(
          fmt::format("rank {} (PID {}) has not come to its next checkpoint for {:.0f} s: the script or its loader hangs, or its steps take "
                      "longer than --hang-timeout allows",
                      member.hello->rank, member.hello->pid, allowed));
  }
}

bool Conductor::all_here(Nanoseconds now) const {
  int world = 1;
  int here = 0;
  std::optional<Nanoseconds> first;
  for (const auto& [number, member] : m_members) {
    if (member.hello) world = std::max(world, member.hello->world);
    if (!member.trains) continue;
    if (!member.waits()) return false;
    ++here;
    first = std::min(first.value_or(member.since), member.since);
  }
  if (here == 0) return false;
  return here >= world || m_begin || (m_training.rank_count().elsewhere() == 0 && to_seconds(now - *first) > m_plan.follower_seconds);
}

std::map<int, int> Conductor::training_processes() const {
  std::map<int, int> processes;
  for (const auto& [rank, pid] : m_trainers) processes[pid] = rank;
  return processes;
}

}  // namespace dsanalyze
