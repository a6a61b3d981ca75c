#pragma once

#include <cstddef>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "batch.hpp"

namespace dsanalyze {

/// A stream of prepared batches, wherever they are made: by this process's loader, or by a group of jobs. Threads: next() one caller; the rest any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch. end after the last epoch; timeout; busy while as many as may be held at once are unreleased; cancelled after stop(), or when
  /// this job was put out of its group; corrupt or io when no more will come: failure() says why.
  virtual Status next(Batch& batch, Deadline deadline) = 0;
  /// The batch's memory may be written again.
  virtual void release(ReleaseToken token) = 0;
  /// What the offsets in a batch count from, until it is released.
  [[nodiscard]] virtual const std::byte* memory(const Batch& batch) const = 0;
  /// No more batches are wanted.
  virtual void stop() = 0;
  [[nodiscard]] virtual std::string failure() const = 0;
};

}  // namespace dsanalyze
