#include "training_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "models/whatif/training_cores.hpp"
#include "models/whatif/training_supply.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t path_seed = 1;
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
TrainingPath::Need need_of(const Path& path, const TrainingModel::Point& point, double cpu_seconds, double other_seconds) {
  const auto drained = [&](double cpu, double other) { return run(with_need(path, {point.workers, {cpu, 0}, {other, 0}}), path_seed, Pace::drains); };
  const double rate = drained(cpu_seconds, other_seconds);
  const double least = point.samples_per_s * (1 - point.error);
  const double most = point.samples_per_s * (1 + point.error);
  double cpu = cpu_seconds;
  double other = other_seconds;
  const double longest = path.ranks * std::max(point.workers, 1) / point.samples_per_s;
  if (rate > most) {
    other =
        argument_of(point.samples_per_s, other_seconds, std::max(longest, 2 * other_seconds), [&](double seconds) { return drained(cpu, seconds); });
  } else if (rate < least) {
    other = argument_of(point.samples_per_s, 0, other_seconds, [&](double seconds) { return drained(cpu, seconds); });
    if (other <= 0) cpu = argument_of(point.samples_per_s, 0, cpu_seconds, [&](double seconds) { return drained(seconds, 0); });
  }
  return {point.workers, {cpu, point.error}, {other, point.error}};
}

/// Each of them is moved by itself.
void require_size(double ranks, double workers, double prefetch) {
  constexpr double most_processes = 128;
  constexpr double most_batches = 8'192;
  if (ranks * workers > most_processes || ranks * workers * prefetch > most_batches)
    throw UsageError(
        fmt::format("--model path: {} ranks with {} workers each and {} batches ahead are more than are moved one by one ({} workers and "
                    "{} batches): leave out --model",
                    ranks, workers, prefetch, most_processes, most_batches));
}

/// Straight between two numbers of workers; beyond the last, what else than computing a sample takes grows on as it did before.
TrainingPath::Need need_at(const std::vector<TrainingPath::Need>& needs, int workers) {
  TrainingPath::Need need = needs.back();
  const auto after = std::ranges::find_if(needs, [workers](const auto& each) { return each.workers >= workers; });
  if (after != needs.end() && (after == needs.begin() || after->workers == workers)) {
    need = *after;
  } else if (after != needs.end() ? true : needs.size() > 1) {
    const auto& high = after != needs.end() ? *after : needs.back();
    const auto& low = after != needs.end() ? *(after - 1) : *(needs.end() - 2);
    if (low.workers > 0) {
      const double part = static_cast<double>(workers - low.workers) / (high.workers - low.workers);
      need.other_seconds.value = std::max(std::lerp(low.other_seconds.value, high.other_seconds.value, part), 0.0);
      need.cpu_seconds.value = std::max(std::lerp(low.cpu_seconds.value, high.cpu_seconds.value, std::min(part, 1.0)), 0.0);
      if (part > 1) need.other_seconds.value = std::max(need.other_seconds.value, std::min(high.other_seconds.value, low.other_seconds.value));
    } else {
      need = high;
    }
  }
  need.workers = workers;
  return need;
}

Path changed(const TrainingModel& model, const TrainingPath& known, const TrainingChange& change, double* misses) {
  const int workers = change.workers.value_or(model.workers);
  require_size(model.ranks, workers, known.found.workers.prefetch);
  Path path = with_need(known.found, need_at(known.needs, workers));
  path.handover = workers > 0 ? known.from_workers : Path::Handover{known.in_turn_seconds, 0};
  if (workers == 0 && known.needs.front().workers > 0) {
    constexpr double unlike_a_worker = 0.1;  // of a sample's time: a judgement, where P without workers was not measured
    path.workers.cpu_seconds.value = std::max(path.workers.cpu_seconds.value - known.sent_cpu_seconds, 0.0);
    path.workers.cpu_seconds.error = std::hypot(path.workers.cpu_seconds.error, unlike_a_worker);
  }
  path.cores.count = change.cores.value_or(model.cores);
  path.steps.speed = change.speed.value_or(1);
  if (model.storage) {
    const TrainingModel::Storage& storage = *model.storage;
    ChangedSupply supplied = changed_supply(storage, change);
    path.storage.curve = std::move(supplied.curve);
    path.storage.most = supplied.most;
    path.storage.error = storage.error;
    const double here = static_cast<double>(storage.page_cache_bytes) / static_cast<double>(storage.dataset_bytes);
    path.storage.miss_fraction =
        storage.misses.at(static_cast<std::size_t>(change.order.value_or(storage.order))).storage_share(change.cached.value_or(here));
  }
  if (misses != nullptr) *misses = path.storage.miss_fraction;
  return path;
}

/// The measured values as they may be, too.
Path drawn(Path path, std::uint64_t number) {
  if (number == 0) return path;
  RandomStream random(path_seed * 1'000'003 + number);
  constexpr double of_half_width = 1 / 1.96;
  const auto factor = [&](double error) { return std::max(1 + random.normal() * error * of_half_width, 0.05); };
  const double prep = factor(path.workers.cpu_seconds.error);
  path.workers.cpu_seconds.value *= prep;
  path.workers.other_seconds.value *= prep;
  const double steps = factor(path.steps.seconds.error);
  path.steps.seconds.value *= steps;
  path.steps.host_seconds *= steps;
  const double storage = factor(path.storage.error);
  for (SupplyPoint& point : path.storage.curve) point.samples_per_s *= storage;
  return path;
}

struct Doubled {
  const char* resource;
  const char* detail;
  Path (*path)(Path path);
};

constexpr std::array doubled_stations{
    Doubled{"gpu", "accelerator",
            [](Path path) {
              path.steps.seconds.value /= 2;
              path.steps.host_seconds /= 2;
              return path;
            }},
    Doubled{"cpu", "prep",
            [](Path path) {
              path.workers.cpu_seconds.value /= 2;
              path.workers.other_seconds.value /= 2;
              return path;
            }},
    Doubled{"io", "storage",
            [](Path path) {
              for (SupplyPoint& point : path.storage.curve) point.samples_per_s *= 2;
              path.storage.most *= 2;
              return path;
            }},
    Doubled{"cpu", "delivery",
            [](Path path) {
              path.handover.cpu_seconds /= 2;
              path.handover.other_seconds /= 2;
              return path;
            }},
    Doubled{"cpu", "cores",
            [](Path path) {
              path.cores.count *= 2;
              return path;
            }},
};

/// The station whose doubling raises the rate most; `clear`: by more than the next does.
std::size_t bottleneck_of(const Path& path, std::uint64_t number, bool* clear) {
  std::array<double, doubled_stations.size()> gains{};
  const double rate = run(path, path_seed + number);
  for (std::size_t at = 0; at < doubled_stations.size(); ++at) gains[at] = run(doubled_stations[at].path(path), path_seed + number) / rate;
  constexpr double more_cores = 1.05;  // a judgement: that much more have cores to gain, to be named. Faster prep needs fewer cores, too.
  gains.back() /= more_cores;
  const auto most = static_cast<std::size_t>(std::ranges::max_element(gains) - gains.begin());
  if (clear != nullptr) {
    constexpr double hardly = 0.02;  // of the rate: runs of other seeds differ by as much
    *clear = true;
    for (std::size_t at = 0; at < gains.size(); ++at)
      if (at != most && at + 1 != gains.size() && gains[at] > gains[most] - hardly) *clear = false;
  }
  return most;
}

constexpr int most_wakes = 24;  // as many as a run has parts of a step (most_parts)

/// Of all numbers of workers whose drains tell something.
std::vector<TrainingPath::Need> needs_of(const ProfileResult& profile, const TrainingModel& model, const Path& path) {
  constexpr double tells = 0.3;  // half of an interval over the rate: two or three windows have no less, and say nothing
  std::vector<TrainingPath::Need> needs;
  for (const TrainingModel::Point& point : model.prep) {
    if (point.error > tells && !needs.empty()) continue;
    const double alone = model.ranks * std::max(point.workers, 1) / point.samples_per_s;
    const auto measured = std::ranges::find(profile.prep_by_workers, point.workers, &WorkerPoint::workers);
    double cpu = model.worker_cpu.value_or(alone);
    if (measured != profile.prep_by_workers.end() && point.workers > 0) cpu = measured->workers_seconds_per_sample.value_or(cpu);
    Path drained = path;
    if (point.workers == 0) drained.handover = {};
    const bool is_first = needs.empty() || needs.back().workers == 0;
    needs.push_back(
        need_of(drained, point, std::min(cpu, is_first ? alone : cpu), is_first ? std::max(alone - cpu, 0.0) : needs.back().other_seconds.value));
  }
  return needs;
}

}  // namespace

namespace {

/// Steps and hand-over as they were measured. A process that rests for most of a step waits for what an accelerator would: what it computes is the
/// host's, and no accelerator makes it shorter.
Path measured_path(const ProfileResult& profile, const TrainingModel& model) {
  constexpr double mostly = 0.5;
  Path path;
  path.ranks = model.ranks;
  path.cores = {model.cores, slice_on(profile.host.cores_online)};
  path.workers.count = model.workers;
  path.workers.prefetch = profile.loader->prefetch.value_or(2);
  Path::Steps& steps = path.steps;
  steps.samples = std::max(model.step_samples / model.ranks, 1.0);
  steps.seconds = {model.step_samples / model.ingestion, model.ingestion_error};
  if (model.training_cpu && model.shares_cores) steps.threads = *model.training_cpu * model.ingestion / model.ranks;
  steps.threads_scale = steps.threads > mostly;
  steps.host_seconds = steps.threads_scale ? model.outside_seconds : std::max(model.outside_seconds, steps.threads * steps.seconds.value);
  steps.goes_ahead = !profile.host.accelerator_shares_cores;
  path.handover = {model.thread_cpu * steps.samples, std::max(model.take_over - model.thread_cpu, 0.0) * steps.samples};
  return path;
}

/// How often a step needs a core again: the more often, the longer it takes beside busy workers.
int wakes_of(Path path, double busy_rate) {
  for (path.steps.wakes = 1; path.steps.wakes < most_wakes; ++path.steps.wakes)
    if (run(path, path_seed, Pace::busy) <= busy_rate) break;
  return path.steps.wakes;
}

}  // namespace

TrainingPath training_path(const ProfileResult& profile, const TrainingModel& model) {
  require_size(model.ranks, model.workers, profile.loader->prefetch.value_or(0));
  TrainingPath known;
  Path& path = known.found;
  path = measured_path(profile, model);
  known.sent_cpu_seconds = model.thread_cpu;
  known.from_workers = path.handover;
  known.needs = needs_of(profile, model, path);
  Path as_found = with_need(path, need_at(known.needs, model.workers));
  if (const RunRecord* const busy = profile.run("busy"); busy != nullptr && model.workers > 0) {
    as_found.steps.wakes = path.steps.wakes = wakes_of(as_found, busy->samples_per_s);
  } else if (model.workers == 0) {
    as_found.handover = {};
    known.in_turn_seconds = argument_of(model.found, 0, path.steps.seconds.value, [&](double seconds) {
      as_found.handover.cpu_seconds = seconds;
      return run(as_found, path_seed);
    });
    as_found.handover.cpu_seconds = known.in_turn_seconds;
  }
  const RunRecord* const cached = profile.run("cached");
  const double rate = model.storage && cached != nullptr ? cached->samples_per_s : model.found;
  const double brings = run(as_found, path_seed);
  // The next run differs from this one as this one's windows do, and by what the path does not explain of it.
  if (rate > 0) known.unexplained = std::hypot(brings / rate - 1, half_width(model.ci95_found, model.found));
  return known;
}

TrainingRates rates_by_path(const TrainingModel& model, const TrainingPath& known, const TrainingChange& change) {
  TrainingRates rates;
  const Path path = changed(model, known, change, &rates.miss_fraction);
  constexpr std::uint64_t draws = 32;
  std::vector<double> values;
  for (std::uint64_t number = 0; number < draws; ++number) values.push_back(run(drawn(path, number), path_seed + number));
  const double mean_rate = mean(values);
  const double half = std::hypot(student_t95(draws - 1) * standard_deviation(values), mean_rate * std::hypot(known.unexplained, model.run_error));
  rates.samples_per_s = mean_rate;
  rates.ci95 = {std::max(mean_rate - half, 0.0), mean_rate + half};
  Path in_memory = path;
  in_memory.storage.miss_fraction = 0;
  rates.prep = run(path, path_seed, Pace::drains);
  rates.prep_from_memory = path.storage.miss_fraction > 0 ? run(in_memory, path_seed, Pace::drains) : rates.prep;
  const double prep_error = std::hypot(path.workers.cpu_seconds.error, model.run_error);
  rates.ci95_prep = {rates.prep * (1 - prep_error), rates.prep * (1 + prep_error)};
  const double handed_over = path.workers.count > 0 ? path.handover.cpu_seconds + path.handover.other_seconds : 0;
  rates.ingestion = path.steps.samples * path.ranks / (step_seconds(path.steps) + handed_over);
  const double step_error = std::hypot(path.steps.seconds.error, model.run_error);
  rates.ci95_ingestion = {rates.ingestion * (1 - step_error), rates.ingestion * (1 + step_error)};
  if (!path.storage.curve.empty())
    rates.storage = std::min(supply(path.storage.curve, path.ranks * std::max(path.workers.count, 1)), path.storage.most);
  bool clear = true;
  const std::size_t bottleneck = bottleneck_of(path, 0, &clear);
  rates.bottleneck = doubled_stations[bottleneck].resource;
  rates.detail = doubled_stations[bottleneck].detail;
  rates.too_close = !clear || model.disturbed;
  constexpr std::uint64_t looks = 4;
  for (std::uint64_t number = 1; number <= looks; ++number)
    rates.too_close |= std::string_view(doubled_stations[bottleneck_of(drawn(path, number), number, nullptr)].resource) != rates.bottleneck;
  const int most = std::max(model.prep.back().workers, 1);
  rates.extrapolation = std::max({1.0, static_cast<double>(path.workers.count) / most, path.cores.count / model.cores, path.steps.speed});
  return rates;
}

}  // namespace dsanalyze
