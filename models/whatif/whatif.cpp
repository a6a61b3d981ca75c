#include "whatif.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "core/records/rate_text.hpp"
#include "models/simulate/profile_simulation.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

using whatif::Evaluation;
using whatif::Step;
using whatif::Variant;

constexpr std::size_t most_combinations = 100'000;
constexpr std::size_t most_moved = 1'000;  // of a profile, of which each takes 10 to 50 ms

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

/// Takes out the variants that cannot be. The rest is answered; nothing left is an error.
void leave_out_impossible(const RateModel& model, std::vector<Variant>& variants, std::vector<Finding>& findings) {
  const std::size_t asked = variants.size();
  std::string reason;
  std::erase_if(variants, [&](const Variant& variant) {
    const auto why = whatif::impossible(model, variant);
    if (why) reason = *why;
    return why.has_value();
  });
  if (variants.size() == asked) return;
  if (variants.empty()) throw UsageError(fmt::format("none of the configurations asked about can be: {}", reason));
  findings.push_back({"impossible-left-out", Finding::Severity::warning,
                      fmt::format("{} of {} configurations were left out, for they cannot be: {}.", asked - variants.size(), asked, reason)});
}

WhatIfAnswer answer_for(const RateModel& model, const Variant& variant, const Evaluation& evaluation) {
  WhatIfAnswer answer;
  answer.change = variant.change;
  if (evaluation.ingestion) answer.ingestion = evaluation.ingestion->value;
  answer.prep = evaluation.prep.value;
  answer.fetch = evaluation.fetch.value;
  answer.cache = variant.setup.cache;
  answer.storage = variant.setup.storage;
  answer.samples_per_s = evaluation.rule.samples_per_s;
  answer.ci95_samples_per_s = evaluation.ci95;
  if (model.dataset_samples) answer.epoch_seconds = static_cast<double>(*model.dataset_samples) / (answer.samples_per_s / variant.setup.jobs);
  answer.bottleneck = resource_name(evaluation.rule.resource);
  if (evaluation.rule.resource == Resource::gpu && evaluation.by_transfer) answer.detail = "transfer";
  answer.too_close = evaluation.too_close;
  answer.extrapolation = whatif::extrapolation(model, variant.change);
  answer.stalls = evaluation.stalls;
  answer.simulated = evaluation.simulated;
  if (const auto& jobs = evaluation.jobs)
    answer.jobs = {jobs->samples_per_s_per_job, jobs->reads_over_dataset, jobs->prepared_over_dataset, jobs->prepared_batches};
  if (const auto& servers = evaluation.servers)
    answer.servers = {servers->samples_per_s_server, fetch_part_name(servers->fetch_part), servers->storage_bytes_server_epoch,
                      servers->network_bytes_server_epoch, servers->slowest_excess};
  return answer;
}

std::optional<Finding> cache_finding(const RateModel& model, const WhatIfQuestion& question) {
  if (model.without_cache && !question.cache_sizes.empty())
    return Finding{"cache-not-minio", Finding::Severity::info, "The profile ran without a cache; answers with one are those of --cache minio."};
  if (model.misses.is_minio()) return std::nullopt;
  const std::string how = model.misses.facts().kind == CacheKind::minio
                              ? "It keeps the samples that save most of storage's time"
                              : "It evicts what the epoch will still ask for, which is predicted by a model of it";
  return Finding{"cache-not-minio", Finding::Severity::info,
                 fmt::format("The profile's cache is \"{}\". {}: with {} of the dataset cached, {} of storage's time remains; with plain MinIO, {}.",
                             whatif::cache_name(model.misses.facts()), how, format_share(model.cache_fraction),
                             format_share(model.misses.storage_share(model.cache_fraction)), format_share(1 - model.cache_fraction))};
}

std::optional<Finding> closeness_finding(const Evaluation& base) {
  if (!base.too_close) return std::nullopt;
  return Finding{"too-close-to-call", Finding::Severity::warning,
                 fmt::format("It is inconclusive whether {} or {}, as the intervals overlap; changing one of them alone buys "
                             "little.",
                             whatif::binding_sentence(base.rule.resource, base), whatif::binding_sentence(base.rule.next, base))};
}

/// What the full run lost beside what the rates give is lost by a changed configuration, too, and no rate knows how much.
std::optional<Finding> interference_finding(const RateModel& model) {
  if (!model.attained || model.interference <= 0) return std::nullopt;
  return Finding{"interference", Finding::Severity::warning,
                 fmt::format("As measured, the full run reached {} samples/s; by the rates it would be {}. Between them lies interference, {} of the "
                             "epoch: {}. No answer here knows of it; expect a changed configuration to lose a part as well.",
                             format_rate(model.attained->samples_per_s, model.attained->ci95_samples_per_s),
                             format_rate(model.attained->by_rates_samples_per_s, model.attained->ci95_by_rates_samples_per_s),
                             format_share(model.interference), fmt::join(model.attained->evidence, "; "))};
}

/// A profile of several jobs is no configuration of this model; its rates are.
std::optional<Finding> jobs_finding(const RateModel& model, const WhatIfQuestion& question) {
  if (model.profiled_jobs < 2) return std::nullopt;
  std::string text = fmt::format(
      "The profile ran {} jobs side by side. Its rates P, C and S are the server's and G is one job's, so what is said as "
      "measured is of one job alone on this server.",
      model.profiled_jobs);
  if (model.profiled_dependent)
    text += " Ask for jobs that differ with --job-mix FILE --share none,dependent: it says their speeds, and the profile's rates are used.";
  else if (question.jobs.empty())
    text += fmt::format(" Ask for jobs side by side with --jobs {} --share none,coordinated.", model.profiled_jobs);
  return Finding{"one-job-alone", Finding::Severity::info, std::move(text)};
}

/// Nor is one of several ranks.
std::optional<Finding> ranks_finding(const RateModel& model, const WhatIfQuestion& question) {
  if (model.profiled_ranks < 2) return std::nullopt;
  std::string text = fmt::format(
      "The profile ran {} ranks, one a server. Its rates P, C and S are one server's and G is one rank's, so what is said as measured is of one "
      "server alone.",
      model.profiled_ranks);
  if (question.servers.empty())
    text += fmt::format(" Ask for several with --servers {}{}.", model.profiled_ranks,
                        model.network ? " --partition none,partitioned,locality" : " --partition partitioned --network 40Gbit/s");
  return Finding{"one-server-alone", Finding::Severity::info, std::move(text)};
}

/// Where fetching binds and the server with the most to fetch lags: a user who divides the dataset by the servers finds other numbers.
std::optional<Finding> slowest_server_finding(const std::vector<WhatIfAnswer>& answers) {
  constexpr double worth_a_word = 0.01;
  double most = 0;
  for (const WhatIfAnswer& each : answers)
    if (each.servers && each.bottleneck == resource_name(Resource::io)) most = std::max(most, each.servers->slowest_excess);
  if (most < worth_a_word) return std::nullopt;
  return Finding{"slowest-server", Finding::Severity::info,
                 fmt::format("Servers wait at the end of each epoch for the one that has the most to fetch in it: up to {} longer than the mean one, "
                             "which these rates allow for. The more samples an epoch has, the less it is.",
                             format_share(most))};
}

}  // namespace

WhatIfResult answer(const RateModel& model, const WhatIfQuestion& question, const std::function<void(double)>& progress) {
  if (!question.orders.empty())
    throw UsageError(
        "--order: this is answered for a launched training (dsanalyze profile -- COMMAND); for dsanalyze's own loader, profile with --order");
  if (!question.workers.empty() || std::ranges::find(question.find, "workers") != question.find.end())
    throw UsageError(
        "--workers: num_workers is that of a training's own loader (profile it with dsanalyze profile -- COMMAND); of dsanalyze's loader ask "
        "--cores");
  WhatIfResult result;
  result.tool = this_tool();
  result.model = fmt::format("{}{}, with a {} cache; steady state", model.emulated ? "emulated rates, " : "",
                             model.profile ? "samples moved through the loader one by one, at most min(F, P, G)"
                                           : "samples/s = min(F, P, G), F by Eq 4 [DS-Analyzer, App. C]",
                             model.misses.is_minio() ? "MinIO" : whatif::cache_name(model.misses.facts()));
  result.rates = model.rates;
  result.network = model.network;
  result.base_cache_fraction = model.cache_fraction;
  result.attained = model.attained;
  result.interference = model.interference;

  if (auto finding = cache_finding(model, question)) result.findings.push_back(std::move(*finding));
  if (!model.rates.ingestion)
    result.findings.push_back(
        {"data-side-only", Finding::Severity::info,
         "The accelerators' rate G is not known: the answers are what the data side can feed, min(F, P). Give G by profiling with "
         "--accelerator or by --rates G=..."});
  if (model.accelerator_shares_cores)
    result.findings.push_back(
        {"accelerator-shares-cores", Finding::Severity::warning,
         "The CPU trained in this profile and took cores that prep needs; the answers take the two for independent, so they promise too "
         "much, the more the nearer P and G are. Profile with --accelerator emulated:RATE."});
  if (auto finding = interference_finding(model)) result.findings.push_back(std::move(*finding));
  if (auto finding = jobs_finding(model, question)) result.findings.push_back(std::move(*finding));
  if (auto finding = ranks_finding(model, question)) result.findings.push_back(std::move(*finding));
  const Variant base{whatif::as_measured(model), {}};
  const Evaluation now = whatif::evaluate(model, base);
  if (auto finding = closeness_finding(now)) result.findings.push_back(std::move(*finding));

  const std::vector<std::vector<Step>> lists = whatif::steps_of(model, question, result.findings);
  result.answers.push_back(answer_for(model, base, now));
  const bool all = question.combine == WhatIfQuestion::Combine::every_combination;
  // A model that contradicts the run is not sure of anything.
  const bool contradicted = model.attained && !model.attained->ci95_samples_per_s.overlaps(now.ci95);
  std::vector<Variant> variants = all ? every_combination(base, lists) : one_at_a_time(base, lists);
  leave_out_impossible(model, variants, result.findings);
  if (model.profile && variants.size() > most_moved)
    throw UsageError(fmt::format("the lists make {} configurations, of which each takes up to 50 ms: shorten them to {}",
                                 format_number(static_cast<double>(variants.size())), format_number(most_moved)));
  for (const Variant& variant : variants) {
    const Evaluation then = whatif::evaluate(model, variant);
    WhatIfAnswer& each = result.answers.emplace_back(answer_for(model, variant, then));
    each.speedup = then.simulated ? then.rule.samples_per_s / now.rule.samples_per_s : then.lowest / now.lowest;
    if (progress) progress(static_cast<double>(result.answers.size() - 1) / static_cast<double>(variants.size()));
  }
  for (WhatIfAnswer& each : result.answers) each.too_close |= contradicted;
  std::stable_sort(result.answers.begin() + 1, result.answers.end(),
                   [](const WhatIfAnswer& left, const WhatIfAnswer& right) { return left.samples_per_s > right.samples_per_s; });

  if (auto finding = whatif::far_extrapolation_finding(std::ranges::max(result.answers, {}, &WhatIfAnswer::extrapolation).extrapolation))
    result.findings.push_back(std::move(*finding));
  for (const std::string& name : question.find) result.found.push_back(whatif::find(name, model, now));
  if (auto finding = slowest_server_finding(result.answers)) result.findings.push_back(std::move(*finding));
  if (model.profile)
    if (auto finding = below_rates_finding(*model.profile, result.answers)) result.findings.push_back(std::move(*finding));
  result.advice = whatif::advise(model, now);
  if (!question.jobs.empty())
    if (auto sharing = whatif::share_prep_advice(model, std::ranges::max(question.jobs))) result.advice.push_back(std::move(*sharing));
  return result;
}

}  // namespace dsanalyze
