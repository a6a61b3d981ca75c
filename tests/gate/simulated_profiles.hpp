#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "gate/gate.hpp"

namespace dsanalyze::test {

enum class Noise { normal, heavy_tailed };

/// How simulated runs scatter: relative deviations.
struct Scatter {
  double each = 0.03;  ///< of every metric by itself
  double shared = 0;   ///< of all metrics of a run together
  double session = 0;  ///< of all runs of a session together
  double drift = 0;    ///< from the first run of a sequence to the 40th, steadily
  Noise noise = Noise::normal;
  double bursts = 0;  ///< share of the runs that other work slows by a third
};

/// Draws of deviation 1: normal, or Student's t with 4 degrees of freedom.
class Deviates {
 public:
  Deviates(std::uint64_t seed, Noise noise) : m_random(seed), m_noise(noise) {}
  double next();
  double uniform() { return m_random.uniform(); }
  std::uint64_t word() { return m_random.next(); }

 private:
  RandomStream m_random;
  Noise m_noise;
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
  SimulatedMachine(std::uint64_t seed, Scatter scatter) : m_deviates(seed, scatter.noise), m_scatter(scatter) {}
  GateRun run(const Speeds& speeds);
  std::vector<GateRun> runs(const Speeds& speeds, std::size_t count);
  /// Equal runs on so many further days, of each day as many as its number says.
  std::vector<GateRun> days(const Speeds& speeds, const std::vector<std::size_t>& counts);
  /// So many days later, with another drift.
  void next_session(int days = 1);

 private:
  double noise(double deviation) { return deviation * m_deviates.next(); }

  Deviates m_deviates;
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
