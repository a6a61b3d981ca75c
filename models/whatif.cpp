#include "dsanalyze/models/whatif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/core/rate_text.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace whatif {

RateEstimate with_error(double value, double relative_error) {
  return {value, {value * std::max(0.0, 1 - relative_error), value * (1 + relative_error)}};
}

namespace {

/// Eq 4 with its error: dF/F = F * hypot(x/C * dC/C, (1-x)/S * dS/S), from the partial derivatives.
RateEstimate fetch_estimate(const RateModel& model, const Setup& setup) {
  const double fetch = effective_fetch_rate(setup.cache_fraction, setup.cache, setup.storage);
  const double from_cache = setup.cache_fraction / setup.cache * model.cache_error;
  const double from_storage = (1 - setup.cache_fraction) / setup.storage * model.storage_error;
  return with_error(fetch, std::min(fetch * std::hypot(from_cache, from_storage), 1.0));
}

}  // namespace

Setup as_measured(const RateModel& model) {
  return {model.rates.ingestion, model.rates.prep, model.rates.cache, model.rates.storage, model.cache_fraction};
}

Evaluation evaluate(const RateModel& model, const Setup& setup) {
  Evaluation result;
  result.prep = with_error(setup.prep, model.prep_error);
  result.fetch = fetch_estimate(model, setup);
  if (setup.ingestion) result.ingestion = with_error(*setup.ingestion, model.ingestion_error);
  result.rule = bottleneck(result.fetch.value, setup.prep, setup.ingestion);

  std::vector<RateEstimate> rates{result.prep, result.fetch};
  if (result.ingestion) rates.push_back(*result.ingestion);
  std::ranges::sort(rates, {}, &RateEstimate::value);
  result.too_close = rates[0].ci95.overlaps(rates[1].ci95);
  result.ci95 = {std::ranges::min(rates, {}, [](const RateEstimate& rate) { return rate.ci95.low; }).ci95.low,
                 std::ranges::min(rates, {}, [](const RateEstimate& rate) { return rate.ci95.high; }).ci95.high};
  return result;
}

std::string rate_with_letter(const RateEstimate& rate, char letter) {
  return fmt::format("{} samples/s [{}]", format_rate(rate.value, rate.ci95), letter);
}

const RateEstimate& rate_of(Resource resource, const Evaluation& evaluation) {
  if (resource == Resource::io || (resource == Resource::gpu && !evaluation.ingestion)) return evaluation.fetch;
  return resource == Resource::cpu ? evaluation.prep : *evaluation.ingestion;
}

std::string binding_sentence(Resource resource, const Evaluation& evaluation) {
  const RateEstimate& rate = rate_of(resource, evaluation);
  switch (resource) {
    case Resource::gpu:
      return "the accelerators bind at " + rate_with_letter(rate, 'G');
    case Resource::cpu:
      return "prep binds at " + rate_with_letter(rate, 'P');
    case Resource::io:
      break;
  }
  return "fetch binds at " + rate_with_letter(rate, 'F');
}

}  // namespace whatif

namespace {

using whatif::Evaluation;
using whatif::Setup;

constexpr std::size_t most_combinations = 100'000;

struct Variant {
  Setup setup;
  WhatIfChange change;
};
/// One value of one list: what it does to a set-up.
using Step = std::function<void(Variant&)>;

void require_positive(double value, const std::string& option) {
  if (!(value > 0)) throw UsageError(fmt::format("{}: found {}, expected a value above 0", option, value));
}

std::vector<Step> cache_steps(const RateModel& model, const WhatIfQuestion& question, std::vector<Finding>& findings) {
  std::vector<Step> steps;
  for (const ByteAmount& amount : question.cache_sizes) {
    const bool in_bytes = amount.kind == ByteAmount::Kind::bytes;
    if (in_bytes && !model.dataset_bytes)
      throw UsageError(fmt::format("--cache-size {}: bytes need the dataset's size: add --base dataset=146GiB, or give a share such as 35%",
                                   format_bytes(amount.bytes)));
    double fraction = in_bytes ? amount.share_of(*model.dataset_bytes) : amount.fraction;
    if (fraction > 1) {
      findings.push_back({"cache-larger-than-dataset", Finding::Severity::info,
                          fmt::format("--cache-size {}: the whole dataset fits; answered as 100 %.",
                                      in_bytes ? format_bytes(amount.bytes) : format_share(fraction))});
      fraction = 1;
    }
    steps.emplace_back([fraction, bytes = model.dataset_bytes](Variant& variant) {
      variant.setup.cache_fraction = fraction;
      variant.change.cache_fraction = fraction;
      if (bytes) variant.change.cache_bytes = static_cast<Bytes>(std::llround(fraction * static_cast<double>(*bytes)));
    });
  }
  return steps;
}

std::vector<Step> core_steps(const RateModel& model, const WhatIfQuestion& question, std::vector<Finding>& findings) {
  std::vector<Step> steps;
  double most = 0;
  for (const auto& change : question.cores) {
    require_positive(change.cores.value_or(change.factor.value_or(0)), "--cores");
    if (change.cores && !model.cores)
      throw UsageError(fmt::format("--cores {}: a number of cores needs the number behind P: add --base cores=24, or give a factor such as 2x",
                                   format_number(*change.cores)));
    const double factor = change.cores ? *change.cores / *model.cores : *change.factor;
    if (model.cores) most = std::max(most, factor * *model.cores);
    steps.emplace_back([factor, cores = model.cores](Variant& variant) {
      variant.setup.prep *= factor;
      if (cores)
        variant.change.cores = factor * *cores;
      else
        variant.change.cores_factor = factor;
    });
  }
  if (model.measured_cores_high && most > *model.measured_cores_high * (1 + 1e-9))
    findings.push_back(
        {"prep-extrapolated", Finding::Severity::warning,
         fmt::format("P was measured on up to {} cores; up to {} it is extrapolated as if prep scaled linearly, so it is an upper bound.",
                     format_number(*model.measured_cores_high), format_number(most))});
  return steps;
}

void require_ingestion(const RateModel& model, const std::string& option) {
  if (!model.rates.ingestion)
    throw UsageError(option +
                     ": the accelerators' rate G is not known, so nothing can be said about other accelerators; profile with --accelerator, or "
                     "type it: --rates G=...");
}

std::vector<Step> speed_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  if (!question.accelerator_speeds.empty()) require_ingestion(model, "--accelerator-speed");
  for (const double factor : question.accelerator_speeds) {
    require_positive(factor, "--accelerator-speed");
    steps.emplace_back([factor](Variant& variant) {
      *variant.setup.ingestion *= factor;
      variant.change.accelerator_speed = factor;
    });
  }
  return steps;
}

std::vector<Step> accelerator_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  if (!question.accelerators.empty()) require_ingestion(model, "--accelerators");
  for (const double count : question.accelerators) {
    require_positive(count, "--accelerators");
    if (!model.accelerators)
      throw UsageError(fmt::format("--accelerators {}: a number needs the number behind G: add --base accelerators=8, or ask --accelerator-speed 2x",
                                   format_number(count)));
    steps.emplace_back([count, factor = count / *model.accelerators](Variant& variant) {
      *variant.setup.ingestion *= factor;
      variant.change.accelerators = count;
    });
  }
  return steps;
}

std::vector<Step> storage_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  for (const auto& change : question.storage) {
    require_positive(change.bytes_per_s.value_or(change.factor.value_or(0)), "--storage");
    if (change.bytes_per_s && !model.storage_bytes_per_s)
      throw UsageError(
          fmt::format("--storage {}: bytes/s need the size of a sample: add --base dataset=146GiB,samples=1281167, or give a factor such as 2x",
                      format_bytes_per_second(*change.bytes_per_s)));
    const double factor = change.factor ? *change.factor : *change.bytes_per_s / *model.storage_bytes_per_s;
    steps.emplace_back([factor, bytes_per_s = change.bytes_per_s](Variant& variant) {
      variant.setup.storage *= factor;
      if (bytes_per_s)
        variant.change.storage_bytes_per_s = bytes_per_s;
      else
        variant.change.storage_factor = factor;
    });
  }
  return steps;
}

std::vector<Variant> one_at_a_time(const Variant& base, const std::vector<std::vector<Step>>& lists) {
  std::vector<Variant> variants;
  for (const auto& steps : lists)
    for (const Step& step : steps) step(variants.emplace_back(base));
  return variants;
}

std::vector<Variant> every_combination(const Variant& base, const std::vector<std::vector<Step>>& lists) {
  std::vector<Variant> variants{base};
  for (const auto& steps : lists) {
    if (variants.size() * (steps.size() + 1) > most_combinations)
      throw UsageError(fmt::format("the lists make more than {} combinations: shorten them, or leave out --all", format_number(most_combinations)));
    const std::size_t before = variants.size();
    for (const Step& step : steps)
      for (std::size_t at = 0; at < before; ++at) {
        Variant changed = variants[at];
        step(changed);
        variants.push_back(changed);
      }
  }
  variants.erase(variants.begin());
  return variants;
}

WhatIfAnswer answer_for(const RateModel& model, const Variant& variant, std::optional<double> base_rate) {
  const Evaluation evaluation = whatif::evaluate(model, variant.setup);
  WhatIfAnswer answer;
  answer.change = variant.change;
  answer.ingestion = variant.setup.ingestion;
  answer.prep = variant.setup.prep;
  answer.fetch = evaluation.fetch.value;
  answer.samples_per_s = evaluation.rule.samples_per_s;
  answer.ci95_samples_per_s = evaluation.ci95;
  if (model.dataset_samples) answer.epoch_seconds = static_cast<double>(*model.dataset_samples) / answer.samples_per_s;
  answer.bottleneck = resource_name(evaluation.rule.resource);
  answer.too_close = evaluation.too_close;
  if (variant.setup.ingestion) answer.stalls = stall_shares(answer.fetch, answer.prep, *variant.setup.ingestion);
  if (base_rate) answer.speedup = answer.samples_per_s / *base_rate;
  return answer;
}

std::optional<Finding> minio_finding(const RateModel& model) {
  if (model.cache == "minio") return std::nullopt;
  const std::string difference =
      model.cache == "none" ? "Without a cache every sample comes from storage; the answers with a cache are those of --cache minio."
      : model.cache == "minio, cost-aware"
          ? "Cost-aware admission saves more of storage's time than its share of the bytes, so F is higher than said here."
      : model.cache == "lru"
          ? "LRU drops items before an epoch of random order comes back to them, so it has fewer hits than it holds items and F is lower than said "
            "here."
          : "The page cache evicts what the epoch will still ask for, so it has fewer hits than it holds items and F is lower than said here.";
  return Finding{
      "closed-form-is-minio", Finding::Severity::warning,
      fmt::format("The profile's cache is \"{}\", but the closed form is that of a MinIO cache, which has as many hits an epoch as it holds items. "
                  "{}",
                  model.cache, difference)};
}

std::optional<Finding> closeness_finding(const RateModel& model) {
  const Evaluation base = whatif::evaluate(model, whatif::as_measured(model));
  if (!base.too_close) return std::nullopt;
  return Finding{
      "too-close-to-call", Finding::Severity::warning,
      fmt::format("As measured, what binds is too close to call: {}, and next {}, within the rates' intervals; changing one of them alone buys "
                  "little.",
                  whatif::binding_sentence(base.rule.resource, base), whatif::binding_sentence(base.rule.next, base))};
}

}  // namespace

WhatIfResult answer(const RateModel& model, const WhatIfQuestion& question) {
  WhatIfResult result;
  result.tool = this_tool();
  result.model =
      fmt::format("{}closed form, MinIO: samples/s = min(F, P, G), F by Eq 4 [DS-Analyzer, App. C]; steady state, stages that overlap fully",
                  model.emulated ? "emulated rates, " : "");
  result.rates = model.rates;
  result.base_cache_fraction = model.cache_fraction;

  if (auto finding = minio_finding(model)) result.findings.push_back(std::move(*finding));
  if (!model.rates.ingestion)
    result.findings.push_back(
        {"data-side-only", Finding::Severity::info,
         "The accelerators' rate G is not known: the answers are what the data side can feed, min(F, P). Give G by profiling with "
         "--accelerator or by --rates G=..."});
  if (auto finding = closeness_finding(model)) result.findings.push_back(std::move(*finding));

  const std::vector<std::vector<Step>> lists{cache_steps(model, question, result.findings), core_steps(model, question, result.findings),
                                             speed_steps(model, question), accelerator_steps(model, question), storage_steps(model, question)};
  const Variant base{whatif::as_measured(model), {}};
  result.answers.push_back(answer_for(model, base, std::nullopt));
  const double base_rate = result.answers.front().samples_per_s;
  const bool all = question.combine == WhatIfQuestion::Combine::every_combination;
  for (const Variant& variant : all ? every_combination(base, lists) : one_at_a_time(base, lists))
    result.answers.push_back(answer_for(model, variant, base_rate));
  std::stable_sort(result.answers.begin() + 1, result.answers.end(),
                   [](const WhatIfAnswer& left, const WhatIfAnswer& right) { return left.samples_per_s > right.samples_per_s; });

  for (const std::string& name : question.find) result.found.push_back(whatif::find(name, model));
  result.advice = whatif::advise(model);
  return result;
}

}  // namespace dsanalyze
