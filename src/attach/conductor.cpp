#include "conductor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t kept_batches = 16;

}  // namespace

Conductor::Conductor(Plan plan, std::function<TreeUse()> use, EventSink& events, AttachedTraining so_far)
    : m_plan(std::move(plan)), m_use(std::move(use)), m_events(events), m_training(std::move(so_far)) {
  plan_steps();
  m_training.steps = 0;
  m_training.seen.reset();
}

AttachPhase Conductor::phase() const {
  if (m_stage == Stage::cached) return AttachPhase::cached;
  if (m_stage == Stage::busy) return AttachPhase::busy;
  return m_stage == Stage::synthetic ? AttachPhase::synthetic : AttachPhase::full;
}

PhaseMeasurement& Conductor::measurement() { return m_training.phases[phase()]; }

Conductor::Answers Conductor::receive(int member, const HookMessage& message, Nanoseconds now) {
  Member& sender = m_members[member];
  if (const auto* hello = std::get_if<HelloMessage>(&message)) {
    take_hello(sender, *hello);
    return {};
  }
  if (const auto* passive = std::get_if<PassiveMessage>(&message)) {
    PhaseMeasurement& taken = m_training.phases[AttachPhase::full];
    const int rank = sender.hello ? sender.hello->rank : 0;
    if (passive->window && !passive->window->samples.empty()) taken.by_rank[rank].push_back(*passive->window);
    taken.whole_run = true;
    if (!passive->between) return {};
    EpochGap& gap = taken.gaps[rank].emplace_back(*passive->between);
    if (passive->window && !passive->window->wait.empty()) gap.first_batch_seconds = passive->window->wait.front();
    return {};
  }
  if (const auto* device = std::get_if<DeviceMessage>(&message)) {
    std::string gpus = m_training.device.gpus;
    if (gpus.find(device->gpus) == std::string::npos) gpus += (gpus.empty() ? "" : ",") + device->gpus;
    m_training.device = *device;
    m_training.device.gpus = std::move(gpus);
    m_training.cpus[sender.hello ? sender.hello->rank : 0] = device->cpus;
    return {};
  }
  if (const auto* bye = std::get_if<ByeMessage>(&message)) {
    count_steps(sender, bye->window, 0);
    sender.said_bye = true;
    m_rank_failed = m_rank_failed || (sender.trains && !bye->error.empty());
    if (m_training.error.empty()) m_training.error = bye->error;
    return {};
  }
  if (const auto* note = std::get_if<NoteMessage>(&message)) {
    if (std::ranges::find(m_training.notes, note->code, &NoteMessage::code) == m_training.notes.end()) m_training.notes.push_back(*note);
    return {};
  }
  if (const auto* off = std::get_if<OffMessage>(&message)) {
    if (sender.trains && !finished())
      throw Error(fmt::format("rank {} (PID {}) could not be followed further: {}", sender.hello ? sender.hello->rank : 0,
                              sender.hello ? sender.hello->pid : 0, off->why));
    return {};
  }
  if (const auto* seen = std::get_if<SeenMessage>(&message)) {
    const auto done = [](const SeenMessage& each) { return each.batches + each.backward + each.optimizer_steps; };
    if (!m_training.seen || done(*seen) >= done(*m_training.seen)) m_training.seen = *seen;
    return {};
  }
  if (const auto* loader = std::get_if<LoaderMessage>(&message)) {
    sender.trains = true;
    refuse_second_training(sender);
    if (!m_training.loader || (sender.hello && sender.hello->rank == 0)) m_training.loader = loader->loader;
    return {};
  }
  if (const auto* at = std::get_if<CheckpointMessage>(&message)) {
    if (!sender.trains) throw Error("a training process came to a checkpoint without having named its loader");
    m_now = now;
    sender.at = *at;
    sender.since = now;
    if (!sender.hello || sender.hello->rank == 0) {
      m_training.tokens_per_sample = at->tokens;
      m_training.picture = at->picture;
    }
    count_steps(sender, at->window, at->step);
    if (at->why == CheckpointMessage::Why::start) sender.pass_steps = 0;
    if (at->window) sender.pass_steps += at->window->samples.size();
    measurement();  // A training step was seen, so the training is one, however early it ends.
    sender.between_epochs = at->why == CheckpointMessage::Why::epoch_end;
    take_gap(sender, at->between, sender.at->window);
    if (m_stage == Stage::full) {
      take_spent(sender);
      if (at->window && at->why != CheckpointMessage::Why::switched)
        measurement().seen.push_back(
            {m_training.starts, at->window->begin, at->window->end, std::accumulate(at->window->samples.begin(), at->window->samples.end(), 0.0)});
    }
    add_steps(sender);
    // The end of an epoch needs no agreement: what the next one is to be is decided at its start.
    if (at->why == CheckpointMessage::Why::epoch_end) {
      sender.at.reset();
      m_pass_steps = std::exchange(sender.pass_steps, 0);
      Answers answers = let_finish_epoch();
      answers.push_back({member, PlainAnswer::go});
      return answers;
    }
    return meet(now);
  }
  if (const auto* drained = std::get_if<DrainedMessage>(&message)) {
    sender.drained = *drained;
    sender.since = now;
    return meet(now);
  }
  return {};
}

/// The first checkpoint comes after the step that showed which loader trains.
void Conductor::count_steps(Member& member, const std::optional<StepWindow>& window, std::uint64_t before_the_first) {
  if (member.steps == 0) member.steps = before_the_first;
  if (window) member.steps += window->samples.size();
  m_training.steps = std::max(m_training.steps, member.steps);
}

/// A gap comes before the window that starts with the next epoch's first step, or together with it. That step's wait is kept apart: how many such
/// waits a window has is chance.
void Conductor::take_gap(Member& member, const std::optional<EpochGap>& between, std::optional<StepWindow>& window) {
  const int rank = member.hello ? member.hello->rank : 0;
  if (between && m_stage == Stage::full) m_training.phases[AttachPhase::full].gaps[rank].push_back(*between);
  // Pauses of the script, validation for one, do not cost a phase its steps, while there is time.
  if (between && rank == 0 && m_begin && to_seconds(m_now - *m_begin) < steps_share * m_plan.seconds) m_stage_begin += between->end - between->begin;
  member.epoch_starts |= between.has_value();
  if (!member.epoch_starts || !window || window->wait.empty()) return;
  member.epoch_starts = false;
  const double waited = std::exchange(window->wait.front(), 0);
  window->begin = std::min(window->begin + to_nanoseconds(waited), window->end);
  PhaseMeasurement& taken = measurement();
  taken.first_waits[rank].push_back(waited);
  if (m_pass_steps > 0) taken.pass_steps = m_pass_steps;
  const auto gaps = taken.gaps.find(rank);
  if (gaps != taken.gaps.end() && !gaps->second.empty()) gaps->second.back().first_batch_seconds = waited;
}

/// Where one rank's epoch has ended, the others may not wait for it at a checkpoint: it may wait for them in a collective call.
Conductor::Answers Conductor::let_finish_epoch() {
  Answers answers;
  for (auto& [number, member] : m_members) {
    if (!member.trains || !member.at || member.at->why != CheckpointMessage::Why::window) continue;
    member.at.reset();
    answers.push_back({number, RunSteps{unbounded}});
  }
  return answers;
}

Conductor::Answers Conductor::answer_all(const Answer& answer) {
  Answers answers;
  for (auto& [number, member] : m_members) {
    if (!member.trains || !member.waits()) continue;
    member.at.reset();
    member.drained.reset();
    const auto* const drain = std::get_if<DrainLoader>(&answer);
    member.drain_seconds = drain != nullptr ? drain->seconds : 0;
    member.since = m_now;
    answers.push_back({number, answer});
  }
  return answers;
}

Conductor::Answers Conductor::meet(Nanoseconds now) {
  m_now = now;
  if (finished()) return {};
  if (std::ranges::any_of(m_members, [](const auto& each) { return each.second.trains && each.second.between_epochs; })) return let_finish_epoch();
  if (!all_here(now)) return {};
  // One rank's epoch may be longer than another's: it goes on to its end, and the others wait at the start of the next.
  const auto at_start = [](const Member& member) { return member.at && member.at->why == CheckpointMessage::Why::start; };
  const auto trains = [](const auto& each) { return each.second.trains; };
  const auto starting = std::ranges::count_if(m_members, [&](const auto& each) { return each.second.trains && at_start(each.second); });
  if (starting > 0 && starting < std::ranges::count_if(m_members, trains)) {
    Answers answers;
    for (auto& [number, member] : m_members) {
      if (!member.trains || at_start(member)) continue;
      member.at.reset();
      answers.push_back({number, RunSteps{unbounded}});
    }
    return answers;
  }
  return decide(now);
}

Conductor::Answers Conductor::decide(Nanoseconds now) {
  const Member& first = std::ranges::find_if(m_members, [](const auto& each) { return each.second.trains; })->second;
  if (!m_begin) {
    m_begin = now - to_nanoseconds(m_training.earlier_seconds);
    m_stage_begin = now + to_nanoseconds(m_plan.settling_seconds);
    m_stage_use = m_use();
    m_events.progress({.activity = "profiling the training"});
    return answer_all(RunSteps{1});  // How long a step takes is not known yet.
  }
  if (is_draining()) {
    take_drains();
    return answer_all(next_drain(now));
  }
  const auto why = first.at->why;
  if (why == CheckpointMessage::Why::switched) {
    m_stage_begin = now;  // What was discarded, and workers that started, cost the phase no time.
    take_kept();
    return answer_all(next_window());
  }
  return answer_all(next_steps(now));
}

/// Of all ranks, that which has the fewest: they take as many steps.
void Conductor::take_kept() {
  m_copies = 0;
  if (m_stage != Stage::busy && m_stage != Stage::synthetic) return;
  std::uint64_t kept = 0;
  for (const auto& [number, member] : m_members) {
    if (!member.at) continue;
    m_copies = m_copies == 0 ? member.at->copies : std::min(m_copies, member.at->copies);
    kept = kept == 0 ? member.at->kept : std::min(kept, member.at->kept);
    if (m_training.loader && member.at->copy) m_training.loader->device_copy = member.at->copy;
  }
  measurement().kept_batches = kept;
}

/// A window goes on over ends of epochs: what lies between them is none of it.
void Conductor::add_steps(Member& member) {
  std::optional<StepWindow> steps = std::exchange(member.at->window, std::nullopt);
  if (!steps || steps->samples.empty()) return;
  if (member.window && member.window->is_counted() == steps->is_counted())
    append(*member.window, *steps);
  else
    member.window = std::move(steps);
}

Answer Conductor::next_steps(Nanoseconds now) {
  std::uint64_t steps = unbounded;
  const StepWindow* window = nullptr;
  for (const auto& [number, member] : m_members) {
    if (!member.trains) continue;
    steps = std::min<std::uint64_t>(steps, member.window ? member.window->samples.size() : 0);
    if (member.window && window == nullptr) window = &*member.window;
  }
  const bool has_windows = !measurement().by_rank.empty();
  if (steps < m_window_steps && has_windows && enough(now)) return next_stage(now);
  const auto is_cut = [](const auto& member) { return member.second.window && member.second.window->cut; };
  if (m_counts && (steps < m_window_steps || std::ranges::any_of(m_members, is_cut))) {
    m_can_count = false;
    return next_window();
  }
  const bool is_over = to_seconds(now - m_stage_begin) > stage_seconds(m_stage);
  if (steps < m_window_steps && (has_windows || !is_over || steps < least_steps)) return RunSteps{m_window_steps - steps};
  if (window == nullptr) return RunSteps{m_window_steps};
  if (!window->is_counted()) m_step_seconds = typical_step_seconds(*window);
  m_stage_steps += window->samples.size();
  if (m_stage == Stage::full && !is_wanted(Stage::full)) return start_following(now);  // An earlier start has done that.
  if (m_warming_up) return warm_up(now);
  take_windows();
  return enough(now) ? next_stage(now) : next_window();
}

Answer Conductor::next_window() {
  m_window_steps = m_warming_up ? unmeasured_steps() : window_steps();
  m_counts = counts_next();
  for (auto& [number, member] : m_members) member.window.reset();
  return RunSteps{m_window_steps, m_counts};
}

/// Every second window of the phase full shows what the script does while its steps are not clocked, where it lies within an epoch, and there is time
/// for enough of them to tell.
bool Conductor::counts_next() const {
  if (m_stage != Stage::full || m_warming_up || m_counts || !m_can_count || m_plan.phases != Phases::all) return false;
  const auto full = m_training.phases.find(AttachPhase::full);
  if (full == m_training.phases.end() || full->second.by_rank.empty() || full->second.by_rank.begin()->second.size() % 2 == 0) return false;
  constexpr std::uint64_t enough_steps = 10;  // The first one of a window is clocked in any case.
  constexpr double enough_windows = 6;
  if (m_window_steps < enough_steps || enough_windows * static_cast<double>(m_window_steps) * m_step_seconds > stage_seconds(m_stage)) return false;
  const std::uint64_t told = m_training.loader ? m_training.loader->batches.value_or(0) : 0;
  const std::uint64_t length = m_pass_steps > 0 ? m_pass_steps : told;
  return std::ranges::all_of(m_members, [&](const auto& each) {
    const Member& member = each.second;
    return !member.at || (!member.epoch_starts && (length == 0 || member.at->step + m_window_steps <= length));
  });
}

Answer Conductor::warm_up(Nanoseconds now) {
  if (now < m_stage_begin || (m_stage_steps < unmeasured_steps() && !late(now))) return next_window();
  m_warming_up = false;
  PhaseMeasurement& taken = measurement();
  const TreeUse use = m_use();
  taken.before = taken.before && taken.after ? moved(*taken.before, *taken.after, use) : use;  // What was used between two parts is not the phase's.
  const double left = stage_seconds(m_stage) - to_seconds(now - m_stage_begin);
  if (left > static_cast<double>(least_steps) * m_step_seconds) return next_window();
  // No time is left for others: these steps are what is known of the phase.
  if (taken.by_rank.empty()) taken.before = m_stage_use;
  take_windows();
  return enough(now) ? next_stage(now) : next_window();
}

void Conductor::take_windows() {
  PhaseMeasurement& taken = measurement();
  // Ranks' windows are compared in their order.
  const auto is_counted = [](const auto& each) { return each.second.window && each.second.window->is_counted(); };
  const bool any_counted = std::ranges::any_of(m_members, is_counted);
  const bool all_counted = std::ranges::all_of(m_members, [&](const auto& each) { return !each.second.window || is_counted(each); });
  m_can_count = m_can_count && all_counted == m_counts;
  for (auto& [number, member] : m_members) {
    if (member.window && member.hello && any_counted == all_counted) taken.by_rank[member.hello->rank].push_back(std::move(*member.window));
    member.window.reset();
  }
  taken.after = m_use();
}

Answer Conductor::next_stage(Nanoseconds now) {
  say_phase();
  if (m_stage == Stage::synthetic) say_time();
  measurement().complete = true;
  m_is_first = false;
  return start_following(now);
}

const AttachedTraining& Conductor::end(Nanoseconds now) {
  if (m_begin) m_training.earlier_seconds = to_seconds(now - *m_begin);
  const auto measured = m_training.phases.find(phase());
  if (m_is_first && !is_draining() && measured != m_training.phases.end()) measured->second.complete |= !measured->second.by_rank.empty();
  return m_training;
}

/// Whether the plan has it, and no start has completed it.
bool Conductor::is_wanted(Stage stage) const {
  const auto is_complete = [this](AttachPhase phase) {
    const auto found = m_training.phases.find(phase);
    return found != m_training.phases.end() && found->second.complete;
  };
  const bool all = m_plan.phases == Phases::all;
  switch (stage) {
    case Stage::full:
      return !is_complete(AttachPhase::full);
    case Stage::cached:
      return all && !m_training.stream_goes_on() && !is_complete(AttachPhase::cached);
    case Stage::busy:
      return all && !m_training.stream_goes_on() && m_training.loader && m_training.loader->workers > 0 && !is_complete(AttachPhase::busy);
    case Stage::synthetic:
      return all && !is_complete(AttachPhase::synthetic);
    case Stage::drains:
      return m_plan.phases != Phases::full && !m_training.drained;
    default:
      return false;
  }
}

std::size_t Conductor::phases_with_steps() const {
  constexpr std::array stages{Stage::full, Stage::cached, Stage::busy, Stage::synthetic};
  return static_cast<std::size_t>(std::ranges::count_if(stages, [this](Stage stage) { return is_wanted(stage); }));
}

/// The next phase that is wanted.
Answer Conductor::start_following(Nanoseconds now) {
  constexpr std::array stages{Stage::cached, Stage::busy, Stage::synthetic, Stage::drains};
  const auto* const next = std::ranges::find_if(stages, [&](Stage stage) {
    if (!is_wanted(stage)) return false;
    m_training.out_of_time |= !fits(stage, now);
    return fits(stage, now);
  });
  if (next == stages.end()) return start_stage(Stage::done, now);
  const bool from_memory = *next == Stage::cached || *next == Stage::busy || *next == Stage::drains;
  return start_stage(from_memory && !m_is_warm ? Stage::warm : *next, now);
}

Answer Conductor::start_stage(Stage stage, Nanoseconds now) {
  m_stage = stage;
  m_stage_begin = now;
  m_stage_use = m_use();
  m_stage_steps = 0;
  m_warming_up = true;
  for (auto& [number, member] : m_members) {
    member.window.reset();
    member.full_since.reset();
  }
  switch (stage) {
    case Stage::busy:
    case Stage::synthetic:
      return SwitchPhase{phase(), kept_batches, m_plan.kept_bytes};
    case Stage::cached:
      return SwitchPhase{AttachPhase::cached, 0, 0};
    case Stage::warm:
    case Stage::drains:
      return next_drain(now);
    case Stage::full:
    case Stage::done:
      break;
  }
  return PlainAnswer::end;
}

}  // namespace dsanalyze
