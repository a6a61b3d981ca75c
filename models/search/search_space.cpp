#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "core/device.hpp"
#include "models/whatif/whatif_parts.hpp"
#include "search_parts.hpp"

namespace dsanalyze::search {
namespace {

constexpr double bytes_per_gib = 1024.0 * 1024.0 * 1024.0;
constexpr double bytes_per_gb = 1e9;
constexpr double bytes_per_mb = 1e6;
constexpr std::size_t progress_steps = 20;
constexpr double no_difference = 1e-9;

/// How finely the lists are made. The exact values, at which a stage just keeps up, are in each of them.
struct Grain {
  double storage_factor;           ///< between one bandwidth and the next
  std::size_t cores_stride;        ///< of the usual numbers of cores, every which one is taken
  std::vector<double> fractions;   ///< of the dataset, cached
  std::size_t accelerator_counts;  ///< so many of the largest numbers of accelerators, and the largest known: a second server is bought when the
                                   ///< first is full
};
const std::vector<Grain>& grains() {
  constexpr std::size_t every = SIZE_MAX;
  static const std::vector<Grain> list{{1.5, 1, {0, 0.1, 0.25, 0.35, 0.5, 0.75, 1}, every},
                                       {2, 2, {0, 0.25, 0.5, 0.75, 1}, every},
                                       {4, 2, {0, 0.5, 1}, every},
                                       {1e9, 4, {0, 1}, every},
                                       {1e9, every, {0, 1}, 2}};
  return list;
}

/// One way to pay for storage, and the rate S that it brings.
struct StorageChoice {
  std::string kind;
  double bytes_per_s = 0;
  double samples_per_s = 0;
};

std::vector<StorageChoice> storage_choices(const PriceList& prices, const Base& base, double factor) {
  std::vector<StorageChoice> choices;
  for (const auto& [kind, storage] : prices.storage) {
    const double most = storage.most_bytes_per_s.value;
    const double included = storage.included_rate(base.dataset_bytes / bytes_per_gb);
    std::vector<double> rates;
    if (!storage.price_per_mb_per_s) {
      rates = {included};
    } else {
      const double least = included > 0 ? included : most / 64;
      double rate = least;
      while (rate < most) {
        rates.push_back(rate);
        rate *= factor;
      }
      rates.push_back(most);
    }
    for (const double rate : rates) {
      const StorageDeviceSpec device{rate, to_nanoseconds(storage.request_latency_seconds.value), static_cast<std::uint32_t>(storage.queue_depth)};
      choices.push_back({kind, rate, storage_device_rate(device, base.sample_bytes(), storage.queue_depth) / base.sample_bytes()});
    }
  }
  return choices;
}

struct AcceleratorChoice {
  std::string kind;
  int count = 0;
  double ingestion = 0;
};

std::vector<AcceleratorChoice> accelerator_choices(const SearchQuestion& question, const Base& base, std::size_t most_counts) {
  std::vector<AcceleratorChoice> choices;
  for (const auto& [kind, price] : question.prices.accelerators) {
    std::vector<int> counts = question.accelerators;
    if (counts.empty())
      for (int power = 1; power <= price.most; power *= 2)
        for (const int count : {power, power + power / 2})
          if (count <= price.most && (counts.empty() || count > counts.back())) counts.push_back(count);
    if (question.accelerators.empty() && counts.size() > most_counts) {
      // The largest that is not extrapolated far stays: an answer is not to rest on what was not measured where it need not.
      const double speed = price.relative_speed.value / base.measured_speed;
      const auto beyond = std::ranges::find_if(counts, [&](int count) { return count / base.accelerators * speed > most_extrapolation; });
      const auto least_dropped = counts.end() - static_cast<std::ptrdiff_t>(most_counts);
      const std::optional<int> known = beyond > counts.begin() && beyond <= least_dropped ? std::optional(*(beyond - 1)) : std::nullopt;
      counts.erase(counts.begin(), least_dropped);
      if (known) counts.insert(counts.begin(), *known);
    }
    for (const int count : counts)
      if (count <= price.most)
        choices.push_back({kind, count, base.ingestion * count / base.accelerators * price.relative_speed.value / base.measured_speed});
  }
  return choices;
}

/// One server unless asked otherwise: without the time in which accelerators exchange gradients, as many as there are would always be cheapest.
std::vector<int> server_choices(const SearchQuestion& question) {
  if (question.servers.empty()) return {1};
  std::vector<int> choices = question.servers;
  std::erase_if(choices, [&question](int servers) { return servers > question.prices.server.most; });
  return choices;
}

/// P of so many cores, by the law that was fitted to the measured ones, beside the GPU where it prepares.
double prep_rate(const RateModel& model, const Base& base, double cores) {
  if (!model.prep_servers) return model.rates.prep * model.scaling.factor(base.cores, cores);
  whatif::Setup setup = whatif::as_measured(model);
  whatif::take_cores(model, cores, setup);
  return setup.prep;
}

double prep_error(const RateModel& model, const Base& base, double cores) { return model.scaling.scaled_error(base.cores, cores, model.prep_error); }

/// The fewest cores that are sold and bring P to `rate`, or the low end of P's interval; nullopt when none do.
enum class Bound { value, low_end };
std::optional<double> cores_for_rate(const RateModel& model, const Base& base, const PriceList& prices, double rate, Bound bound) {
  for (int sold = prices.core.least; sold <= prices.core.most; ++sold) {
    const double cores = static_cast<double>(sold) * prices.core.threads;
    const double share = bound == Bound::value ? 1 : 1 - std::hypot(prep_error(model, base, cores), model.run_error);
    if (prep_rate(model, base, cores) * share >= rate) return cores;
  }
  return std::nullopt;
}

std::set<double> core_choices(const RateModel& model, const SearchQuestion& question, const Base& base, double ingestion,
                              std::optional<double> target, std::size_t stride) {
  const PriceList& prices = question.prices;
  std::set<double> choices;
  for (const double cores : question.cores)
    if (cores >= prices.core.least * prices.core.threads && cores <= prices.core.most * prices.core.threads) choices.insert(cores);
  if (!question.cores.empty()) return choices;
  const auto add = [&](int sold) {
    choices.insert(static_cast<double>(std::clamp(sold, prices.core.least, prices.core.most)) * prices.core.threads);
  };
  // 1, 2, 3, 4, 6, 8, 12, 16, ...: what machines are sold with.
  std::size_t place = 0;
  for (int power = 1; power <= prices.core.most; power *= 2)
    for (const int sold : {power, power + power / 2})
      if (sold >= prices.core.least && sold <= prices.core.most && place++ % stride == 0) add(sold);
  add(prices.core.least);
  add(prices.core.most);
  // However coarse the grain is: what was measured, and as far as it is known.
  for (const double known : {1.0, most_extrapolation})
    add(static_cast<int>(std::clamp(std::floor(known * base.cores / prices.core.threads), 1.0, static_cast<double>(prices.core.most))));
  const auto add_for = [&](double rate, Bound bound) {
    if (const auto cores = cores_for_rate(model, base, prices, rate, bound)) choices.insert(*cores);
  };
  add_for(ingestion, Bound::value);
  if (target) add_for(*target, Bound::value);
  if (target) add_for(*target, Bound::low_end);
  return choices;
}

/// Shares of the dataset to cache in each server: those of the grid, those at which F of one server reaches one of the rates, and that with which the
/// servers' caches together hold everything.
std::set<double> fraction_choices(const RateModel& model, const SearchQuestion& question, const std::vector<double>& grid, int servers,
                                  const std::vector<double>& wanted_rates, double storage_rate) {
  if (!question.cache_fractions.empty()) return {question.cache_fractions.begin(), question.cache_fractions.end()};
  // Only MinIO's share is known at once; of other caches a finer grid has to do.
  if (!model.misses.is_minio()) return {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::set<double> choices(grid.begin(), grid.end());
  choices.insert(whatif::fraction_at_least(1.0 / servers));
  for (const double rate : wanted_rates)
    if (const auto fraction = cache_fraction_for(rate, model.rates.cache, storage_rate)) choices.insert(whatif::fraction_at_least(*fraction));
  return choices;
}

/// The target of one server, and the rate of F whose interval's low end is the target.
std::vector<double> fetch_targets(const RateModel& model, std::optional<double> target) {
  if (!target) return {};
  const double error = std::min(std::max(model.cache_error, model.storage_error), 0.99);
  return {*target, *target / (1 - error) * (1 + no_difference)};
}

/// Samples of a step; 0 where the batch size is not known.
double global_batch(const RateModel& model, double servers, double accelerators) { return model.batch_size.value_or(0) * accelerators * servers; }

/// The points of so many servers; one more than `most` are enough to know that they are too many.
std::vector<SearchPoint> space(const RateModel& model, const SearchQuestion& question, const Base& base, const std::optional<SearchTarget>& target,
                               const Grain& grain, int servers, std::size_t most) {
  std::vector<SearchPoint> points;
  const std::vector<StorageChoice> storages = storage_choices(question.prices, base, grain.storage_factor);
  const auto most_cache = static_cast<double>(question.prices.memory.most_bytes - question.prices.server.memory_bytes);
  const std::optional<double> part = target ? std::optional(target->samples_per_s / servers) : std::nullopt;
  for (const AcceleratorChoice& accelerator : accelerator_choices(question, base, grain.accelerator_counts)) {
    if (global_batch(model, servers, accelerator.count) > base.dataset_samples) continue;
    for (const double cores : core_choices(model, question, base, accelerator.ingestion, part, grain.cores_stride)) {
      const double prep = prep_rate(model, base, cores);
      std::vector<double> wanted_fetch = fetch_targets(model, part);
      wanted_fetch.push_back(std::min(prep, accelerator.ingestion));
      for (const StorageChoice& storage : storages)
        for (const double fraction : fraction_choices(model, question, grain.fractions, servers, wanted_fetch, storage.samples_per_s)) {
          if (fraction * base.dataset_bytes > most_cache) continue;
          SearchPoint& point = points.emplace_back();
          point.setup = {servers,
                         PartitionMode::none,
                         cores,
                         accelerator.kind,
                         accelerator.count,
                         fraction,
                         static_cast<Bytes>(std::llround(fraction * base.dataset_bytes)),
                         storage.kind,
                         storage.bytes_per_s};
          point.ingestion = accelerator.ingestion;
          point.prep = prep;
          point.cache = model.rates.cache;
          point.storage = storage.samples_per_s;
          if (points.size() > most) return points;
        }
    }
  }
  return points;
}

/// The points of so many servers at the finest grain of which there are not more than `most`; none when even the coarsest has more.
std::vector<SearchPoint> finest_space(const RateModel& model, const SearchQuestion& question, const Base& base,
                                      const std::optional<SearchTarget>& target, int servers, std::size_t most) {
  for (const Grain& grain : grains())
    if (auto points = space(model, question, base, target, grain, servers, most); points.size() <= most) return points;
  return {};
}

/// Ways of parting the caches that the configuration allows, the simplest first.
std::vector<PartitionMode> partition_modes(const RateModel& model, const whatif::Setup& setup, const Base& base) {
  std::vector<PartitionMode> modes{PartitionMode::none};
  if (setup.servers == 1 || !model.misses.is_minio() || !std::isfinite(setup.network)) return modes;
  modes.push_back(PartitionMode::partitioned);
  if (setup.servers * setup.local_batch <= base.dataset_samples) modes.push_back(PartitionMode::locality);
  return modes;
}

void predict(SearchPoint& point, const RateModel& model, const SearchQuestion& question, const Base& base) {
  whatif::Setup setup = whatif::as_measured(model);
  setup.ingestion = point.ingestion;
  whatif::take_cores(model, point.setup.cores, setup);
  setup.storage = point.storage;
  setup.cache_fraction = point.setup.cache_fraction;
  setup.servers = static_cast<std::uint32_t>(point.setup.servers);
  if (setup.transfer) *setup.transfer *= point.setup.accelerators / base.accelerators;
  setup.local_batch *= point.setup.accelerators / base.accelerators;
  if (question.prices.network) setup.network = question.prices.network->bytes_per_s / base.sample_bytes();
  std::optional<whatif::Evaluation> best;
  for (const PartitionMode mode : partition_modes(model, setup, base)) {
    setup.partition = mode;
    const whatif::Evaluation evaluation = whatif::bounds(model, setup);
    if (best && evaluation.rule.samples_per_s <= best->rule.samples_per_s * (1 + no_difference)) continue;
    best = evaluation;
    point.setup.partition = mode;
  }
  const whatif::Evaluation& evaluation = *best;
  point.first_epoch_seconds = base.dataset_samples / (point.setup.servers * std::min({point.ingestion, point.prep, point.storage}));
  point.ingestion = evaluation.ingestion->value;
  point.prep = evaluation.prep.value;
  point.fetch = evaluation.fetch.value;
  point.samples_per_s = evaluation.rule.samples_per_s;
  point.ci95_samples_per_s = evaluation.ci95;
  point.epoch_seconds = base.dataset_samples / point.samples_per_s;
  point.bottleneck = resource_name(evaluation.rule.resource);
  point.next = resource_name(evaluation.rule.next);
  point.next_samples_per_s = evaluation.rule.next_samples_per_s;
  point.too_close = evaluation.too_close;
  point.assumptions = assumptions_of(point.setup, model, question.prices, base);
  point.extrapolation = extrapolation_of(point.setup, model, question.prices, base);
  point.costs_per_hour = costs_per_hour(point.setup, question.prices, base.dataset_bytes);
  point.cost_per_hour = point.costs_per_hour.total();
  point.cost_per_epoch = point.cost_per_hour * point.epoch_seconds / 3600;
}

void require(bool known, const std::string& what, const std::string& fix) {
  if (!known) throw UsageError(fmt::format("--search needs {}: {}", what, fix));
}

}  // namespace

Base required_base(const RateModel& model, const SearchQuestion& question, std::vector<Finding>& findings) {
  require(model.rates.ingestion.has_value(), "the accelerators' rate G", "profile with --accelerator, or type it: --rates G=...");
  require(model.accelerators.has_value(), "the number of accelerators behind G", "add --base accelerators=8");
  require(model.cores.has_value(), "the number of cores behind P", "add --base cores=24");
  require(model.dataset_bytes && model.dataset_samples, "the dataset's size, which memory and an epoch's time follow from",
          "add --base dataset=146GiB,samples=1281167");
  Base base{*model.rates.ingestion,
            *model.cores,
            *model.accelerators,
            static_cast<double>(*model.dataset_bytes),
            static_cast<double>(*model.dataset_samples),
            "",
            1,
            false};

  const auto& kinds = question.prices.accelerators;
  if (question.measured_accelerator) {
    const auto found = kinds.find(*question.measured_accelerator);
    if (found == kinds.end()) {
      std::vector<std::string> names;
      names.reserve(kinds.size());
      for (const auto& [kind, price] : kinds) names.push_back(kind);
      throw UsageError(fmt::format("\"{}\" is not among the accelerators of the price list {}{}; it has {}", *question.measured_accelerator,
                                   question.prices.name, did_you_mean(*question.measured_accelerator, names), fmt::join(names, ", ")));
    }
    base.measured_kind = found->first;
    base.measured_speed = found->second.relative_speed.value;
    return base;
  }
  const auto nearest = std::ranges::min_element(kinds, {}, [](const auto& kind) { return std::fabs(std::log(kind.second.relative_speed.value)); });
  base.measured_kind = nearest->first;
  base.measured_speed = nearest->second.relative_speed.value;
  base.kind_assumed = true;
  findings.push_back({"accelerator-kind-assumed", Finding::Severity::warning,
                      fmt::format("Which of the list's accelerators G was measured on is not known: {} is assumed, and other kinds are predicted by "
                                  "their speed relative to it. Say which with --measured-accelerator KIND.",
                                  nearest->first)});
  return base;
}

std::optional<SearchTarget> target_of(const SearchQuestion& question, const Base& base) {
  if (!question.target) return std::nullopt;
  const auto& asked = *question.target;
  const double rate = asked.samples_per_s ? *asked.samples_per_s : base.dataset_samples / asked.epoch_seconds.value_or(0);
  if (!(rate > 0) || !std::isfinite(rate))
    throw UsageError(fmt::format("--target {}: expected an epoch's time or a rate above 0, for example 10min or 5000/s", asked.text));
  return SearchTarget{asked.text, rate, base.dataset_samples / rate};
}

std::vector<SearchPoint> evaluated_space(const RateModel& model, const SearchQuestion& question, const Base& base,
                                         const std::optional<SearchTarget>& target, const SearchHooks& hooks) {
  // The first number of servers, and finest, has half of the room; the others share what is left.
  const std::vector<int> counts = server_choices(question);
  std::vector<SearchPoint> points;
  for (std::size_t at = 0; at < counts.size(); ++at) {
    const std::size_t room = question.most_setups - points.size();
    const std::size_t share = at == 0 && counts.size() > 1 ? room / 2 : room / (counts.size() - at);
    auto more = finest_space(model, question, base, target, counts[at], share);
    if (more.empty() && !space(model, question, base, target, grains().back(), counts[at], 0).empty())
      throw UsageError(fmt::format("--search: the lists make more than {} configurations: shorten them", question.most_setups));
    std::ranges::move(more, std::back_inserter(points));
  }
  if (points.empty())
    throw UsageError(fmt::format(
        "--search: no configuration is left: the lists ask for other cores, more accelerators or more memory than the price list has in one server, "
        "for more servers than it has ({}), or for a global batch larger than the dataset's {} samples",
        question.prices.server.most, format_number(base.dataset_samples)));
  const std::size_t step = points.size() / progress_steps + 1;
  for (std::size_t at = 0; at < points.size(); ++at) {
    if (hooks.progress && at % step == 0)
      hooks.progress({"configurations by the closed form", static_cast<double>(at) / static_cast<double>(points.size()), -1});
    predict(points[at], model, question, base);
  }
  return points;
}

SearchPoint::Costs costs_per_hour(const SearchSetup& setup, const PriceList& prices, double dataset_bytes) {
  SearchPoint::Costs costs;
  if (prices.server.price) costs.server = prices.server.price->per_hour;
  costs.cores = prices.core.price.per_hour * setup.cores / prices.core.threads;
  const double memory = static_cast<double>(prices.server.memory_bytes) + static_cast<double>(setup.cache_bytes);
  costs.memory = prices.memory.price_per_gib.per_hour * memory / bytes_per_gib;
  costs.accelerators = prices.accelerators.at(setup.accelerator).price.per_hour * setup.accelerators;
  const StoragePrice& storage = prices.storage.at(setup.storage);
  const double gigabytes = dataset_bytes / bytes_per_gb;
  costs.storage = storage.price_per_gb.per_hour * storage.sold_gigabytes(gigabytes);
  if (storage.price_per_mb_per_s) {
    const double above = std::max(0.0, setup.storage_bytes_per_s - storage.included_rate(gigabytes));
    costs.storage += storage.price_per_mb_per_s->per_hour * above / bytes_per_mb;
  }
  if (prices.network && prices.network->price) costs.network = prices.network->price->per_hour;
  for (double* part : {&costs.server, &costs.cores, &costs.memory, &costs.accelerators, &costs.storage, &costs.network}) *part *= setup.servers;
  return costs;
}

bool cheaper(const SearchPoint& left, const SearchPoint& right) {
  const auto key = [](const SearchPoint& point) {
    return std::tie(point.cost_per_epoch, point.epoch_seconds, point.cost_per_hour, point.setup.servers, point.setup.cores, point.setup.accelerators,
                    point.setup.cache_fraction, point.setup.accelerator, point.setup.storage);
  };
  return key(left) < key(right);
}

}  // namespace dsanalyze::search
