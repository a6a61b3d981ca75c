#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>

#include "filler.hpp"
#include "memory.hpp"
#include "segments.hpp"

namespace dsanalyze::staging {

/// What a process needs to take protocol steps one after the other, sleeping where there is nothing to do.
struct Stepping {
  Timing timing;
  StagingObserver observer;
  std::function<bool()> coordinator_lives;
  const Mapped& mapped;
  mutable std::atomic<Nanoseconds> looked_for_coordinator{0};

  void observe(StagingStep step) const {
    if (observer) observer(step);
  }
  /// A job whose batches are always there never waits, and is told all the same.
  [[nodiscard]] bool lost_coordinator() const {
    constexpr Nanoseconds seldom = 20'000'000;
    const Nanoseconds now = timing.clock->now();
    if (now - looked_for_coordinator.load(std::memory_order_relaxed) < seldom) return false;
    looked_for_coordinator.store(now, std::memory_order_relaxed);
    return !coordinator_lives();
  }
  /// Until there is a batch or a slot (ok), or the reason why there is none. `kept`: what has to stay mapped for as long as it is used.
  template <typename Machine>
  [[nodiscard]] Status run(Machine& machine, Deadline deadline, std::shared_ptr<const void>& kept) const {
    if (lost_coordinator()) return {StatusCode::io, EPIPE};
    while (true) {
      kept = mapped.keep();
      observe(machine.next_step());
      const StepResult progress = machine.step();
      switch (progress.outcome) {
        case Outcome::again:
          continue;
        case Outcome::ready:
          return {};
        case Outcome::busy:
          return {StatusCode::busy, 0};
        case Outcome::ended:
          return {StatusCode::end, 0};
        case Outcome::put_out:
          return {StatusCode::cancelled, 0};
        case Outcome::wait:
          break;
      }
      if (!coordinator_lives()) return {StatusCode::io, EPIPE};
      if (timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
      observe(progress.did);
      const Deadline until{std::min(progress.until.at, deadline.at)};
      if (progress.word == nullptr) {
        timing.waiter->sleep_until(until.at);
      } else {
        timing.waiter->wait(*progress.word, progress.expected, until);
      }
    }
  }
  [[nodiscard]] Status claim(Filler& filler, SlabHead* slab, const StagingFacts& facts, StagingClaim& claimed, Deadline deadline) const {
    std::shared_ptr<const void> kept;
    const Status status = run(filler, deadline, kept);
    if (!status.ok()) return status;
    claimed = filler.claimed();
    claimed.bytes = slot_of(slab, facts, claimed.slot);
    return {};
  }
  void publish(Filler& filler, const StagingClaim& claim, const StagedFacts& facts) const {
    observe(StagingStep::publish);
    filler.publish(claim, facts);
    observe(StagingStep::wake_jobs);
    filler.wake(*timing.waiter);
  }
};

}  // namespace dsanalyze::staging
