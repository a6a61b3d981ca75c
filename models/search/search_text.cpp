#include <fmt/format.h>

#include "core/records/rate_text.hpp"
#include "search_parts.hpp"

namespace dsanalyze::search {
namespace {

/// How many times as long as the others the first epoch may take without a word about it.
constexpr double notable_first_epoch = 1.5;

std::string stage_words(const std::string& resource) {
  return resource == "gpu" ? "the accelerators [G]" : resource == "cpu" ? "prep [P]" : "fetch [F]";
}

std::string binds_text(const SearchPoint& point) {
  if (point.too_close) return fmt::format("inconclusive: {} or {}, whose intervals overlap", stage_words(point.bottleneck), stage_words(point.next));
  return fmt::format("{} {} the bottleneck, next {} at {} samples/s", stage_words(point.bottleneck), point.bottleneck == "gpu" ? "are" : "is",
                     stage_words(point.next), format_number(point.next_samples_per_s));
}

/// ", provided that ..."; nothing where every number was measured.
std::string provided(const SearchPoint& point) {
  if (point.assumptions.empty()) return "";
  return fmt::format(", provided that {}", fmt::join(point.assumptions, ", that "));
}

/// The parts, the cost, what is reached and the bottleneck.
std::string point_text(const SearchPoint& point, const std::string& currency) {
  std::string text = fmt::format("{}: {} an epoch ({} an hour), {} samples/s, an epoch in {}; {}", setup_text(point.setup),
                                 format_cost(point.cost_per_epoch, currency), format_cost(point.cost_per_hour, currency),
                                 format_rate(point.samples_per_s, point.ci95_samples_per_s), format_seconds(point.epoch_seconds), binds_text(point));
  if (point.first_epoch_seconds > notable_first_epoch * point.epoch_seconds)
    text += fmt::format("; the first epoch, which fills the cache, takes {}", format_seconds(point.first_epoch_seconds));
  if (point.simulated) text += fmt::format("; simulated {} samples/s", format_number(point.simulated->samples_per_s));
  return text;
}

std::string target_text(const SearchTarget& target) {
  return fmt::format("{} ({} samples/s, an epoch in {})", target.text, format_number(target.samples_per_s), format_seconds(target.epoch_seconds));
}

}  // namespace

std::string why_not_sure(const SearchPoint& point, double target) {
  switch (grade_of(point, target)) {
    case Grade::predicted:
      return fmt::format("its interval begins at {} samples/s", format_number(point.ci95_samples_per_s.low));
    case Grade::predicted_far:
      return fmt::format("it goes {} times beyond what was measured, so its {} samples/s are an estimate", format_number(point.extrapolation),
                         format_number(point.samples_per_s));
    default:
      break;
  }
  if (point.simulated && point.samples_per_s >= target)
    return fmt::format("the epoch simulator gives it {} samples/s", format_number(point.simulated->samples_per_s));
  return fmt::format("only the upper end of its interval, {} samples/s, reaches it", format_number(point.ci95_samples_per_s.high));
}

std::vector<std::string> conclusions(const SearchResult& result) {
  const auto described = [&](const SearchPoint& point) { return point_text(point, result.currency); };
  if (!result.target)
    return {fmt::format("Cheapest epoch{}: {}.", provided(*result.cheapest), described(*result.cheapest)),
            fmt::format("Fastest epoch{}: {}.", provided(result.fastest), described(result.fastest))};

  const std::string target = target_text(*result.target);
  if (result.reach == Reach::no)
    return {fmt::format("Out of reach of this price list: {}. The fastest configuration{} is {}.", target, provided(result.fastest),
                        described(result.fastest))};
  std::vector<std::string> sentences;
  const SearchPoint& cheapest = *result.cheapest;
  const double rate = result.target->samples_per_s;
  const auto not_sure = [&](const SearchPoint& point) { return point.reach == Reach::maybe ? ", though " + why_not_sure(point, rate) : ""; };
  if (result.reach == Reach::maybe && grade_of(cheapest, rate) == Grade::interval_end)
    sentences.push_back(fmt::format("No configuration is predicted to reach {}. The nearest to it{}{}: {}.", target, not_sure(cheapest),
                                    provided(cheapest), described(cheapest)));
  else if (result.reach == Reach::maybe)
    sentences.push_back(fmt::format("No configuration surely reaches {}. The cheapest an epoch that is predicted to{}{}: {}.", target,
                                    not_sure(cheapest), provided(cheapest), described(cheapest)));
  else
    sentences.push_back(fmt::format("Cheapest an epoch that {} {}{}: {}.", result.reach == Reach::surely ? "surely reaches" : "reaches", target,
                                    provided(cheapest), described(cheapest)));
  if (const auto& hour = result.cheapest_hour)
    sentences.push_back(fmt::format("Cheapest an hour, so the smallest that {}{}{}: {}.",
                                    hour->reach == Reach::maybe ? "is predicted to" : "is enough", not_sure(*hour), provided(*hour),
                                    described(*hour)));
  if (const auto& maybe = result.cheaper_maybe)
    sentences.push_back(fmt::format("Cheaper an epoch by its prediction{}{}: {}.", not_sure(*maybe), provided(*maybe), described(*maybe)));
  return sentences;
}

}  // namespace dsanalyze::search
