#include "training_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "training_model.hpp"

namespace dsanalyze {
namespace {

constexpr int steps_of_search = 18;  // halvings: to a 250,000th of where was looked

/// The argument in [low, high] at which a falling function comes to `wanted`; an end where it does not.
double argument_of(double wanted, double low, double high, const std::function<double(double)>& falling) {
  if (falling(low) <= wanted) return low;
  if (falling(high) >= wanted) return high;
  for (int step = 0; step < steps_of_search; ++step) {
    const double middle = (low + high) / 2;
    (falling(middle) > wanted ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// The path of so many workers, of whom each sample needs that.
Path with_need(Path path, const TrainingPath::Need& need) {
  path.workers.count = need.workers;
  path.workers.cpu_seconds = need.cpu_seconds;
  path.workers.other_seconds = need.other_seconds;
  return path;
}

/// What a sample takes each of so many workers, whose loader was drained at that rate: what fewer workers need as long as the interval allows it.
/// Beyond it either computing or waiting takes another time, that whose half would gain more, as the other one hides behind it. Neither takes longer
/// than a worker has for a sample.
TrainingPath::Need need_of(const Path& path, const TrainingModel::Point& point, double cpu_seconds, double other_seconds) {
  const auto drained = [&](double cpu, double other) { return run(with_need(path, {point.workers, {cpu, 0}, {other, 0}}), path_seed, Pace::drains); };
  TrainingPath::Need need{point.workers, {cpu_seconds, point.error}, {other_seconds, point.error}};
  if (std::abs(drained(cpu_seconds, other_seconds) - point.samples_per_s) <= point.error * point.samples_per_s) return need;
  const double alone = path.ranks * std::max(point.workers, 1) / point.samples_per_s;
  if (drained(cpu_seconds / 2, other_seconds) >= drained(cpu_seconds, other_seconds / 2))
    need.cpu_seconds.value =
        argument_of(point.samples_per_s, 0, alone * path.workers.threads, [&](double seconds) { return drained(seconds, other_seconds); });
  else
    need.other_seconds.value = argument_of(point.samples_per_s, 0, alone, [&](double seconds) { return drained(cpu_seconds, seconds); });
  return need;
}

/// Of a worker: libraries that compute in threads of their own take more CPU time for a sample than it takes.
int worker_threads(const TrainingModel& model) {
  const auto point = std::ranges::find_if(model.prep, [](const TrainingModel::Point& each) { return each.workers > 0 && each.cpu_seconds; });
  if (point == model.prep.end()) return 1;
  const double used = *point->cpu_seconds * point->samples_per_s / (model.ranks * point->workers);
  return threads_of_cores(std::min(used, model.cores));
}

/// Of all numbers of workers whose drains tell something.
std::vector<TrainingPath::Need> needs_of(const TrainingModel& model, const Path& path) {
  constexpr double tells = 0.3;  // half of an interval over the rate: two or three windows have no less, and say nothing
  std::vector<TrainingPath::Need> needs;
  for (const TrainingModel::Point& point : model.prep) {
    require_moved(path, point.workers);
    if (point.error > tells && !needs.empty()) continue;
    const double alone = model.ranks * std::max(point.workers, 1) / point.samples_per_s;
    const double computed = alone * path.workers.threads;
    const double cpu = point.cpu_seconds.value_or(model.worker_cpu.value_or(alone));
    Path drained = path;
    if (point.workers == 0) drained.handover = {};
    const bool is_first = needs.empty() || needs.back().workers == 0;
    const double taken = std::min(cpu, is_first ? computed : cpu);
    const double other = is_first ? std::max(alone - cpu / path.workers.threads, 0.0) : needs.back().other_seconds.value;
    // Workers that wait for cores wait for nothing else, as far as is known.
    const bool by_cores =
        is_first && run(with_need(drained, {point.workers, {taken, 0}, {}}), path_seed, Pace::drains) <= point.samples_per_s * (1 + point.error);
    needs.push_back(need_of(drained, point, taken, by_cores ? 0 : other));
  }
  return needs;
}

/// Steps and hand-over as they were measured. A process that rests for most of a step waits for what an accelerator would: what it computes is the
/// host's, and no accelerator makes it shorter.
Path measured_path(const TrainingModel& model) {
  constexpr double mostly = 0.5;  // of a core
  Path path;
  path.ranks = model.ranks;
  path.cores = {model.cores, model.slice_seconds};
  path.workers.count = model.workers;
  path.workers.prefetch = model.prefetch;
  path.workers.threads = worker_threads(model);
  Path::Steps& steps = path.steps;
  steps.samples = std::max(model.step_samples / model.ranks, 1.0);
  steps.seconds = {steps.samples * model.ranks / model.ingestion, model.ingestion_error};
  if (model.training_cpu && model.shares_cores)
    steps.threads = std::min({*model.training_cpu * model.ingestion / model.ranks, model.cores, static_cast<double>(most_moved_threads)});
  steps.threads_scale = steps.threads > mostly;
  steps.host_seconds = steps.threads_scale ? model.outside_seconds : std::max(model.outside_seconds, steps.threads * steps.seconds.value);
  steps.goes_ahead = !model.shares_cores;
  path.handover = {model.thread_cpu * steps.samples, std::max(model.take_over - model.thread_cpu, 0.0) * steps.samples};
  return path;
}

/// How often a step needs a core again: the more often, the longer it takes beside busy workers.
int wakes_of(Path path, double busy_rate) {
  constexpr int most_wakes = most_parts;
  for (path.steps.wakes = 1; path.steps.wakes < most_wakes; ++path.steps.wakes)
    if (run(path, path_seed, Pace::busy) <= busy_rate) break;
  return path.steps.wakes;
}

}  // namespace

int most_moved_workers(const Path& path) {
  constexpr double most_batches = 65'536;  // that lie ready, with a place each
  Path alone = path;
  alone.workers.count = 0;
  const double all = std::min(most_batches / std::max(path.workers.prefetch, 1), (most_moved_threads - moved_threads(alone)) / path.workers.threads);
  return static_cast<int>(std::max(std::floor(all / path.ranks), -1.0));
}

void require_moved(const Path& path, int workers) {
  if (workers > most_moved_workers(path))
    throw UsageError(
        fmt::format("{} workers in each of {} ranks, with {} batches ahead and {} threads in a step, are more than the prediction moves one "
                    "by one: ask for fewer",
                    workers, path.ranks, path.workers.prefetch, threads_of_cores(path.steps.threads)));
}

Path with_workers(const TrainingPath& known, int workers) {
  const std::vector<TrainingPath::Need>& needs = known.needs;
  TrainingPath::Need need = needs.back();
  const auto after = std::ranges::find_if(needs, [workers](const auto& each) { return each.workers >= workers; });
  if (after != needs.end() && (after == needs.begin() || after->workers == workers)) {
    need = *after;
  } else if (after != needs.end() || needs.size() > 1) {
    const auto& high = after != needs.end() ? *after : needs.back();
    const auto& low = after != needs.end() ? *(after - 1) : *(needs.end() - 2);
    need = high;
    if (low.workers > 0) {
      const double part = static_cast<double>(workers - low.workers) / (high.workers - low.workers);
      need.other_seconds.value = std::max(std::lerp(low.other_seconds.value, high.other_seconds.value, part), 0.0);
      need.cpu_seconds.value = std::max(std::lerp(low.cpu_seconds.value, high.cpu_seconds.value, std::min(part, 1.0)), 0.0);
      if (part > 1) need.other_seconds.value = std::max(need.other_seconds.value, std::min(high.other_seconds.value, low.other_seconds.value));
    }
  }
  need.workers = workers;
  Path path = with_need(known.found, need);
  path.handover = workers > 0 ? known.from_workers : Path::Handover{known.in_turn_seconds, 0};
  if (workers == 0 && needs.front().workers > 0) {
    constexpr double unlike_a_worker = 0.1;  // of a sample's time: a judgement, where P without workers was not measured
    const double least = unlike_a_worker * path.workers.cpu_seconds.value;
    path.workers.cpu_seconds.value = std::max(path.workers.cpu_seconds.value - known.sent_cpu_seconds, least);
    path.workers.cpu_seconds.error = std::hypot(path.workers.cpu_seconds.error, unlike_a_worker);
  }
  return path;
}

TrainingPath path_of(const TrainingModel& model) {
  TrainingPath known;
  Path& path = known.found;
  path = measured_path(model);
  require_moved(path, model.workers);
  known.sent_cpu_seconds = model.thread_cpu;
  known.from_workers = path.handover;
  known.needs = needs_of(model, path);
  const double own = half_width(model.ci95_found, model.found);
  const double rate = model.from_memory > 0 ? model.from_memory : model.found;
  const bool without_storage = model.waits_for_storage && model.from_memory <= 0;  // which is not in this path
  if (model.busy > 0 && model.workers > 0 && !path.steps.goes_ahead) {
    path.steps.wakes = wakes_of(with_workers(known, model.workers), model.busy);
  } else if (model.workers == 0 && !without_storage) {
    Path as_found = with_workers(known, 0);
    known.in_turn_seconds = argument_of(rate, 0, model.step_samples / rate, [&](double seconds) {
      as_found.handover.cpu_seconds = seconds;
      return run(as_found, path_seed);
    });
  }
  // The next run differs from this one as this one's windows do, and by what the path does not explain of it.
  known.unexplained = without_storage ? own : std::hypot(run(with_workers(known, model.workers), path_seed) / rate - 1, own);
  return known;
}

}  // namespace dsanalyze
