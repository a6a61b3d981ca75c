#include "simulated_profiles.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace dsanalyze::test {
namespace {

RateRecord rate(double value) { return {value, value * 1000, {value * 0.99, value * 1.01}, 12, 0, "simulated", {}}; }

RunRecord run_record(const std::string& name, double value) {
  RunRecord record;
  record.name = name;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {value * 0.99, value * 1.01};
  return record;
}

}  // namespace

Speeds Speeds::slower(double share) const {
  Speeds speeds = *this;
  for (double* speed : {&speeds.prep, &speeds.cached, &speeds.full}) *speed *= 1 - share;
  return speeds;
}

std::string utc_after(std::int64_t seconds) {
  const std::time_t at = 1'795'132'800 + seconds;
  std::tm utc{};
  ::gmtime_r(&at, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

ProfileResult plain_profile() {
  ProfileResult profile;
  profile.tool = {"dsanalyze", "0.1.0", "abc"};
  profile.host = {"a CPU", 2, 2, 2, Bytes{8} << 30, Bytes{16} << 30, "6.1.0-18-amd64", 2, "vda", "ext4", "block layer", "none"};
  profile.settings.dataset = "/data";
  profile.dataset = {"/data", "folder", 100, 11'000, 110, "digest", false, 100, 11'000};
  profile.trusted = true;
  return profile;
}

double Deviates::next() {
  if (m_noise == Noise::normal) return m_random.normal();
  // Student's t with 4 degrees of freedom, brought to deviation 1.
  constexpr int degrees = 4;
  const double numerator = m_random.normal();
  double squares = 0;
  for (int i = 0; i < degrees; ++i) {
    const double value = m_random.normal();
    squares += value * value;
  }
  return numerator / std::sqrt(squares / degrees) / std::sqrt(degrees / (degrees - 2.0));
}

GateRun SimulatedMachine::run(const Speeds& speeds) {
  const double burst = m_scatter.bursts > 0 && m_deviates.uniform() < m_scatter.bursts ? std::log(2.0 / 3) : 0;
  const double shared = noise(m_scatter.shared) + m_session + m_scatter.drift * m_runs / 40 + burst;
  const auto drawn = [&](double value) { return value * std::exp(shared + noise(m_scatter.each)); };
  ProfileResult profile = plain_profile();
  profile.started_utc = utc_after(m_seconds);
  profile.prep = rate(drawn(speeds.prep));
  profile.storage = rate(drawn(speeds.storage));
  profile.runs = {run_record("cached", drawn(speeds.cached)), run_record("full", drawn(speeds.full))};
  const auto stall = [&](double fraction) {
    const double value = std::clamp(fraction + noise(m_scatter.each) * 0.7, 0.0, 1.0);
    return StallRecord{1, value, {value, value}};
  };
  profile.stalls = ProfileResult::Stalls{stall(0.6), stall(speeds.prep_stall), stall(speeds.fetch_stall)};
  m_seconds += 120;
  ++m_runs;
  return {"run-" + std::to_string(m_seconds), profile, static_cast<std::uint64_t>(m_deviates.word() | 1)};
}

std::vector<GateRun> SimulatedMachine::runs(const Speeds& speeds, std::size_t count) {
  std::vector<GateRun> drawn;
  for (std::size_t i = 0; i < count; ++i) drawn.push_back(run(speeds));
  return drawn;
}

std::vector<GateRun> SimulatedMachine::days(const Speeds& speeds, const std::vector<std::size_t>& counts) {
  std::vector<GateRun> drawn;
  for (const std::size_t count : counts) {
    next_session();
    for (GateRun& run : runs(speeds, count)) drawn.push_back(std::move(run));
  }
  return drawn;
}

void SimulatedMachine::next_session(int days) {
  m_seconds += std::int64_t{days} * 86'400;
  m_session = noise(m_scatter.session);
}

}  // namespace dsanalyze::test
