#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"
#include "core/batch.hpp"

namespace dsanalyze {

/// What one rank of a data-parallel job takes of each global mini-batch. Deterministic: every rank computes every rank's part alike.
/// Threads: one (a loader's feeder); stop() any.
class RankShare {
 public:
  virtual ~RankShare() = default;
  /// Called before the first batch of each epoch, once everything of the epoch before has settled in this rank. May wait for the other ranks. end: no
  /// epoch follows. Else not ok: the run is over for this rank (failure in words: failure()).
  virtual Status begin_epoch(std::uint64_t epoch) = 0;
  /// How many ranks take part in this epoch: a global mini-batch is so many times a rank's.
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;
  /// This rank's part of the epoch's next global mini-batch; may be empty in the last one. Valid until the next call.
  virtual std::span<const SampleId> mine(std::span<const SampleId> global) = 0;
  /// A begin_epoch() that waits, and every later one, returns soon (cancelled).
  virtual void stop() = 0;
  [[nodiscard]] virtual std::string failure() const = 0;
};

}  // namespace dsanalyze
