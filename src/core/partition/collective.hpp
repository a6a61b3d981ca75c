#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "core/batch.hpp"
#include "partition.hpp"

namespace dsanalyze {

/// What ranks of one job do together. Every call has a deadline; a lost rank gives timeout or io, never a hang. Threads: one caller at a time.
class Collective {
 public:
  virtual ~Collective() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int world() const = 0;
  virtual Status barrier(Deadline deadline) = 0;
  /// Element-wise sum over all ranks, in place.
  virtual Status sum(std::span<double> values, Deadline deadline) = 0;
  /// Every rank's bytes, in rank order, into `all` (world x mine.size()).
  virtual Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) = 0;
};

/// Ranks of which some may be lost on the way. barrier(), sum() and gather() are among the ranks last agreed on, at first all: a lost rank's bytes
/// are zeros, its numbers add nothing. Where one dies meanwhile some ranks may end with io and others not: tell_together() makes it alike for all.
class ElasticCollective : public Collective {
 public:
  /// All that are alive call it, as often as one another, and get the same answer: who goes on. Who dies in the course of it may still be in the
  /// answer, as one that dies just after it would. Waits for all that are alive; after a timeout another call goes on with the same agreement.
  /// Errors: timeout (a rank that is alive has not come), io (the others go on without this rank).
  virtual Status agree(AliveRanks& alive, Deadline deadline) = 0;
  /// Why the others go on without this rank, in words without a full stop; empty: they do not, or it is not known. Threads: any.
  [[nodiscard]] virtual std::string given_up() const { return {}; }
  /// Calls that wait, and later ones until restart(), end soon with cancelled. Threads: any.
  virtual void stop() {}
  /// What the ranks were agreeing on is given up, by all of them and as often by each: ranks that were stopped may differ by an agreement. A rank
  /// that still waits for an agreement from before gets cancelled. Threads: while no call is running.
  virtual void restart() {}
};

/// All that are alive agree on who they are by `agree`, tell one another something by `tell` (of the ranks in `alive`), and agree that all have heard
/// it; where one was lost meanwhile, once more. Both give a Status. Ranks that call it alike end alike.
template <typename Agree, typename Tell>
Status tell_together(AliveRanks& alive, const Agree& agree, const Tell& tell) {
  while (true) {
    if (Status status = agree(); !status.ok()) return status;
    const AliveRanks telling = alive;
    const Status told = tell();
    if (Status status = agree(); !status.ok()) return status;
    if (alive == telling) return told;
  }
}

/// A job of one rank: everything succeeds at once.
class SingleRank final : public Collective {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int world() const override { return 1; }
  Status barrier(Deadline) override { return {}; }
  Status sum(std::span<double>, Deadline) override { return {}; }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline) override {
    for (std::size_t i = 0; i < mine.size(); ++i) all[i] = mine[i];
    return {};
  }
};

/// What one rank of a data-parallel job takes of each global mini-batch. Deterministic: every rank computes every rank's part alike.
/// Threads: one (a loader's feeder); stop() any.
class RankShare {
 public:
  virtual ~RankShare() = default;
  /// Called before the first batch of each epoch, once everything of the epoch before has settled in this rank. May wait for the other ranks.
  /// `position`: samples of the epoch that lie before that batch. end: no epoch follows. Else not ok: the run is over for this rank (failure in
  /// words: failure()).
  virtual Status begin_epoch(std::uint64_t epoch, std::uint64_t position) = 0;
  /// How many ranks take part in this epoch: a global mini-batch is so many times a rank's.
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;
  /// This rank's part of the epoch's next global mini-batch; may be empty in the last one. Valid until the next call.
  virtual std::span<const SampleId> mine(std::span<const SampleId> global) = 0;
  /// A begin_epoch() that waits, and every later one, returns soon (cancelled).
  virtual void stop() = 0;
  [[nodiscard]] virtual std::string failure() const = 0;
};

}  // namespace dsanalyze
