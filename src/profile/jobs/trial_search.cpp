#include "trial_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t trial_key = 0x747269616c;
constexpr double least_learning_rate = 0.001, most_learning_rate = 0.02;
constexpr double least_momentum = 0.5, most_momentum = 0.9;

/// Whether a stands behind b.
bool worse(const TrialSearch::Standing& a, const TrialSearch::Standing& b) {
  const TrialEpoch &of_a = a.epoch, &of_b = b.epoch;
  if (of_a.loss.has_value() != of_b.loss.has_value()) return !of_a.loss;
  if (of_a.loss) return *of_a.loss != *of_b.loss ? *of_a.loss > *of_b.loss : a.job > b.job;
  return of_a.samples_per_s != of_b.samples_per_s ? of_a.samples_per_s < of_b.samples_per_s : a.job > b.job;
}

}  // namespace

TrialSetup trial_setup(std::uint64_t seed, int trial) {
  RandomStream random(mix(seed, trial_key, static_cast<std::uint64_t>(trial)));
  const double rate = std::exp(random.uniform(std::log(least_learning_rate), std::log(most_learning_rate)));
  return {rate, random.uniform(least_momentum, most_momentum)};
}

TrialSearch::TrialSearch(const ProfileSettings& settings)
    : m_trials(settings.trials),
      m_most_epochs(static_cast<std::uint64_t>(settings.epochs)),
      m_round(static_cast<std::uint64_t>(settings.stop_at_epochs.value_or(0))) {}

std::optional<int> TrialSearch::begin(int job) {
  const auto trial = take();
  if (trial) {
    m_running.push_back({job, 0});
    start(job, *trial);
  }
  return trial;
}

std::optional<int> TrialSearch::take() {
  if (m_begun == m_trials) return std::nullopt;
  return m_begun++;
}

TrialSearch::Running& TrialSearch::running_at(int job) { return *std::ranges::find(m_running, job, &Running::job); }

void TrialSearch::start(int job, int trial) {
  running_at(job).record = m_records.size();
  SearchTrialRecord record;
  record.trial = trial;
  record.job = job;
  record.judged_by = "samples_per_s";
  m_records.push_back(record);
}

std::vector<TrialSearch::Decision> TrialSearch::decide(std::span<const Standing> standings) {
  ++m_epochs;
  std::erase_if(m_running, [&](const Running& running) { return std::ranges::find(standings, running.job, &Standing::job) == standings.end(); });
  std::vector<std::size_t> order(standings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return worse(standings[a], standings[b]); });
  const bool halves = m_round > 0 && m_epochs % m_round == 0;
  // The last that runs alone has won; it trains on.
  const std::size_t give_way = halves ? standings.size() / 2 : 0;

  std::vector<Decision> decisions(standings.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const Standing& standing = standings[order[rank]];
    SearchTrialRecord& record = m_records[running_at(standing.job).record];
    ++record.epochs;
    record.seconds += standing.epoch.seconds;
    record.judged_by = standing.epoch.loss ? "loss" : "samples_per_s";
    record.value = standing.epoch.loss.value_or(standing.epoch.samples_per_s);
    record.end = JobEnd::finished;
    const bool trained_out = record.epochs >= m_most_epochs;
    if (rank >= give_way && !trained_out) continue;
    if (!trained_out) record.end = JobEnd::stopped;
    if (const auto trial = take()) {
      decisions[order[rank]] = {Decision::Kind::next, *trial};
      start(standing.job, *trial);
    } else {
      decisions[order[rank]] = {Decision::Kind::stop, 0};
      std::erase_if(m_running, [&](const Running& running) { return running.job == standing.job; });
    }
  }
  return decisions;
}

std::vector<SearchTrialRecord> TrialSearch::records() const { return m_records; }

}  // namespace dsanalyze
