#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsanalyze/base/random.hpp"
#include "dsanalyze/gate/gate.hpp"

namespace dsanalyze::test {

enum class Noise { normal, heavy_tailed };

/// How simulated runs scatter: relative deviations.
struct Scatter {
  double each = 0.03;  ///< of every metric by itself
  double shared = 0;   ///< of all metrics of a run together
  double session = 0;  ///< of all runs of a session together
  double drift = 0;    ///< from the first run of a sequence to the 40th, steadily
  Noise noise = Noise::normal;
};

/// What a simulated loader does: samples/s before scatter.
struct Speeds {
  double prep = 2000, storage = 4600, cached = 1900, full = 1800;
  double prep_stall = 0.3, fetch_stall = 0.05;

  /// The loader slower by a share: prep, cached and full.
  [[nodiscard]] Speeds slower(double share) const;
};

/// Draws runs one after another, each two minutes after the one before.
class SimulatedMachine {
 public:
  SimulatedMachine(std::uint64_t seed, Scatter scatter) : m_random(seed), m_scatter(scatter) {}
  GateRun run(const Speeds& speeds);
  std::vector<GateRun> runs(const Speeds& speeds, std::size_t count);
  /// So many days later, with another drift.
  void next_session(int days = 1);

 private:
  double noise(double deviation);

  RandomStream m_random;
  Scatter m_scatter;
  double m_session = 0;
  std::int64_t m_seconds = 0;
  int m_runs = 0;
};

/// The least result that is comparable and trusted.
ProfileResult plain_profile();
/// "2026-11-20T00:00:00Z" and so many seconds.
std::string utc_after(std::int64_t seconds);

}  // namespace dsanalyze::test
