#include "search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text/units.hpp"
#include "models/simulate/epoch_simulator.hpp"
#include "models/whatif/whatif_parts.hpp"
#include "search_parts.hpp"

namespace dsanalyze {
namespace {

constexpr double no_difference = 1e-9;
/// Simulations that are kept for the answer itself, beside those of the front.
constexpr std::size_t simulations_of_the_answer = 4;
/// Prices of cloud machines change within a year.
constexpr int most_days = 365;

double seconds_of(const SearchPoint& point) { return point.simulated ? point.simulated->epoch_seconds : point.epoch_seconds; }
double cost_of(const SearchPoint& point) { return point.simulated ? point.simulated->cost_per_epoch : point.cost_per_epoch; }

bool cheaper_as_known(const SearchPoint& left, const SearchPoint& right) {
  if (cost_of(left) != cost_of(right)) return cost_of(left) < cost_of(right);
  if (seconds_of(left) != seconds_of(right)) return seconds_of(left) < seconds_of(right);
  return search::cheaper(left, right);
}

Reach reach_of(const SearchPoint& point, double target) {
  // A stage that is bought to just keep up may miss by a rounding.
  const double least = target * (1 - no_difference);
  if (point.ci95_samples_per_s.low >= least && point.extrapolation <= most_extrapolation)
    return point.assumptions.empty() ? Reach::surely : Reach::conditionally;
  return point.ci95_samples_per_s.high >= least ? Reach::maybe : Reach::no;
}

/// `date` as a price list has it, "2023-12-30"; nullopt for a day that no calendar has.
std::optional<int> days_since(const std::string& date, std::chrono::sys_days today) {
  const auto number = [&date](std::size_t at, std::size_t count) { return static_cast<int>(parse_integer(date.substr(at, count), 0, 9999)); };
  const std::chrono::year_month_day day(std::chrono::year(number(0, 4)), std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2))));
  return day.ok() ? std::optional(static_cast<int>((today - std::chrono::sys_days(day)).count())) : std::nullopt;
}

/// The simulator, which counts what it is asked and tells how far it is.
class Simulator {
 public:
  Simulator(const SearchHooks& hooks, std::size_t most) : m_hooks(hooks), m_most(most) {}

  void refine(SearchPoint& point, double dataset_samples) {
    if (!m_hooks.simulate || point.simulated || m_asked >= m_most) return;
    if (m_hooks.progress) m_hooks.progress({"configurations by the epoch simulator", static_cast<double>(m_asked) / static_cast<double>(m_most), -1});
    ++m_asked;
    const std::optional<double> rate = m_hooks.simulate(point);
    if (!rate || !(*rate > 0)) return;
    ++m_answered;
    const double seconds = dataset_samples / *rate;
    point.simulated = SearchPoint::Simulated{*rate, seconds, point.cost_per_hour * seconds / 3600};
    m_worst = std::max(m_worst, std::fabs(*rate / point.samples_per_s - 1));
  }
  [[nodiscard]] std::size_t answered() const { return m_answered; }
  [[nodiscard]] double worst() const { return m_worst; }

 private:
  const SearchHooks& m_hooks;
  std::size_t m_most;
  std::size_t m_asked = 0;
  std::size_t m_answered = 0;
  double m_worst = 0;
};

/// The first of those of a grade, or of all without a target. The simulator may turn it down for a faster one.
std::optional<SearchPoint> first_of_grade(const std::vector<SearchPoint>& in_order, const std::optional<SearchTarget>& target, search::Grade grade,
                                          const std::vector<SearchPoint>& front, Simulator& simulator, double dataset_samples) {
  double least_predicted = 0;
  std::optional<SearchPoint> turned_down;
  for (const SearchPoint& candidate : in_order) {
    if (target && (search::grade_of(candidate, target->samples_per_s) != grade || candidate.samples_per_s < least_predicted)) continue;
    SearchPoint point = candidate;
    const auto on_front = std::ranges::find(front, point.setup, &SearchPoint::setup);
    if (on_front != front.end()) point.simulated = on_front->simulated;
    simulator.refine(point, dataset_samples);
    if (!target || !point.simulated || point.simulated->samples_per_s >= target->samples_per_s * (1 - no_difference)) return point;
    least_predicted = point.samples_per_s * target->samples_per_s / point.simulated->samples_per_s;
    point.reach = Reach::maybe;
    if (!turned_down) turned_down = point;
  }
  return turned_down;
}

void mark_close(std::vector<SearchPoint>& front) {
  for (std::size_t at = 1; at < front.size(); ++at)
    front[at].close_to_cheaper = front[at].ci95_samples_per_s.overlaps(front[at - 1].ci95_samples_per_s);
}

void answer_target(SearchResult& result, const std::vector<SearchPoint>& by_cost, Simulator& simulator, double dataset_samples) {
  using search::Grade;
  const auto first = [&](const std::vector<SearchPoint>& in_order, Grade grade) {
    return first_of_grade(in_order, result.target, grade, result.front, simulator, dataset_samples);
  };
  result.cheapest = first(by_cost, Grade::whole);
  if (!result.target) return;
  Grade grade = Grade::whole;
  for (const Grade next : {Grade::predicted, Grade::predicted_far}) {
    if (result.cheapest) break;
    result.cheapest = first(by_cost, next);
    grade = next;
  }
  if (!result.cheapest) {
    // Nothing is predicted to reach it: what comes nearest is the likeliest to, and nothing cheaper or smaller is "enough".
    std::vector<SearchPoint> by_rate = by_cost;
    std::ranges::stable_sort(by_rate, std::greater{}, &SearchPoint::samples_per_s);
    result.cheapest = first(by_rate, Grade::interval_end);
    result.reach = result.cheapest ? Reach::maybe : Reach::no;
    return;
  }
  result.reach = result.cheapest->reach;

  const double target = result.target->samples_per_s;
  std::vector<SearchPoint> by_hour = by_cost;
  std::ranges::stable_sort(by_hour, {}, &SearchPoint::cost_per_hour);
  const auto smallest = first(by_hour, grade);
  if (smallest && search::grade_of(*smallest, target) <= search::grade_of(*result.cheapest, target) &&
      smallest->cost_per_hour < result.cheapest->cost_per_hour * (1 - no_difference))
    result.cheapest_hour = smallest;
  const auto likely = std::ranges::find_if(by_cost, [&](const SearchPoint& point) {
    const Grade its = search::grade_of(point, target);
    return its > grade && its <= Grade::predicted_far;
  });
  if (likely != by_cost.end() && likely->cost_per_epoch < result.cheapest->cost_per_epoch * (1 - no_difference)) result.cheaper_maybe = *likely;
}

/// The most of something that a configuration has which is shown.
template <typename Part>
Part most_shown(const SearchResult& result, Part SearchSetup::*part) {
  Part most = result.fastest.setup.*part;
  for (const auto* point : {&result.cheapest, &result.cheapest_hour, &result.cheaper_maybe})
    if (*point) most = std::max(most, (*point)->setup.*part);
  for (const SearchPoint& point : result.front) most = std::max(most, point.setup.*part);
  return most;
}

void add_findings(SearchResult& result, const RateModel& model, const SearchQuestion& question, const Simulator& simulator) {
  const auto add = [&](const char* code, Finding::Severity severity, std::string message) {
    result.findings.push_back({code, severity, std::move(message)});
  };
  using enum Finding::Severity;
  add("storage-from-list", info,
      "S of each storage follows from its listed bandwidth and latency, with the dataset's mean sample size and a full queue; it was not measured "
      "here, "
      "and its interval is that of the measured S.");
  const double most_cores = most_shown(result, &SearchSetup::cores);
  if (model.measured_cores_high && most_cores > *model.measured_cores_high)
    add("prep-extrapolated", warning,
        fmt::format("P was measured on up to {}; the configurations shown have up to {}, for which it is extrapolated.",
                    whatif::cores_text(*model.measured_cores_high), format_number(most_cores)));
  if (most_shown(result, &SearchSetup::servers) > 1)
    add("servers-in-closed-form", info,
        "Several servers are answered by the closed form alone, not by the epoch simulator, and without the time in which their accelerators "
        "exchange "
        "gradients: what they reach is an upper bound where that does not overlap with the steps.");
  if (model.enough_workers)
    add("workers-as-needed", info,
        "Each configuration is one whose loader has as many workers as it needs: set num_workers on the new machine by `dsanalyze profile -- "
        "COMMAND` "
        "there.");
  if (question.prices.core.threads > 1)
    add("cores-are-threads", info,
        fmt::format("The list sells a core with {} hardware threads; cores are counted here as the profile counts them, in hardware threads.",
                    question.prices.core.threads));
  if (result.reach == Reach::no)
    add("target-out-of-reach", warning,
        fmt::format("No configuration of this price list reaches {}; its bounds (most cores, memory, accelerators of one server) stand in the list.",
                    result.target->text));
  if (result.reach == Reach::maybe && result.cheapest->extrapolation > most_extrapolation)
    add("target-not-sure", warning,
        fmt::format("Whether the answer reaches {} is not certain: it goes {} times beyond the servers, cores or accelerators that were measured. "
                    "Profile on a larger machine, or narrow the search (--servers, --cores, --accelerators) to at most {} times those.",
                    result.target->text, format_number(result.cheapest->extrapolation), format_number(most_extrapolation)));
  else if (result.reach == Reach::maybe)
    add("target-not-sure", warning,
        fmt::format("Whether the answer reaches {} is inconclusive: {}. {} for narrower intervals, or ask for {}.", result.target->text,
                    search::why_not_sure(*result.cheapest, result.target->samples_per_s),
                    model.typed ? "Type rates of longer measurements" : "Profile longer (--time-budget)",
                    search::grade_of(*result.cheapest, result.target->samples_per_s) == search::Grade::predicted ? "a little more" : "less"));
  if (result.prices_age_days && *result.prices_age_days > most_days)
    add("prices-old", warning,
        fmt::format(
            "The prices of {} are of {}, {:.1f} years ago; costs and the order of the answers may have changed since. Look the prices up, and "
            "pass a list of your own (--prices FILE.json).",
            result.prices, result.prices_date, *result.prices_age_days / 365.25));
  if (simulator.worst() > notable_difference)
    add("simulator-disagrees", info,
        fmt::format("The epoch simulator and the closed form differ by up to {}: F, P and G are close to each other there, or queues are short; the "
                    "simulator's figures are the ones to believe.",
                    format_share(simulator.worst())));
}

}  // namespace

search::Grade search::grade_of(const SearchPoint& point, double target) {
  if (point.reach == Reach::surely || point.reach == Reach::conditionally) return Grade::whole;
  const double predicted = point.simulated ? point.simulated->samples_per_s : point.samples_per_s;
  if (predicted >= target * (1 - no_difference)) return point.extrapolation > most_extrapolation ? Grade::predicted_far : Grade::predicted;
  return point.reach == Reach::maybe ? Grade::interval_end : Grade::none;
}

std::vector<SearchPoint> pareto_front(std::vector<SearchPoint> points) {
  std::ranges::sort(points, cheaper_as_known);
  std::vector<SearchPoint> front;
  for (SearchPoint& point : points) {
    if (!front.empty()) {
      if (!(seconds_of(point) < seconds_of(front.back()) * (1 - no_difference))) continue;
      if (cost_of(point) <= cost_of(front.back()) * (1 + no_difference)) front.pop_back();
    }
    front.push_back(std::move(point));
  }
  return front;
}

std::vector<SearchPoint> thinned_front(std::vector<SearchPoint> front, std::size_t most) {
  const std::size_t least = 2;
  while (front.size() > std::max(most, least)) {
    // The point whose neighbours are closest to each other is missed least.
    std::size_t missed_least = 1;
    double smallest = 0;
    for (std::size_t at = 1; at + 1 < front.size(); ++at) {
      const double gap = std::log(seconds_of(front[at - 1]) / seconds_of(front[at + 1]));
      if (at == 1 || gap < smallest) {
        smallest = gap;
        missed_least = at;
      }
    }
    front.erase(front.begin() + static_cast<std::ptrdiff_t>(missed_least));
  }
  return front;
}

SearchResult search_setups(const RateModel& model, const SearchQuestion& question, const SearchHooks& hooks) {
  SearchResult result;
  result.prices = question.prices.name;
  result.prices_path = question.prices_path;
  result.prices_date = question.prices.date;
  result.currency = question.prices.currency;
  if (question.today) result.prices_age_days = days_since(question.prices.date, *question.today);
  const search::Base base = search::required_base(model, question, result.findings);
  result.target = search::target_of(question, base);

  std::vector<SearchPoint> points = search::evaluated_space(model, question, base, result.target, hooks);
  result.setups = points.size();
  if (result.target)
    for (SearchPoint& point : points) point.reach = reach_of(point, result.target->samples_per_s);
  std::ranges::sort(points, search::cheaper);

  Simulator simulator(hooks, question.most_simulated);
  const std::size_t kept = std::min(question.most_simulated, simulations_of_the_answer);
  result.front = thinned_front(pareto_front(points), question.most_simulated - (result.target ? kept : 0));
  for (SearchPoint& point : result.front) simulator.refine(point, base.dataset_samples);
  result.front = pareto_front(std::move(result.front));
  mark_close(result.front);
  answer_target(result, points, simulator, base.dataset_samples);
  result.fastest = result.front.back();
  result.simulated = simulator.answered();

  add_findings(result, model, question, simulator);
  result.conclusions = search::conclusions(result);
  return result;
}

}  // namespace dsanalyze

namespace dsanalyze::search {
namespace {

std::string source_words(Provenance provenance) { return provenance == Provenance::assumed ? "the list assumes it" : "by the list"; }

/// The least sure of what the list says of a storage's speed.
Provenance provenance_of(const StoragePrice& storage) {
  const bool assumed = storage.request_latency_seconds.provenance == Provenance::assumed ||
                       storage.most_bytes_per_s.provenance == Provenance::assumed ||
                       (storage.included_bytes_per_s && storage.included_bytes_per_s->provenance == Provenance::assumed);
  return assumed ? Provenance::assumed : storage.most_bytes_per_s.provenance;
}

}  // namespace

std::vector<std::string> assumptions_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base) {
  std::vector<std::string> list;
  const StoragePrice& storage = prices.storage.at(setup.storage);
  if (const Provenance provenance = provenance_of(storage); provenance != Provenance::measured)
    list.push_back(fmt::format("{} gives {} with {} a request ({})", setup.storage, format_bytes_per_second(setup.storage_bytes_per_s),
                               format_seconds(storage.request_latency_seconds.value), source_words(provenance)));
  if (base.kind_assumed) list.push_back(fmt::format("G was measured on {}", base.measured_kind));
  if (setup.accelerator != base.measured_kind) {
    const SourcedNumber& speed = prices.accelerators.at(setup.accelerator).relative_speed;
    list.push_back(fmt::format("one {} trains {} times as fast as one {} ({})", setup.accelerator, format_number(speed.value / base.measured_speed),
                               base.measured_kind, source_words(speed.provenance)));
  }
  const double accelerators = static_cast<double>(setup.accelerators) * setup.servers;
  if (accelerators > base.accelerators)
    list.push_back(fmt::format("G grows as the accelerators do, from {} to {}", format_number(base.accelerators), format_number(accelerators)));
  if (model.measured_cores_high && setup.cores > *model.measured_cores_high)
    list.push_back(
        fmt::format("P goes on from {} to {} {}", whatif::cores_text(*model.measured_cores_high), format_number(setup.cores),
                    model.scaling.law().contention <= 0 && model.scaling.law().coherence <= 0 ? "as if prep scaled linearly" : "by the fitted law"));
  if (setup.servers > 1) list.emplace_back("exchanging gradients takes no time of its own");
  return list;
}

double extrapolation_of(const SearchSetup& setup, const RateModel& model, const PriceList& prices, const Base& base) {
  WhatIfChange change;
  change.cores = setup.cores;
  change.accelerators = setup.accelerators;
  change.servers = static_cast<std::uint32_t>(setup.servers);
  change.accelerator_speed = prices.accelerators.at(setup.accelerator).relative_speed.value / base.measured_speed;
  return whatif::extrapolation(model, change);
}

}  // namespace dsanalyze::search

namespace dsanalyze {
namespace {

/// An epoch of so many samples and so many steps is long enough: more change its rate by less than its interval.
constexpr double enough_samples = 100'000;
constexpr double enough_steps = 100;
/// Short epochs are repeated until they have so many samples together.
constexpr double enough_repeated = 30'000;
constexpr double usual_batch_size = 256;
constexpr std::uint32_t usual_fetch_places = 64;

}  // namespace

std::function<std::optional<double>(const SearchPoint&)> epoch_simulation(const RateModel& model, const PriceList& prices,
                                                                          const ProfileResult::Distributions& distributed) {
  return [model, prices, distributed](const SearchPoint& point) -> std::optional<double> {
    if (!model.misses.is_minio() || !model.dataset_bytes || !model.dataset_samples || point.setup.servers != 1) return std::nullopt;
    const auto dataset_samples = static_cast<double>(*model.dataset_samples);
    const double sample_bytes = static_cast<double>(*model.dataset_bytes) / dataset_samples;
    const StoragePrice& storage = prices.storage.at(point.setup.storage);

    EpochSetup setup;
    const double batch = model.batch_size.value_or(usual_batch_size);
    const double samples = std::min(dataset_samples, std::max(enough_samples, enough_steps * batch * point.setup.accelerators));
    setup.samples = static_cast<std::uint32_t>(samples);
    setup.sample_bytes = with_mean(distributed.sample_bytes, sample_bytes, "bytes of a sample");
    // The epochs between the first and the last begin and end with queues as full: of fewer, one begins with what those before it prepared.
    setup.epochs = 3 + static_cast<std::uint64_t>(enough_repeated / samples);
    setup.batch_size = static_cast<std::uint32_t>(std::clamp(batch, 1.0, samples));
    setup.prefetch_batches = 2 * static_cast<std::uint32_t>(point.setup.accelerators);

    setup.storage.kind = SimulatedStorage::Kind::device;
    setup.storage.device = {point.setup.storage_bytes_per_s, to_nanoseconds(storage.request_latency_seconds.value),
                            static_cast<std::uint32_t>(storage.queue_depth)};
    setup.storage.concurrency = static_cast<std::uint32_t>(storage.queue_depth);
    setup.storage.fetch_places = std::max(usual_fetch_places, 2 * setup.storage.concurrency);

    setup.cache.kind = CacheKind::minio;
    setup.cache.fraction = point.setup.cache_fraction;
    setup.cache.start = SimulatedCache::Start::warm;
    setup.cache.copy_bytes_per_s = point.cache * sample_bytes;

    setup.prep.workers = static_cast<std::uint32_t>(std::max(1.0, std::round(point.setup.cores)));
    setup.prep.seconds_per_sample = with_mean(distributed.prep_seconds, setup.prep.workers / point.prep, "seconds of prep");
    setup.accelerators.count = static_cast<std::uint32_t>(point.setup.accelerators);
    setup.accelerators.samples_per_s = point.ingestion / point.setup.accelerators;
    // Drawn times may add up to a little less than their mean, which makes no stage faster than it is.
    return std::min({simulate_epochs(setup).steady.samples_per_s, point.prep, point.ingestion});
  };
}

}  // namespace dsanalyze
