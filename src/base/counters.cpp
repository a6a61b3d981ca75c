#include "counters.hpp"

namespace dsanalyze {

StageTotals& StageTotals::operator+=(const StageTotals& other) {
  samples += other.samples;
  bytes += other.bytes;
  failures += other.failures;
  busy += other.busy;
  waiting += other.waiting;
  return *this;
}

}  // namespace dsanalyze
