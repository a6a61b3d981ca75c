#include "job_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "core/depths.hpp"
#include "core/records/rate_text.hpp"
#include "models/simulate/job_mix_simulator.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

using MixAnswer = WhatIfJobMix::Answer;

constexpr std::uint64_t max_simulated_draws = 4'000'000;
constexpr double unknown_cores = 4;         ///< of prep
constexpr double unknown_concurrency = 16;  ///< of reads
constexpr double scale_to_tell = 4;
constexpr const char* by_closed_form = "closed form";
constexpr const char* by_simulator = "simulated";

/// The mix, and the configuration that it runs on.
struct MixCase {
  const RateModel& model;
  whatif::Setup setup;
  double prep = 0;   ///< P
  double fetch = 0;  ///< F of one sweep
  std::uint32_t samples = 0;
  std::vector<MixedJob> jobs;

  [[nodiscard]] double supply() const { return std::min(prep, fetch); }
};

std::uint32_t samples_of_dataset(const RateModel& model, const JobMixQuestion& question) {
  if (question.mix.samples) return *question.mix.samples;
  constexpr std::uint64_t max_samples = std::numeric_limits<std::uint32_t>::max() - 1;
  if (!model.dataset_samples)
    throw UsageError(fmt::format("{}: /samples: is missing, and the rates do not say how many samples the dataset has: give it, or --base samples=N",
                                 question.path));
  if (*model.dataset_samples == 0 || *model.dataset_samples > max_samples)
    throw UsageError(fmt::format("--job-mix: found a dataset of {} samples, expected 1 to {}", *model.dataset_samples, max_samples));
  return static_cast<std::uint32_t>(*model.dataset_samples);
}

MixedJob filled_in(const whatif::Setup& setup, const JobMixQuestion& question, std::size_t number, std::uint32_t samples) {
  const JobMix::Job& asked = question.mix.jobs[number];
  MixedJob job;
  if (asked.speed_ratio && !setup.ingestion)
    throw UsageError(
        fmt::format("{}: /jobs/{}/speed_ratio: is a ratio to G, the ingestion rate, which is not known: give samples_per_s", question.path, number));
  job.samples_per_s = asked.samples_per_s ? *asked.samples_per_s : *asked.speed_ratio * *setup.ingestion;
  job.arrival_seconds = asked.arrival_seconds;
  job.batch_size = asked.batch_size;
  job.epochs = asked.epochs;
  if (asked.subset.empty()) {
    job.samples = {{0, samples}};
    return job;
  }
  try {
    job.samples = parse_subset_ranges(asked.subset, samples);
  } catch (const UsageError& error) {
    throw UsageError(subset_error(question.path, number, error.what()));
  }
  return job;
}

MixCase case_of(const RateModel& model, const WhatIfQuestion& lists, const JobMixQuestion& question, std::vector<Finding>& findings) {
  if (!lists.servers.empty()) throw UsageError("--servers: a job mix shares one server; leave it out");
  if (!lists.jobs.empty()) throw UsageError("--jobs: the job mix says which jobs there are; leave it out");
  WhatIfQuestion setup = lists;
  setup.shares.clear();
  for (const auto& steps : whatif::steps_of(model, setup, findings))
    if (steps.size() > 1) throw UsageError("--job-mix: is answered for one configuration: give one value of each other list");
  findings.clear();
  whatif::Asked asked = whatif::ask(model, setup);
  if (const auto reason = whatif::impossible(model, asked.variant)) throw UsageError(fmt::format("--job-mix: {}", *reason));
  findings = std::move(asked.findings);
  MixCase made{model, asked.variant.setup, asked.evaluation.prep.value, asked.evaluation.fetch.value, samples_of_dataset(model, question), {}};
  for (std::size_t number = 0; number < question.mix.jobs.size(); ++number)
    made.jobs.push_back(filled_in(made.setup, question, number, made.samples));
  return made;
}

double drawn_by(const MixedJob& job) { return static_cast<double>(count_of(job.samples)) * job.epochs; }

std::size_t fastest_of(std::span<const MixedJob> jobs) {
  return static_cast<std::size_t>(std::ranges::max_element(jobs, {}, &MixedJob::samples_per_s) - jobs.begin());
}

/// What follows from the jobs' completion times.
void add_up(const MixCase& mix, MixAnswer& answer) {
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  double completions = 0;
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const double completion = answer.jobs[i].completion_seconds;
    answer.jobs[i].samples_per_s = drawn_by(mix.jobs[i]) / completion;
    completions += completion;
    first = std::min(first, mix.jobs[i].arrival_seconds);
    last = std::max(last, mix.jobs[i].arrival_seconds + completion);
  }
  answer.mean_completion_seconds = completions / static_cast<double>(mix.jobs.size());
  answer.makespan_seconds = last - first;
}

MixAnswer independent_answer(const MixCase& mix) {
  MixAnswer answer;
  answer.method = by_closed_form;
  const std::vector<double> ends = independent_ends(mix.jobs, [&mix](std::uint32_t running) {
    whatif::Setup setup = mix.setup;
    setup.jobs = running;
    const whatif::Evaluation evaluation = whatif::bounds(mix.model, setup);
    return std::min(evaluation.prep.value, evaluation.fetch.value);
  });
  const std::size_t fastest = fastest_of(mix.jobs);
  double meanwhile = 0;
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const MixedJob& job = mix.jobs[i];
    answer.jobs.push_back({0, ends[i] - job.arrival_seconds, 1});
    const double both = std::min(ends[i], ends[fastest]) - std::max(job.arrival_seconds, mix.jobs[fastest].arrival_seconds);
    meanwhile += drawn_by(job) * std::max(0.0, both) / answer.jobs[i].completion_seconds;
  }
  answer.prepared_per_sample = 1;
  answer.prepared_per_fastest = meanwhile / drawn_by(mix.jobs[fastest]);
  add_up(mix, answer);
  return answer;
}

bool alike(const MixedJob& one, const MixedJob& other) {
  return one.samples == other.samples && one.batch_size == other.batch_size && one.epochs == other.epochs;
}

/// All read the same batches, from when the last has come.
MixAnswer coordinated_answer(const MixCase& mix) {
  MixAnswer answer;
  if (!std::ranges::all_of(mix.jobs, [&first = mix.jobs.front()](const MixedJob& job) { return alike(first, job); })) {
    answer.not_predicted = "jobs that go in step need one batch size, one number of epochs and the same samples";
    return answer;
  }
  double rate = mix.supply();
  double start = 0;
  for (const MixedJob& job : mix.jobs) {
    rate = std::min(rate, job.samples_per_s);
    start = std::max(start, job.arrival_seconds);
  }
  const double end = start + drawn_by(mix.jobs.front()) / rate;
  const double each = 1 / static_cast<double>(mix.jobs.size());
  for (const MixedJob& job : mix.jobs) answer.jobs.push_back({0, end - job.arrival_seconds, each});
  answer.method = by_closed_form;
  answer.prepared_per_sample = each;
  answer.prepared_per_fastest = 1;
  add_up(mix, answer);
  return answer;
}

MixAnswer simulated_mix_answer(const MixCase& mix, double staging, StagingPolicy policy, std::uint64_t seed,
                               const std::function<void(double)>& progress) {
  DependentMix whole;
  whole.samples = mix.samples;
  whole.prep_samples_per_s = mix.prep;
  whole.fetch_samples_per_s = mix.fetch;
  const double cores = std::clamp(mix.model.cores.value_or(unknown_cores), 1.0, 4096.0);
  whole.workers = static_cast<std::uint32_t>(std::lround(cores));
  whole.in_flight = dependent_in_flight(mix.model.fetch_concurrency.value_or(unknown_concurrency), cores);
  ProfileSettings settings;
  settings.share = JobSharing::dependent;
  whole.slots = static_cast<std::uint32_t>(batch_slots(settings));
  whole.store_places = static_cast<std::uint32_t>(staging * mix.samples);
  whole.policy = policy;
  whole.seed = seed;
  for (const MixedJob& job : mix.jobs) {
    const bool all = count_of(job.samples) == mix.samples;
    whole.jobs.push_back({job.samples_per_s, job.arrival_seconds, all ? std::vector<SampleRange>{} : job.samples, job.batch_size, job.epochs});
  }
  const ScaledMix scaled = scaled_mix(whole, max_simulated_draws);
  const DependentMixOutcome outcome = simulate_dependent_mix(scaled.mix, progress);

  MixAnswer answer;
  answer.method = by_simulator;
  answer.scale = scaled.factor;
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const DependentMixOutcome::Job& job = outcome.jobs[i];
    const auto drawn = static_cast<double>(job.drawn);
    answer.jobs.push_back({0, (job.end_seconds - job.start_seconds) * drawn_by(mix.jobs[i]) / drawn, job.prepared / drawn});
  }
  const auto drawn = static_cast<double>(outcome.drawn);
  const DependentMixOutcome::Job& fastest = outcome.jobs[fastest_of(mix.jobs)];
  answer.prepared_per_sample = static_cast<double>(outcome.prepared) / drawn;
  answer.prepared_per_fastest = static_cast<double>(fastest.prepared_while) / static_cast<double>(fastest.drawn);
  answer.from_store_fraction = static_cast<double>(outcome.from_store) / drawn;
  add_up(mix, answer);
  return answer;
}

void add_dependent(const MixCase& mix, const JobMixQuestion& question, const std::function<void(double)>& progress, std::vector<MixAnswer>& answers) {
  const std::vector<double> sizes = question.staging.empty() ? std::vector{0.0} : question.staging;
  const std::vector<StagingPolicy> policies = question.policies.empty() ? std::vector{StagingPolicy::refcnt} : question.policies;
  for (const double staging : sizes) {
    for (const StagingPolicy policy : policies) {
      if (staging == 0 && policy != policies.front()) continue;  // nothing is kept: the policy decides nothing
      MixAnswer& answer = answers.emplace_back(simulated_mix_answer(mix, staging, policy, question.seed, progress));
      answer.staging_fraction = staging;
      answer.staging_policy = enum_name(policy);
    }
  }
}

}  // namespace

std::vector<double> independent_ends(std::span<const MixedJob> jobs, const std::function<double(std::uint32_t)>& supply) {
  constexpr double all_but = 1e-12;
  std::vector<double> left;
  for (const MixedJob& job : jobs) left.push_back(drawn_by(job));
  std::vector<double> ends(jobs.size());
  std::vector<double> rates(jobs.size());
  double now = 0;
  while (true) {
    double next = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> running;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (left[i] <= 0) continue;
      if (jobs[i].arrival_seconds > now) {
        next = std::min(next, jobs[i].arrival_seconds);
      } else {
        running.push_back(i);
      }
    }
    if (running.empty() && std::isinf(next)) return ends;
    // The slowest first: each has an equal part of what is left, or what it needs.
    std::ranges::sort(running, {}, [&jobs](std::size_t i) { return jobs[i].samples_per_s; });
    double free = running.empty() ? 0 : supply(static_cast<std::uint32_t>(running.size()));
    for (std::size_t k = 0; k < running.size(); ++k) {
      const std::size_t i = running[k];
      rates[i] = std::min(jobs[i].samples_per_s, free / static_cast<double>(running.size() - k));
      free -= rates[i];
      next = std::min(next, now + left[i] / rates[i]);
    }
    for (const std::size_t i : running) {
      const double done = rates[i] * (next - now);
      left[i] = left[i] - done <= all_but * drawn_by(jobs[i]) ? 0 : left[i] - done;
      if (left[i] == 0) ends[i] = next;
    }
    now = next;
  }
}

WhatIfJobMix answer_job_mix(const RateModel& model, const WhatIfQuestion& setup, const JobMixQuestion& question, std::vector<Finding>& findings,
                            const std::function<void(double)>& progress) {
  const MixCase mix = case_of(model, setup, question, findings);
  WhatIfJobMix result;
  result.path = question.path;
  result.samples = mix.samples;
  result.prep = mix.prep;
  result.fetch = mix.fetch;
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    const MixedJob& job = mix.jobs[i];
    result.jobs.push_back({question.mix.jobs[i].name, job.samples_per_s, job.arrival_seconds, count_of(job.samples), job.batch_size, job.epochs});
  }
  for (const JobSharing share : question.shares.empty() ? std::vector{JobSharing::dependent} : question.shares) {
    const std::size_t before = result.answers.size();
    if (share == JobSharing::none) result.answers.push_back(independent_answer(mix));
    if (share == JobSharing::coordinated) result.answers.push_back(coordinated_answer(mix));
    if (share == JobSharing::dependent) add_dependent(mix, question, progress, result.answers);
    if (share == JobSharing::unified_producer)
      throw UsageError("--share unified-producer: is no answer of a job mix; pass none, coordinated or dependent");
    for (std::size_t i = before; i < result.answers.size(); ++i) result.answers[i].share = job_sharing_name(share);
  }
  const auto coarsest = std::ranges::max_element(result.answers, {}, &MixAnswer::scale);
  if (coarsest->scale >= scale_to_tell)
    findings.push_back({"job-mix-scaled", Finding::Severity::info,
                        fmt::format("The mix was simulated with a dataset, batches and a store {} times smaller: {} draws would take long.",
                                    format_number(std::round(coarsest->scale)),
                                    format_number(std::accumulate(mix.jobs.begin(), mix.jobs.end(), 0.0,
                                                                  [](double sum, const MixedJob& job) { return sum + drawn_by(job); })))});
  return result;
}

}  // namespace dsanalyze
