#pragma once

#include "base/random.hpp"
#include "partition.hpp"

namespace dsanalyze {

/// Which of the rule's parts a sample belongs to: evenly spread over the samples, whatever their numbers.
inline std::uint32_t replica_step(SampleId sample) {
  static_assert(ReplicaRule::steps == 256);
  return static_cast<std::uint32_t>(mix(sample, 0x7265706c696361) >> 56);
}

}  // namespace dsanalyze
