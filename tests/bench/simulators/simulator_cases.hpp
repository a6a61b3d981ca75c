#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/index.hpp"
#include "models/simulate/epoch_simulator.hpp"

namespace dsanalyze::bench {

/// A configuration drawn at random, its samples, and what the closed form knows of it.
struct SimulatorCase {
  std::uint64_t number = 0;
  bool close = false;  ///< F, P and G were drawn within 10 % of each other
  std::shared_ptr<const DatasetIndex> index;
  EpochSetup setup;           ///< `records` are the index's
  double hit_share = 0;       ///< of bytes, in steady state
  double storage_rate = 0;    ///< S, samples/s
  double prep_rate = 0;       ///< P
  double ingestion_rate = 0;  ///< G
  [[nodiscard]] std::string describe() const;
};

/// Case `number` of the set: a pure function of both.
SimulatorCase draw_case(std::uint64_t set_seed, std::uint64_t number);

}  // namespace dsanalyze::bench
