#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>

#include "filler.hpp"
#include "segments.hpp"
#include "step.hpp"

namespace dsanalyze::staging {

/// What a process needs to take protocol steps one after the other, sleeping where there is nothing to do.
struct Stepping {
  Timing timing;
  StagingObserver observer;
  std::function<bool()> coordinator_lives;
  const Mapped& mapped;

  void observe(StagingStep step) const {
    if (observer) observer(step);
  }
  /// Until there is a batch or a slot (ok), or the reason why there is none.
  template <typename Machine>
  [[nodiscard]] Status run(Machine& machine, Deadline deadline) const {
    while (true) {
      const auto kept = mapped.keep();
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
    const Status status = run(filler, deadline);
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
