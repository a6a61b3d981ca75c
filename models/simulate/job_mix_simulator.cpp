#include "job_mix_simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/dependent/dependent_group.hpp"

namespace dsanalyze {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr std::uint32_t min_scaled_samples = 500;
constexpr std::uint64_t steps_between_progress = 1 << 14;

void require(bool holds, const char* what) {
  if (!holds) throw std::domain_error(what);
}

void check(const DependentMix& mix) {
  require(!mix.jobs.empty() && mix.jobs.size() <= most_dependent_jobs, "the jobs of a mix must be 1 to 64");
  require(mix.samples > 0, "the samples of a mix must be at least 1");
  require(mix.prep_samples_per_s > 0, "the prep rate P of a mix must be above 0");
  require(mix.fetch_samples_per_s > 0, "the fetch rate F of a mix must be above 0");
  require(mix.workers > 0 && mix.in_flight > 0, "the workers and the samples in flight of a mix must be at least 1");
  require(mix.slots > 0, "the slots of a job of a mix must be at least 1");
  require(mix.patience_seconds >= 0, "the patience of a mix must be at least 0");
  for (const DependentMix::Job& job : mix.jobs) {
    require(job.samples_per_s > 0, "the speed of a job of a mix must be above 0");
    require(job.arrival_seconds >= 0 && std::isfinite(job.arrival_seconds), "the arrival of a job of a mix must be at least 0 and finite");
    require(job.batch_size > 0 && job.epochs > 0, "the batch size and the epochs of a job of a mix must be at least 1");
    require(job.samples.empty() || job.samples.back().end <= mix.samples, "the subset of a job of a mix must lie in its dataset");
  }
}

std::uint64_t epoch_samples(const DependentMix& mix, const DependentMix::Job& job) {
  return job.samples.empty() ? mix.samples : count_of(job.samples);
}

/// Fetch, then prep by several workers: each sample takes its turn, and all take the same time.
class Supply {
 public:
  explicit Supply(const DependentMix& mix)
      : m_fetch_seconds(1 / mix.fetch_samples_per_s), m_prep_seconds(mix.workers / mix.prep_samples_per_s), m_free(mix.workers, 0.0) {}

  /// When a sample is prepared that is asked for now.
  double take(double now) {
    m_fetched = std::max(now, m_fetched) + m_fetch_seconds;
    double& free = m_free[m_next];
    m_next = (m_next + 1) % m_free.size();
    free = std::max(m_fetched, free) + m_prep_seconds;
    return free;
  }

 private:
  double m_fetch_seconds;
  double m_prep_seconds;
  double m_fetched = 0;
  std::vector<double> m_free;  ///< when each worker is; they take turns
  std::size_t m_next = 0;
};

class Simulation {
 public:
  explicit Simulation(const DependentMix& mix)
      : m_mix(mix),
        m_group({mix.samples, mix.seed, mix.store_places, mix.policy}),
        m_supply(mix),
        m_kept(mix.store_places, no_version),
        m_running(mix.jobs.size()) {
    for (const DependentMix::Job& asked : mix.jobs) {
      Job& job = m_jobs.emplace_back();
      job.epoch_samples = epoch_samples(mix, asked);
      job.batches_per_epoch = (job.epoch_samples + asked.batch_size - 1) / asked.batch_size;
      job.batches = job.batches_per_epoch * asked.epochs;
      if (!asked.samples.empty()) job.subset = samples_of(asked.samples);
    }
    m_outcome.jobs.resize(mix.jobs.size());
  }

  DependentMixOutcome run(const std::function<void(double)>& progress) {
    const auto all = static_cast<double>(draws_of(m_mix));
    for (std::uint64_t step = 0; m_running > 0; ++step) {
      if (progress && step % steps_between_progress == 0) progress(static_cast<double>(m_outcome.drawn) / all);
      happen();
      supply();
      const double next = next_time();
      if (next == never && m_running > 0) throw std::logic_error("a mix of jobs stands still");
      m_now = std::max(m_now, next);
    }
    return std::move(m_outcome);
  }

 private:
  static constexpr std::uint32_t no_version = std::numeric_limits<std::uint32_t>::max();

  struct Batch {
    std::uint64_t size = 0;
    std::uint64_t drawn = 0;
    std::uint64_t done = 0;
    double since = 0;  ///< its slot had room
  };
  struct Job {
    std::uint64_t epoch_samples = 0;
    std::uint64_t batches_per_epoch = 0;
    std::uint64_t batches = 0;  ///< in all
    std::vector<SampleId> subset;
    bool here = false;
    std::deque<Batch> window;  ///< claimed and not released, the oldest first
    std::uint64_t claimed = 0;
    std::uint64_t released = 0;
    std::size_t room = 0;    ///< of the window's last batches, so many are not all drawn
    double trained = never;  ///< when the oldest batch is
  };
  struct Delivery {
    std::uint32_t job = 0;
    std::uint64_t batch = 0;
  };
  struct Version {
    std::uint32_t holders = 0;
    bool ready = false;
    std::vector<Delivery> waiting;
  };
  struct Prepared {
    double at = 0;
    std::uint32_t version = 0;
  };

  /// All that is due now.
  void happen() {
    for (std::uint32_t number = 0; number < m_jobs.size(); ++number) {
      Job& job = m_jobs[number];
      if (!job.here && job.released < job.batches && m_mix.jobs[number].arrival_seconds <= m_now) arrive(number);
    }
    while (!m_in_flight.empty() && m_in_flight.front().at <= m_now) {
      const std::uint32_t version = m_in_flight.front().version;
      m_in_flight.pop_front();
      publish(version);
    }
    for (std::uint32_t number = 0; number < m_jobs.size(); ++number)
      while (m_jobs[number].trained <= m_now) release(number);
  }

  void arrive(std::uint32_t number) {
    m_jobs[number].here = true;
    m_outcome.jobs[number].start_seconds = m_mix.jobs[number].arrival_seconds;
    m_outcome.jobs[number].prepared_while = m_outcome.prepared;  // so far
    claim(number);
  }

  void claim(std::uint32_t number) {
    Job& job = m_jobs[number];
    const std::uint64_t batch_size = m_mix.jobs[number].batch_size;
    for (; job.window.size() < m_mix.slots && job.claimed < job.batches; ++job.claimed, ++job.room) {
      const std::uint64_t before = job.claimed % job.batches_per_epoch * batch_size;
      job.window.push_back({std::min(batch_size, job.epoch_samples - before), 0, 0, m_now});
    }
  }

  void release(std::uint32_t number) {
    Job& job = m_jobs[number];
    const double then = job.trained;
    job.trained = never;
    job.window.pop_front();
    ++job.released;
    if (job.released == job.batches) {
      end(number, then);
      return;
    }
    claim(number);
    train(number, then);
  }

  void end(std::uint32_t number, double then) {
    m_jobs[number].here = false;
    --m_running;
    m_group.end(number);
    m_outcome.jobs[number].end_seconds = then;
    m_outcome.jobs[number].prepared_while = m_outcome.prepared - m_outcome.jobs[number].prepared_while;
  }

  /// Begins with the oldest batch if that is whole and the job idle.
  void train(std::uint32_t number, double from) {
    Job& job = m_jobs[number];
    if (job.trained != never || job.window.empty() || job.window.front().done < job.window.front().size) return;
    job.trained = from + static_cast<double>(job.window.front().size) / m_mix.jobs[number].samples_per_s;
  }

  [[nodiscard]] const Batch& with_room(const Job& job) const { return job.window[job.window.size() - job.room]; }

  [[nodiscard]] bool due(const Job& job) const {
    if (job.room * 2 >= std::min<std::uint64_t>(m_mix.slots, job.batches_per_epoch)) return true;
    if (job.claimed == job.batches) return true;
    return with_room(job).since + m_mix.patience_seconds <= m_now;
  }

  [[nodiscard]] JobSet asking() const {
    JobSet jobs = 0;
    bool any_due = false;
    for (std::uint32_t number = 0; number < m_jobs.size(); ++number) {
      if (!m_jobs[number].here || m_jobs[number].room == 0) continue;
      jobs |= set_of(number);
      any_due = any_due || due(m_jobs[number]);
    }
    return any_due ? jobs : 0;
  }

  /// What the loader claims now, until it has all that it takes or nothing is to be drawn.
  void supply() {
    while (true) {
      while (!m_queue.empty() && m_in_flight.size() < m_mix.in_flight) {
        m_in_flight.push_back({m_supply.take(m_now), m_queue.front()});
        m_queue.pop_front();
      }
      if (!m_queue.empty() || !draw()) return;
    }
  }

  bool draw() {
    const JobSet jobs = asking();
    if (jobs == 0) return false;
    for (JobSet left = jobs; left != 0; left &= left - 1) {
      const auto number = static_cast<std::uint32_t>(std::countr_zero(left));
      if (m_group.sets().remaining(number) > 0) continue;
      const std::vector<SampleId>& subset = m_jobs[number].subset;
      subset.empty() ? m_group.begin_epoch(number) : m_group.begin_epoch(number, subset);
    }
    ++m_outcome.rounds;
    for (const DependentGroup::Work& work : m_group.draw(jobs)) {
      const std::uint32_t version = version_of(work);
      const auto sharing = static_cast<double>(std::popcount(work.jobs));
      for (JobSet left = work.jobs; left != 0; left &= left - 1) {
        const auto number = static_cast<std::uint32_t>(std::countr_zero(left));
        if (work.prepare) m_outcome.jobs[number].prepared += 1 / sharing;
        add_to_batch(number, version);
      }
    }
    return true;
  }

  std::uint32_t version_of(const DependentGroup::Work& work) {
    if (!work.prepare) {
      m_outcome.from_store += static_cast<std::uint64_t>(std::popcount(work.jobs));
      return m_kept[*work.place];
    }
    ++m_outcome.prepared;
    const std::uint32_t version = new_version();
    m_queue.push_back(version);
    if (work.place) {
      let_go(m_kept[*work.place]);
      m_kept[*work.place] = version;
      ++m_versions[version].holders;
    }
    return version;
  }

  std::uint32_t new_version() {
    if (m_free_versions.empty()) {
      m_free_versions.push_back(static_cast<std::uint32_t>(m_versions.size()));
      m_versions.emplace_back();
    }
    const std::uint32_t number = m_free_versions.back();
    m_free_versions.pop_back();
    m_versions[number].holders = 1;
    m_versions[number].ready = false;
    return number;
  }

  void let_go(std::uint32_t version) {
    if (version != no_version && --m_versions[version].holders == 0) m_free_versions.push_back(version);
  }

  void add_to_batch(std::uint32_t number, std::uint32_t version) {
    Job& job = m_jobs[number];
    const std::size_t place = job.window.size() - job.room;
    Batch& batch = job.window[place];
    ++m_outcome.drawn;
    ++m_outcome.jobs[number].drawn;
    if (++batch.drawn == batch.size) --job.room;
    const Delivery delivery{number, job.released + place};
    if (m_versions[version].ready) {
      deliver(delivery);
    } else {
      m_versions[version].waiting.push_back(delivery);
    }
  }

  void publish(std::uint32_t number) {
    Version& version = m_versions[number];
    version.ready = true;
    for (const Delivery& delivery : version.waiting) deliver(delivery);
    version.waiting.clear();
    let_go(number);
  }

  void deliver(const Delivery& delivery) {
    Job& job = m_jobs[delivery.job];
    ++job.window[delivery.batch - job.released].done;
    train(delivery.job, m_now);
  }

  [[nodiscard]] double next_time() const {
    double next = m_in_flight.empty() ? never : m_in_flight.front().at;
    for (std::uint32_t number = 0; number < m_jobs.size(); ++number) {
      const Job& job = m_jobs[number];
      if (!job.here && job.released < job.batches) next = std::min(next, m_mix.jobs[number].arrival_seconds);
      if (!job.here) continue;
      next = std::min(next, job.trained);
      if (job.room == 0 || !m_queue.empty()) continue;
      const double patient_until = with_room(job).since + m_mix.patience_seconds;
      if (patient_until > m_now) next = std::min(next, patient_until);
    }
    return next;
  }

  const DependentMix& m_mix;
  DependentGroup m_group;
  Supply m_supply;
  std::vector<Job> m_jobs;
  std::vector<Version> m_versions;
  std::vector<std::uint32_t> m_free_versions;
  std::vector<std::uint32_t> m_kept;  ///< versions, by the store's places
  std::deque<std::uint32_t> m_queue;  ///< versions that are drawn, for the loader
  std::deque<Prepared> m_in_flight;   ///< in the order of their ends
  DependentMixOutcome m_outcome;
  double m_now = 0;
  std::size_t m_running;
};

/// At least one of what was not none.
std::uint32_t divided(std::uint32_t count, double factor) {
  if (count == 0) return 0;
  return static_cast<std::uint32_t>(std::max<long long>(1, std::llround(count / factor)));
}

std::vector<SampleRange> divided(const std::vector<SampleRange>& ranges, double factor, std::uint32_t samples) {
  std::vector<SampleRange> result;
  for (const SampleRange& range : ranges) {
    const auto end = std::min(samples, static_cast<std::uint32_t>(std::llround(range.end / factor)));
    const auto first = std::min(end, static_cast<std::uint32_t>(std::llround(range.first / factor)));
    if (first < end) result.push_back({first, end});
  }
  if (result.empty() && !ranges.empty()) {
    const auto only = std::min(samples - 1, static_cast<std::uint32_t>(ranges.front().first / factor));
    result.push_back({only, only + 1});
  }
  return result;
}

}  // namespace

std::uint64_t draws_of(const DependentMix& mix) {
  std::uint64_t draws = 0;
  for (const DependentMix::Job& job : mix.jobs) draws += epoch_samples(mix, job) * job.epochs;
  return draws;
}

ScaledMix scaled_mix(const DependentMix& mix, std::uint64_t max_draws) {
  ScaledMix scaled{mix, 1};
  const double wanted = static_cast<double>(draws_of(mix)) / static_cast<double>(max_draws);
  scaled.factor = std::clamp(wanted, 1.0, std::max(1.0, static_cast<double>(mix.samples) / min_scaled_samples));
  if (scaled.factor == 1) return scaled;
  DependentMix& small = scaled.mix;
  small.samples = divided(mix.samples, scaled.factor);
  scaled.factor = static_cast<double>(mix.samples) / small.samples;
  small.in_flight = divided(mix.in_flight, scaled.factor);
  small.workers = divided(mix.workers, scaled.factor);
  small.store_places = divided(mix.store_places, scaled.factor);
  small.patience_seconds = mix.patience_seconds / scaled.factor;
  for (DependentMix::Job& job : small.jobs) {
    job.arrival_seconds /= scaled.factor;
    job.batch_size = divided(job.batch_size, scaled.factor);
    job.samples = divided(job.samples, scaled.factor, small.samples);
  }
  return scaled;
}

DependentMixOutcome simulate_dependent_mix(const DependentMix& mix, const std::function<void(double)>& progress) {
  check(mix);
  return Simulation(mix).run(progress);
}

}  // namespace dsanalyze
