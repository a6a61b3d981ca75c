#pragma once

#include "memory.hpp"

namespace dsanalyze::staging {

enum class Outcome : std::uint8_t {
  again,   ///< there is a next step
  ready,   ///< a batch to read, or a slot to fill
  wait,    ///< nothing to do until the word moves or the time comes
  busy,    ///< the caller has to give something back first
  ended,   ///< nothing more will come
  put_out  ///< this job does not count any more
};

/// What a step did, and what to wait for where there is nothing to do.
struct StepResult {
  StagingStep did = StagingStep::look;
  Outcome outcome = Outcome::again;
  const std::atomic<std::uint32_t>* word = nullptr;  ///< nullptr: until the time alone
  std::uint32_t expected = 0;
  Deadline until;
};

constexpr int all_waiters = INT32_MAX;

}  // namespace dsanalyze::staging
