#pragma once

#include <cstddef>
#include <span>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/status.hpp"

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

}  // namespace dsanalyze
