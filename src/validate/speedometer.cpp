#include "speedometer.hpp"

#include <algorithm>

#include "core/sharing_modes.hpp"
#include "models/simulate/profile_simulation.hpp"

namespace dsanalyze {
namespace {

constexpr double gauge_seconds = 5;
constexpr Bytes most_gauge_bytes =
    Bytes{1} << 30;  ///< in memory beside the runs' own caches: a random part of a large subset tells the speed as well

}  // namespace

double jobs_that_share(const WhatIfAnswer& answer) {
  return answer.change.share.empty() || answer.change.share == job_sharing_name(JobSharing::none) ? 1 : answer.change.jobs.value_or(1);
}

Speedometer::Speedometer(const ProfileInputs& base, const ProfileResult& profile, const std::stop_token& stop, Timing timing) : m_profile(profile) {
  if (seconds(profile) == 0 || !profile.prep) return;
  for (const CorePoint& point : profile.prep_by_cores) m_profiled[point.cores] = point.samples_per_s;
  m_profiled[profile.settings.cores] = profile.prep->samples_per_s;
  ProfileInputs inputs = base;
  const Bytes subset = profile.dataset.subset_bytes > 0 ? profile.dataset.subset_bytes : inputs.index->bytes();
  inputs.settings.subset = ByteAmount{ByteAmount::Kind::bytes, std::min(subset, most_gauge_bytes), 0};
  m_gauge.emplace(inputs, stop, timing);
}

double Speedometer::seconds(const ProfileResult& profile) { return profile.settings.prep == Seam::real ? 2 * gauge_seconds : 0; }

int Speedometer::cores_of(const WhatIfAnswer& answer) const { return changed_settings(m_profile, answer).settings.cores; }

PrepGauge::Speed Speedometer::gauge(int cores) {
  if (!m_gauge) return {};
  const PrepGauge::Speed speed = m_gauge->speed(cores, gauge_seconds);
  m_work[cores].add(speed);
  return speed;
}

void Speedometer::begin(const WhatIfAnswer& answer) {
  const int own = cores_of(answer);
  m_cores = m_profiled.contains(own) ? own : m_profile.settings.cores;
  m_before = gauge(m_cores);
  if (m_gauge) m_gauge->begin_probe(m_cores);
}

double Speedometer::end() {
  const double probe_seconds = m_gauge ? m_gauge->end_probe() : 0;
  const PrepGauge::Speed after = gauge(m_cores);
  m_while = m_gauge ? prep_while(after, probe_seconds) : 0;
  return m_while > 0 ? m_while / m_profiled.at(m_cores) : 1;
}

double Speedometer::prep(const WhatIfAnswer& answer) {
  if (!m_gauge) return answer.prep;
  const int cores = cores_of(answer);
  const double jobs = jobs_that_share(answer);
  if (cores == m_cores && m_while > 0) return m_while * jobs;
  const auto known = m_others.find(cores);
  return jobs * (known != m_others.end() ? known->second : m_others[cores] = gauge(cores).samples_per_s);
}

double Speedometer::prep_while(const PrepGauge::Speed& after, double probe_seconds) const {
  if (const auto probed = m_work.at(m_cores).prep(probe_seconds)) return *probed;
  return m_before.samples_per_s > 0 && after.samples_per_s > 0 ? (m_before.samples_per_s + after.samples_per_s) / 2 : 0;
}

void ProbedWork::add(const PrepGauge::Speed& gauge) {
  if (gauge.samples_per_s <= 0 || gauge.probe_seconds <= 0) return;
  m_sum += gauge.samples_per_s * gauge.probe_seconds;
  ++m_gauges;
}

std::optional<double> ProbedWork::prep(double probe_seconds) const {
  if (m_gauges == 0 || probe_seconds <= 0) return std::nullopt;
  return m_sum / m_gauges / probe_seconds;
}

}  // namespace dsanalyze
