#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "attach/conductor.hpp"
#include "base/random.hpp"

// Trainings in simulated time, whose phases a conductor leads.

namespace dsanalyze::testing {

/// So many ranks say who they are, and name their loaders.
inline void join(Conductor& conductor, int ranks, std::optional<std::uint64_t> batches = {}, int prefetch = 2) {
  for (int i = 0; i < ranks; ++i) {
    HelloMessage hello;
    hello.pid = 100 + i;
    hello.rank = i;
    hello.world = ranks;
    conductor.receive(i, hello, 0);
    LoaderMessage loader;
    loader.loader.workers = 2;
    loader.loader.batches = batches;
    loader.loader.prefetch = prefetch;
    conductor.receive(i, loader, 0);
  }
}

/// A training of several ranks in simulated time. Each rank takes the same number of steps an epoch; which rank comes to a checkpoint first is drawn.
struct Training {
  int ranks = 1;
  std::uint64_t batches = 1000;                                                           ///< an epoch
  std::optional<std::uint64_t> told_batches{};                                            ///< by the loader; else it tells `batches`
  std::optional<std::uint64_t> later_batches{};                                           ///< of each epoch but the first
  double full = 0.010, synthetic = 0.004, busy = 0.006, cached = 0.008, drained = 0.005;  ///< seconds a step or batch
  double spread = 0;                                                                      ///< steps differ by up to so much of them, either way
  std::uint64_t seed = 1;
  std::function<double(int)> drained_by_workers{};  ///< seconds a batch, in place of `drained`
  std::optional<EpochGap> gap{};                    ///< before each epoch but the first
  int prefetch = 2;
  std::function<bool()> until{};  ///< it takes no further step; empty: to the end of all phases
  bool drains_in_time = false;    ///< a drain ends when its seconds are over; else after 200 batches
  double counted = 1;             ///< what steps that are only counted take of others' time
  double drained_spread = 0;      ///< what its batches take differs by up to so much for a second or so, either way
  bool can_count = true;          ///< steps alone, where it is asked to; else they are clocked, too
  std::string drained_error{};    ///< that each drain ends with

  struct Rank {
    std::uint64_t step = 0, epoch = 0;
    AttachPhase phase = AttachPhase::full;
    std::uint64_t steps_left = 0;
    bool counts = false;  ///< these
    Nanoseconds answered = 0;
    bool asks = true;  ///< has to come to a checkpoint
    CheckpointMessage::Why why = CheckpointMessage::Why::start;
    std::optional<DrainLoader> drain;
    std::vector<DrainLoader> drains;  ///< all that were asked for
    std::vector<AttachPhase> phases;  ///< of every step that it took
    bool ended = false;
  };
  std::map<int, Rank> members{};
  Nanoseconds now = to_nanoseconds(100);

  [[nodiscard]] double step_seconds(AttachPhase phase) const {
    if (phase == AttachPhase::busy) return busy;
    return phase == AttachPhase::full ? full : phase == AttachPhase::synthetic ? synthetic : cached;
  }

  void follow(const Conductor::Answers& answers) {
    for (const auto& [member, answer] : answers) {
      Rank& rank = members.at(member);
      rank.asks = false;
      rank.answered = now;
      if (const auto* run = std::get_if<RunSteps>(&answer)) {
        rank.steps_left = run->steps;
        rank.counts = run->count && can_count;
      } else if (const auto* change = std::get_if<SwitchPhase>(&answer)) {
        rank.phase = change->phase;
        rank.asks = true;
        rank.why = CheckpointMessage::Why::switched;
      } else if (const auto* drain = std::get_if<DrainLoader>(&answer)) {
        rank.drain = *drain;
        rank.drains.push_back(*drain);
      } else if (std::get<PlainAnswer>(answer) == PlainAnswer::end) {
        rank.ended = true;
      }
    }
  }

  /// What a rank does once it was answered: steps to the next checkpoint, or a drain.
  HookMessage work(Rank& rank) {
    if (rank.drain) {
      DrainedMessage message;
      message.workers = rank.drain->workers;
      message.measured = rank.drain->measured;
      message.begin = now;
      const double typical = drained_by_workers ? drained_by_workers(message.workers) : drained;
      constexpr std::size_t alike = 100;
      RandomStream random(seed * 1'000'003 + rank.drains.size());
      double seconds = typical;
      double taken = 0;
      while (drains_in_time ? taken < rank.drain->seconds : message.samples.size() < 200) {
        if (message.samples.size() % alike == 0) seconds = typical * (1 + drained_spread * random.uniform(-1, 1));
        message.delivered.push_back(now + to_nanoseconds(taken += seconds));
        message.samples.push_back(32);
      }
      message.error = drained_error;
      now = message.delivered.back();
      rank.drain.reset();
      return message;
    }
    CheckpointMessage message;
    message.why = rank.why;
    message.step = rank.step;
    message.kept = 16;
    message.copies = 1000;
    if (rank.why == CheckpointMessage::Why::start && rank.epoch > 0) message.between = gap;
    if (rank.why != CheckpointMessage::Why::window) return message;
    StepWindow window;
    double took = 0;
    window.begin = rank.answered;
    for (; rank.steps_left > 0 && rank.step < (rank.epoch > 0 ? later_batches.value_or(batches) : batches); --rank.steps_left, ++rank.step) {
      rank.phases.push_back(rank.phase);
      RandomStream random(seed * 1'000'003 + rank.step);
      const double seconds = step_seconds(rank.phase) * (1 + spread * random.uniform(-1, 1));
      took += rank.counts ? seconds * counted : seconds;
      window.samples.push_back(32);
      if (rank.counts) continue;
      window.wait.push_back(seconds / 2);
      window.compute.push_back(seconds / 2);
      for (auto* list : {&window.outside, &window.validation, &window.ranks}) list->push_back(0);
    }
    window.end = window.begin + to_nanoseconds(took);
    window.cut = rank.counts && rank.steps_left > 0;
    now = std::max(now, window.end);
    message.window = window;
    message.step = rank.step;
    if (rank.steps_left > 0) message.why = CheckpointMessage::Why::epoch_end;
    return message;
  }

  /// Runs until all phases are over; how many answers were given.
  std::size_t run(Conductor& conductor) {
    RandomStream random(seed);
    std::size_t given = 0;
    for (int i = 0; i < ranks; ++i) members[i];
    join(conductor, ranks, told_batches ? told_batches : batches, prefetch);
    while (!conductor.finished() && given < 1'000'000 && !(until && until())) {
      std::vector<int> ready;
      for (auto& [number, rank] : members)
        if (!rank.ended && (rank.asks || rank.drain || rank.steps_left > 0)) ready.push_back(number);
      if (ready.empty()) break;
      const int number = ready[random.below(ready.size())];
      Rank& rank = members.at(number);
      const HookMessage message = work(rank);
      const bool last_of_epoch =
          std::holds_alternative<CheckpointMessage>(message) && std::get<CheckpointMessage>(message).why == CheckpointMessage::Why::epoch_end;
      now += to_nanoseconds(0.001);  // A checkpoint takes a while.
      rank.asks = false;
      rank.why = CheckpointMessage::Why::window;
      if (last_of_epoch) {
        ++rank.epoch;
        rank.step = rank.steps_left = 0;
      }
      const auto answers = conductor.receive(number, message, now);
      given += answers.size();
      follow(answers);
      if (last_of_epoch) {
        rank.asks = true;
        rank.why = CheckpointMessage::Why::start;
      }
    }
    return given;
  }
};

inline Conductor made(double seconds, EventSink& events = null_events()) {
  Conductor::Plan plan;
  plan.seconds = seconds;
  plan.worker_counts = {1, 2};
  return {plan, [] { return TreeUse{}; }, events};
}

/// Keeps the lines that it is told.
struct Notes : EventSink {
  std::vector<std::string> lines;
  void progress(const Progress& /*progress*/) override {}
  void note(const std::string& line) override { lines.push_back(line); }
  void finding(const Finding& /*finding*/) override {}
};

inline double rate(const Conductor& conductor, AttachPhase phase) {
  const auto stretches = stretches_of(conductor.training().phases.at(phase));
  return stretches.empty() ? 0 : stretches.front().rate();
}

}  // namespace dsanalyze::testing
