#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text/units.hpp"
#include "core/records/rate_text.hpp"
#include "training_model.hpp"
#include "training_supply.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

constexpr double least_gain = 1.1;  ///< that is worth another number of workers: a judgement, as the documents say
constexpr std::size_t most_combined = 10'000;

/// What no answer of a launched training can have, with the reason.
void refuse_unmeasured(const TrainingModel& model, const WhatIfQuestion& question) {
  const auto refuse = [](bool given, const char* option, const std::string& reason) {
    if (given) throw UsageError(fmt::format("{}: {}", option, reason));
  };
  const std::string storage =
      model.epoch_unknown ? epoch_unknown_text
                          : "what storage [S] and memory [C] supply to this training is not in the profile (its findings say why), so nothing can be "
                            "said of another cache or disk. Profile its dataset with dsanalyze's own loader (dsanalyze profile DATASET), which "
                            "measures them";
  refuse(!model.storage && !question.cache_sizes.empty(), "--cache-size", storage);
  refuse(!model.storage && !question.storage.empty(), "--storage", storage);
  refuse(!model.storage && !question.orders.empty(), "--order", storage);
  for (const auto& asked : question.storage) whatif::require_positive(asked.bytes_per_s.value_or(asked.factor.value_or(0)), "--storage");
  const std::string others =
      "a profile of a launched training answers --workers, --cores, --accelerator-speed, --cache-size, --storage and --order; this belongs to "
      "profiles of a dataset (dsanalyze profile DATASET)";
  refuse(!question.accelerators.empty(), "--accelerators", others);
  refuse(!question.batch_sizes.empty(), "--batch-size", others);
  refuse(!question.jobs.empty(), "--jobs", others);
  refuse(!question.shares.empty(), "--share", others);
  refuse(!question.servers.empty(), "--servers", others);
  refuse(!question.partitions.empty(), "--partition", others);
  refuse(!question.balances.empty(), "--balance-from", others);
  refuse(!question.scopes.empty(), "--storage-scope", others);
  refuse(!question.networks.empty(), "--network", others);
  refuse(!question.caches.empty(), "--cache", others);
  refuse(!question.request_sizes.empty(), "--request-size", others);
  refuse(!question.concurrencies.empty(), "--io-depth", others);
  refuse(!question.transfers.empty(), "--transfer", others);
  refuse(!question.prep_places.empty(), "--prep", others);
  for (const std::string& what : question.find) {
    if (what == "accelerators")
      throw UsageError("--find accelerators: a profile of a launched training answers --find workers, cores, cache and storage");
    refuse(!model.storage && (what == "cache" || what == "storage"), what == "cache" ? "--find cache" : "--find storage", storage);
  }
}

WhatIfAnswer answer_of(const TrainingModel& model, const TrainingChange& change) {
  const TrainingRates rates = rates_of(model, change);
  WhatIfAnswer answer;
  answer.change.workers = change.workers;
  answer.change.cores = change.cores;
  answer.change.accelerator_speed = change.speed;
  if (change.cached) {
    answer.change.cache_fraction = *change.cached;
    answer.change.cache_bytes = static_cast<Bytes>(std::llround(*change.cached * static_cast<double>(model.storage->dataset_bytes)));
  }
  answer.change.storage_bytes_per_s = change.storage_bytes_per_s;
  answer.change.storage_factor = change.storage_factor;
  if (change.order) answer.change.order = order_kind_name(*change.order);
  if (rates.storage) {
    answer.storage = *rates.storage;
    // C was measured with as many reads in flight as there are workers.
    answer.cache = change.workers.value_or(model.workers) == model.workers ? model.storage->cache_rate : 0;
    if (answer.cache > 0) answer.fetch = 1 / (rates.miss_fraction / answer.storage + (1 - rates.miss_fraction) / answer.cache);
  }
  answer.ingestion = rates.ingestion;
  answer.prep = rates.prep;
  answer.samples_per_s = rates.samples_per_s;
  answer.ci95_samples_per_s = rates.ci95;
  if (model.epoch_samples) answer.epoch_seconds = *model.epoch_samples / rates.samples_per_s;
  answer.bottleneck = rates.bottleneck;
  answer.detail = rates.detail;
  answer.too_close = rates.too_close;
  answer.extrapolation = rates.extrapolation;
  answer.stalls.compute = std::min(rates.samples_per_s / rates.ingestion, 1.0);
  // The time that a sample takes more than with its data in memory is storage's.
  answer.stalls.fetch = std::clamp(1 - rates.samples_per_s / rates.from_memory, 0.0, 1 - answer.stalls.compute);
  answer.stalls.prep = 1 - answer.stalls.compute - answer.stalls.fetch;
  return answer;
}

std::vector<TrainingChange> changes_of(const TrainingModel& model, const WhatIfQuestion& question) {
  std::vector<double> cores;
  for (const auto& change : question.cores) cores.push_back(change.cores ? *change.cores : *change.factor * model.cores);
  const bool all = question.combine == WhatIfQuestion::Combine::every_combination;
  std::vector<TrainingChange> changes{{}};
  const auto extend = [&](const auto& values, const auto& set) {
    const std::size_t before = all ? changes.size() : 1;
    if (changes.size() + before * values.size() > most_combined)
      throw UsageError(fmt::format("the lists make more than {} combinations: shorten them, or leave out --all", format_number(most_combined)));
    for (const auto& value : values)
      for (std::size_t at = 0; at < before; ++at) {
        TrainingChange changed = changes[at];
        set(changed, value);
        changes.push_back(changed);
      }
  };
  extend(question.workers, [](TrainingChange& change, int workers) { change.workers = workers; });
  extend(cores, [](TrainingChange& change, double count) { change.cores = count; });
  extend(question.accelerator_speeds, [](TrainingChange& change, double speed) { change.speed = speed; });
  extend(question.cache_sizes,
         [&model](TrainingChange& change, const ByteAmount& size) { change.cached = size.share_of(model.storage->dataset_bytes); });
  extend(question.storage, [](TrainingChange& change, const WhatIfQuestion::StorageChange& storage) {
    change.storage_bytes_per_s = storage.bytes_per_s;
    change.storage_factor = storage.factor;
  });
  extend(question.orders, [](TrainingChange& change, OrderKind order) { change.order = order; });
  changes.erase(changes.begin());
  return changes;
}

constexpr double as_good = 0.98;

/// Numbers that are looked at: each up to 16, and then in steps of a sixteenth.
int next_number(int number) { return number + std::max(number / 16, 1); }

/// No further once half as many workers do as well.
std::vector<std::pair<int, TrainingReached>> tried_workers(const TrainingModel& model, int most) {
  constexpr int least = 4;
  constexpr double hardly_more = 1.005;  // times: a judgement
  std::vector<std::pair<int, TrainingReached>> tried;
  for (int workers = 0; workers <= most; workers = next_number(workers)) {
    tried.emplace_back(workers, reached(model, {.workers = workers}));
    const auto half = std::ranges::find_if(tried, [workers](const auto& one) { return one.first >= workers / 2; });
    if (workers >= least && tried.back().second.samples_per_s < hardly_more * half->second.samples_per_s) break;
  }
  return tried;
}

/// The fewest workers that come to within 2 % of the most that any number of them reaches, and do not have steps wait for prep where any number does
/// not.
int enough_workers(const TrainingModel& model, int most) {
  const auto tried = tried_workers(model, std::max(most, 0));
  const auto rate = [](const auto& one) { return one.second.samples_per_s; };
  const double best = rate(*std::ranges::max_element(tried, {}, rate));
  const auto nearly_best = [&](const auto& one) { return rate(one) >= as_good * best; };
  const auto enough = std::ranges::find_if(tried, [&](const auto& one) { return nearly_best(one) && one.second.bottleneck != "cpu"; });
  return enough != tried.end() ? enough->first : std::ranges::find_if(tried, nearly_best)->first;
}

std::string then_text(const TrainingModel& model, const TrainingRates& rates) {
  return fmt::format("the bottleneck then is {}{}, at {} samples/s", bottleneck_words(rates, model.shares_cores),
                     rates.too_close ? " (inconclusive: the intervals overlap)" : "", format_rate(rates.samples_per_s, rates.ci95));
}

WhatIfFound find_workers(const TrainingModel& model) {
  WhatIfFound found{"workers", std::nullopt, "workers of each rank", ""};
  const int workers = enough_workers(model, most_moved_workers(model.path.found));
  const TrainingRates rates = rates_of(model, {.workers = workers});
  if (rates.bottleneck == "cpu") {
    const char* const limit = rates.detail == "delivery" ? "the training processes, which take the batches over, are the limit"
                              : rates.detail == "cores" || rates.detail == "prep" ? "the cores are the limit"
                                                                                  : "more of them were not looked at";
    found.then =
        fmt::format("prep stays the bottleneck: {} workers reach {} samples/s [P], and {}", workers, format_rate(rates.prep, rates.ci95_prep), limit);
    return found;
  }
  found.value = workers;
  found.then = then_text(model, rates);
  return found;
}

WhatIfFound find_cores(const TrainingModel& model) {
  WhatIfFound found{"cores", std::nullopt, "cores", ""};
  // With a core for each thread no other core changes anything.
  const double most = moved_threads(with_workers(model.path, model.workers));
  for (int cores = 1; cores <= most; cores = next_number(cores)) {
    if (reached(model, {.cores = cores}).bottleneck == "cpu") continue;
    found.value = cores;
    found.then = then_text(model, rates_of(model, {.cores = cores}));
    return found;
  }
  const bool workers_alone = rates_of(model, {.workers = enough_workers(model, most_moved_workers(model.path.found))}).bottleneck != "cpu";
  found.then = fmt::format("with {} workers prep stays the bottleneck: ask for {}", model.workers,
                           workers_alone ? "--find workers" : "more of both (--all --workers LIST --cores LIST)");
  return found;
}

/// The least value for which the training is as fast as with its data in memory, within 2 %: between `low`, which is not enough, and `high`.
template <typename Change>
double least_enough(const TrainingModel& model, double wanted, double low, double high, const Change& change) {
  constexpr int halvings = 20;
  for (int i = 0; i < halvings; ++i) {
    const double middle = std::sqrt(low * high);
    (reached(model, change(middle)).samples_per_s >= as_good * wanted ? high : low) = middle;
  }
  return high;
}

WhatIfFound find_cache(const TrainingModel& model) {
  WhatIfFound found{"cache", std::nullopt, "of the dataset", ""};
  const auto change = [](double cached) { return TrainingChange{.cached = cached}; };
  const double wanted = reached(model, change(1)).samples_per_s;
  constexpr double least = 1e-3;
  found.value = reached(model, change(least)).samples_per_s >= as_good * wanted ? 0 : least_enough(model, wanted, least, 1, change);
  found.then = then_text(model, rates_of(model, change(*found.value)));
  return found;
}

WhatIfFound find_storage(const TrainingModel& model) {
  WhatIfFound found{"storage", std::nullopt, "bytes/s", ""};
  const auto change = [](double rate) { return TrainingChange{.storage_bytes_per_s = rate}; };
  const TrainingModel::Storage& storage = *model.storage;
  if (miss_fraction_of(model, {}) <= 0) {
    found.value = 0;
    found.then = "its data fits in the page cache: after the first epoch nothing comes from storage";
    return found;
  }
  const double wanted = reached(model, {.cached = 1}).samples_per_s;
  const double slowest = storage.bytes_per_sample;
  constexpr double widest = 1e12;
  if (reached(model, change(widest)).samples_per_s < as_good * wanted) {
    found.then = "no rate of storage removes the stall";
    return found;
  }
  found.value = least_enough(model, wanted, slowest, widest, change);
  found.then = then_text(model, rates_of(model, change(*found.value)));
  return found;
}

WhatIfFound find_one(const TrainingModel& model, const std::string& what) {
  if (what == "workers") return find_workers(model);
  if (what == "cores") return find_cores(model);
  return what == "cache" ? find_cache(model) : find_storage(model);
}

/// Whether the training as found read another part of its data from storage than it will in the long run.
bool starts_unsteady(const TrainingModel& model) {
  constexpr double apart = 0.05;
  return model.storage && std::abs(model.storage->found_fraction - miss_fraction_of(model, {})) > apart;
}

void find_unsteady_start(const TrainingModel& model, WhatIfResult& result) {
  if (!starts_unsteady(model)) return;
  const TrainingModel::Storage& storage = *model.storage;
  const double misses = miss_fraction_of(model, {});
  result.findings.push_back(
      {"as-found-not-steady", Finding::Severity::info,
       fmt::format(
           "While the training was measured as found, {:.0f} % of its bytes came from storage; in the long run it is {:.0f} %, as an epoch reads "
           "{} and the page cache may use {}. The answers, the one without a change too, are for the long run.",
           100 * storage.found_fraction, 100 * misses, format_bytes(storage.dataset_bytes), format_bytes(storage.page_cache_bytes))});
}

void find_idle_storage(const TrainingModel& model, const WhatIfQuestion& question, WhatIfResult& result) {
  if (question.storage.empty() || miss_fraction_of(model, {}) > 0) return;
  result.findings.push_back(
      {"storage-not-read", Finding::Severity::info,
       fmt::format("An epoch reads {}, which fits in the page cache ({}): after the first epoch nothing comes from storage, and another one "
                   "changes nothing. With less memory (--cache-size) it does.",
                   format_bytes(model.storage->dataset_bytes), format_bytes(model.storage->page_cache_bytes))});
}

void find_order_limits(const WhatIfQuestion& question, WhatIfResult& result) {
  if (std::ranges::count(question.orders, OrderKind::shards) == 0) return;
  result.findings.push_back(
      {"shards-not-read", Finding::Severity::info,
       "In shards, samples are read at least as fast as from files of their own. The answer has the latter, so it is a lower bound. What reading a "
       "shard's members costs the CPU is not in it: convert the dataset, and profile the script that reads it (docs/datasets.md)."});
}

void find_problems(const TrainingModel& model, WhatIfResult& result) {
  using Severity = Finding::Severity;
  find_unsteady_start(model, result);
  if (model.waits_for_storage && !model.storage)
    result.findings.push_back(
        {"storage-not-measured", Severity::warning,
         fmt::format("The training as found waits for storage, and {} is not in the profile: the answers are for data in memory, and the low ends of "
                     "their intervals for storage that supplies no more than as found.",
                     model.epoch_unknown ? "what an epoch reads" : "its rate [S]")});
  const WhatIfAnswer& base = result.answers.front();
  for (WhatIfAnswer& each : result.answers) each.speedup = each.samples_per_s / base.samples_per_s;
  const bool as_found = std::ranges::count(result.findings, "as-found-not-steady", &Finding::code) == 0;
  if (as_found && !base.ci95_samples_per_s.overlaps(model.ci95_found))
    result.findings.push_back(
        {"rates-do-not-explain", Severity::warning,
         fmt::format("As found, the training reached {} samples/s; the measured rates predict {}. Expect changed ones to differ as much.",
                     format_rate(model.found, model.ci95_found), format_rate(base.samples_per_s, base.ci95_samples_per_s))});
  if (auto finding = whatif::far_extrapolation_finding(std::ranges::max(result.answers, {}, &WhatIfAnswer::extrapolation).extrapolation))
    result.findings.push_back(std::move(*finding));
}

}  // namespace

WhatIfResult answer(const TrainingModel& model, const WhatIfQuestion& question) {
  refuse_unmeasured(model, question);
  WhatIfResult result;
  result.tool = this_tool();
  result.model =
      "path of a launched training, moved batch by batch: workers fetch and prepare in turn, share the cores with the training's own process, and "
      "hand "
      "over in order; without workers they take turns; 32 draws of the measured values; the time between epochs is left out";
  result.answers.push_back(answer_of(model, {}));
  result.rates = {model.ingestion, result.answers.front().prep, 0, 0};
  for (const TrainingChange& change : changes_of(model, question)) result.answers.push_back(answer_of(model, change));
  std::stable_sort(result.answers.begin() + 1, result.answers.end(),
                   [](const WhatIfAnswer& left, const WhatIfAnswer& right) { return left.samples_per_s > right.samples_per_s; });
  const WhatIfAnswer& base = result.answers.front();
  result.attained = ProfileResult::Attained{model.found, model.ci95_found, base.samples_per_s, base.ci95_samples_per_s, {}};
  for (const std::string& what : question.find) result.found.push_back(find_one(model, what));
  if (!question.find.empty() && result.answers.size() > 1)
    result.findings.push_back({"find-alone", Finding::Severity::info,
                               "What --find found is for the training as it is otherwise, not beside the changes that were asked for: those have "
                               "answers of their own."});
  find_problems(model, result);
  if (model.storage) {
    find_idle_storage(model, question, result);
    find_order_limits(question, result);
  }
  return result;
}

std::optional<SteadyRecord> steady_of(const TrainingModel& model) {
  if (!starts_unsteady(model)) return std::nullopt;
  const WhatIfAnswer steady = answer_of(model, {});
  return SteadyRecord{miss_fraction_of(model, {}), steady.samples_per_s, steady.ci95_samples_per_s, steady.stalls.fetch};
}

std::optional<FixRecord> fix_of(const TrainingModel& model) {
  const int measured = std::max(model.prep.back().workers, 1);
  const int most = std::min(most_moved_workers(model.path.found), model.most_workers.value_or(static_cast<int>(most_extrapolation) * measured));
  const int workers = enough_workers(model, most);
  if (workers == model.workers) return std::nullopt;
  const TrainingRates rates = rates_of(model, {.workers = workers});
  if (rates.ci95.low <= model.ci95_found.high) return std::nullopt;
  // What other programs cost the training as found is nothing that workers gain.
  const double unchanged = rates_of(model, {}).samples_per_s;
  if (rates.samples_per_s < least_gain * std::max(unchanged, model.found)) return std::nullopt;
  FixRecord fix;
  fix.workers = workers;
  fix.samples_per_s = rates.samples_per_s;
  fix.ci95_samples_per_s = rates.ci95;
  fix.speedup = rates.samples_per_s / unchanged;
  fix.next = bottleneck_words(rates, model.shares_cores);
  fix.too_close = rates.too_close;
  if (rates.too_close && rates.detail != "storage") fix.next = fmt::format("prep or {}", model.shares_cores ? "compute" : "GPU");
  return fix;
}

bool gains_over_epochs(const ProfileResult& profile, const FixRecord& fix) {
  const RunRecord* const full = profile.run("full");
  const auto& between = profile.waits->between_epochs;
  if (profile.loader->persistent || !between || !between->steps || full == nullptr) return true;
  const WorkerPoint* tried = nullptr;  // With no more workers, or else the fewest.
  for (const WorkerPoint& point : profile.prep_by_workers)
    if (point.start_seconds && point.workers > 0 && (tried == nullptr || point.workers <= fix.workers)) tried = &point;
  if (tried == nullptr) return true;
  const double start = *tried->start_seconds * std::max(static_cast<double>(fix.workers) / tried->workers, 1.0);
  const double steps = static_cast<double>(*between->steps) * profile.waits->step_seconds;
  const double others = between->seconds - between->data_seconds;
  return steps + between->seconds >= least_gain * (steps * full->samples_per_s / fix.samples_per_s + others + start);
}

}  // namespace dsanalyze
