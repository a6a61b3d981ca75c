#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text/enum_names.hpp"
#include "core/records/rate_text.hpp"
#include "models/simulate/profile_simulation.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

const MissModel& misses_of(const RateModel& model, const Setup& setup) { return setup.misses ? *setup.misses : model.misses; }

/// G, P and F of all jobs or servers together.
struct Stages {
  std::optional<double> ingestion;
  double prep = 0;
  double fetch = 0;
};

JobsAnswer jobs_answer(const RateModel& model, const Setup& setup) {
  JobsSetup jobs;
  jobs.rates = {setup.ingestion, setup.prep, setup.cache, setup.storage};
  jobs.jobs = setup.jobs;
  jobs.sharing = setup.sharing;
  jobs.cache_fraction = setup.cache_fraction;
  jobs.cache = misses_of(model, setup).facts().kind;
  // One sweep serves all, or each sweeps for itself through the one cache.
  jobs.missed_share = misses_of(model, setup).storage_share(setup.cache_fraction, setup.sharing == JobSharing::none ? setup.jobs : 1);
  jobs.batch_samples = model.batch_size.value_or(1);
  return answer_jobs(jobs);
}

ServersAnswer servers_answer(const RateModel& model, const Setup& setup) {
  ServersSetup servers;
  servers.rates = {setup.ingestion, setup.prep, setup.cache, setup.storage};
  servers.servers = setup.servers;
  servers.partition = setup.partition;
  servers.balance_from = setup.balance_from;
  servers.storage_scope = setup.storage_scope;
  servers.network = setup.network;
  servers.cache_fraction = setup.cache_fraction;
  const MissModel& misses = misses_of(model, setup);
  servers.cache = misses.facts().kind;
  if (servers.cache == CacheKind::page || servers.cache == CacheKind::page_model_linux)
    servers.missed_share = misses.replayed_share_of_server(setup.cache_fraction, setup.servers);
  servers.size_variation = model.size_variation;
  servers.dataset_samples = static_cast<double>(model.dataset_samples.value_or(0));
  servers.dataset_bytes = static_cast<double>(model.dataset_bytes.value_or(0));
  servers.local_batch = setup.local_batch;
  return answer_servers(servers);
}

Stages stages_of(const RateModel& model, const Setup& setup) {
  const auto times = [&setup](double n) { return setup.ingestion ? std::optional(*setup.ingestion * n) : std::nullopt; };
  if (setup.jobs > 1) {
    const JobsAnswer answer = jobs_answer(model, setup);
    const double n = setup.jobs;
    return {answer.ingestion ? std::optional(*answer.ingestion * n) : std::nullopt, answer.prep * n, answer.fetch * n};
  }
  if (setup.servers > 1) {
    const double n = setup.servers;
    return {times(n), setup.prep * n, servers_answer(model, setup).fetch * n};
  }
  return {setup.ingestion, setup.prep,
          effective_fetch_rate(1 - misses_of(model, setup).storage_share(setup.cache_fraction), setup.cache, setup.storage)};
}

/// What an error of one of the rates behind F makes of F, as a share of it: half of what moving the rate both ways changes.
double moved_fetch(const RateModel& model, const Setup& setup, double Setup::*rate, double error) {
  if (error <= 0 || !std::isfinite(setup.*rate)) return 0;
  constexpr double small = 1e-4;  // F is smooth: the slope there, times the error
  Setup up = setup;
  Setup down = setup;
  up.*rate *= 1 + small;
  down.*rate *= 1 - small;
  const double fetch = stages_of(model, setup).fetch;
  return std::isfinite(fetch) ? (stages_of(model, up).fetch - stages_of(model, down).fetch) / (2 * small * fetch) * error : 0;
}

/// One window shows no scatter, so its rate is unknown by all of itself: nothing is sure of it, however far it lies from the others.
bool is_unknown(const RateEstimate& rate) { return rate.ci95.low <= 0; }

/// Whether a rate but the lowest may be the lowest, and which.
void take_rival(Evaluation& result) {
  const RateEstimate& lowest = rate_of(result.rule.resource, result);
  const auto is_rival = [&](Resource resource) {
    return resource != result.rule.resource && (resource != Resource::gpu || result.ingestion) &&
           (lowest.ci95.overlaps(rate_of(resource, result).ci95) || is_unknown(lowest) || is_unknown(rate_of(resource, result)));
  };
  std::vector<Resource> rivals;
  for (const Resource resource : {result.rule.next, Resource::gpu, Resource::cpu, Resource::io})
    if (is_rival(resource)) rivals.push_back(resource);
  result.too_close = !rivals.empty();
  if (rivals.empty()) return;
  result.rule.next = rivals.front();
  result.rule.next_samples_per_s = rate_of(result.rule.next, result).value;
}

}  // namespace

RateEstimate with_error(double value, double relative_error) {
  return {value, {value * std::max(0.0, 1 - relative_error), value * (1 + relative_error)}};
}

Setup as_measured(const RateModel& model) {
  Setup setup;
  setup.ingestion = model.rates.ingestion;
  setup.transfer = model.transfer;
  setup.prep = model.rates.prep;
  setup.prep_servers = model.prep_servers;
  setup.prep_place = model.prep_place;
  setup.gpu_share = model.gpu_share;
  setup.cache = model.rates.cache;
  setup.storage = model.rates.storage;
  setup.cache_fraction = model.cache_fraction;
  setup.prep_error = model.prep_error;
  setup.network = model.network.value_or(setup.network);
  setup.local_batch = model.batch_size.value_or(1) * model.accelerators.value_or(1);
  return setup;
}

void take_prep(Setup& setup) {
  const PrepServers& servers = *setup.prep_servers;
  switch (setup.prep_place) {
    case PrepPlace::cpu:
      setup.gpu_share = 0;
      break;
    case PrepPlace::gpu:
      setup.gpu_share = 1;
      break;
    case PrepPlace::split:
      setup.gpu_share = servers.best_share(setup.transfer.value_or(std::numeric_limits<double>::infinity()));
      break;
  }
  setup.prep = servers.with_share(setup.gpu_share);
}

void take_cores(const RateModel& model, double cores, Setup& setup) {
  const double factor = model.scaling.factor(*model.cores, cores);
  setup.prep_error = model.scaling.scaled_error(*model.cores, cores, model.prep_error);
  if (!setup.prep_servers) {
    setup.prep *= factor;
    return;
  }
  setup.prep_servers->cpu *= factor;
  setup.prep_servers->cores = cores;
  take_prep(setup);
}

std::optional<std::string> impossible(const RateModel& model, const Variant& variant) {
  const WhatIfChange& change = variant.change;
  if (change.cores && !(*change.cores > 0)) return "prep needs a core, which --cores 0 does not give";
  if (change.servers && *change.servers > most_servers)
    return fmt::format("{} servers are more than are answered, at most {} servers", format_number(*change.servers), format_number(most_servers));
  if (!model.dataset_samples || !(change.servers || change.accelerators || change.batch_size)) return std::nullopt;
  const double global_batch = variant.setup.servers * variant.setup.local_batch;
  if (global_batch <= static_cast<double>(*model.dataset_samples)) return std::nullopt;
  return fmt::format("a global batch of {} samples is larger than the dataset of {}", format_number(global_batch),
                     format_number(static_cast<double>(*model.dataset_samples)));
}

Evaluation bounds(const RateModel& model, const Setup& setup) {
  Evaluation result;
  Stages stages = stages_of(model, setup);
  result.prep = with_error(stages.prep, std::hypot(setup.prep_error, model.run_error));
  const double fetch_error =
      std::hypot(moved_fetch(model, setup, &Setup::cache, model.cache_error), moved_fetch(model, setup, &Setup::storage, model.storage_error),
                 moved_fetch(model, setup, &Setup::network, model.network_error));
  result.fetch = with_error(stages.fetch, std::min(1.0, std::hypot(fetch_error, model.run_error)));
  // What accelerators are emulated at is asked for and the same in every run.
  const double run_error_of_ingestion = model.any_batch_size ? 0 : model.run_error;
  if (stages.ingestion) result.ingestion = with_error(*stages.ingestion, std::hypot(model.ingestion_error, run_error_of_ingestion));
  // A batch is copied while the one before is trained on, so the slower of the two counts. What the GPU has prepared is there already.
  const double all = setup.jobs > 1 ? setup.jobs : setup.servers;
  if (const double supply = setup.transfer ? transfer_supply(*setup.transfer * all, setup.gpu_share) : 0;
      stages.ingestion && setup.transfer && supply < *stages.ingestion) {
    stages.ingestion = supply;
    result.ingestion = with_error(*stages.ingestion, std::hypot(model.transfer_error, model.run_error));
    result.by_transfer = true;
  }
  result.rule = bottleneck(stages.fetch, stages.prep, stages.ingestion);
  result.lowest = result.rule.samples_per_s;
  if (stages.ingestion) result.stalls = stall_shares(stages.fetch, stages.prep, *stages.ingestion);
  if (setup.jobs > 1) result.jobs = jobs_answer(model, setup);
  if (setup.jobs == 1 && setup.servers > 1) result.servers = servers_answer(model, setup);

  std::vector<RateEstimate> rates{result.prep, result.fetch};
  if (result.ingestion) rates.push_back(*result.ingestion);
  take_rival(result);
  result.ci95 = {std::ranges::min(rates, {}, [](const RateEstimate& rate) { return rate.ci95.low; }).ci95.low,
                 std::ranges::min(rates, {}, [](const RateEstimate& rate) { return rate.ci95.high; }).ci95.high};
  return result;
}

Evaluation evaluate(const RateModel& model, const Variant& variant) {
  Evaluation result = bounds(model, variant.setup);
  if (!model.profile || variant.setup.jobs > 1 || variant.setup.servers > 1) return result;
  WhatIfAnswer moved;
  moved.change = variant.change;
  if (result.ingestion) moved.ingestion = result.ingestion->value;
  moved.prep = result.prep.value;
  moved.fetch = result.fetch.value;
  moved.cache = variant.setup.cache;
  moved.storage = variant.setup.storage;
  moved.samples_per_s = result.lowest;
  moved.ci95_samples_per_s = result.ci95;
  moved.too_close = result.too_close;
  simulate(*model.profile, moved);
  if (!moved.simulated) return result;
  result.simulated = moved.simulated;
  result.rule.samples_per_s = moved.samples_per_s;
  result.ci95 = moved.ci95_samples_per_s;
  result.too_close = moved.too_close;
  result.stalls = moved.stalls;
  const Resource resource = enum_named<Resource>(moved.bottleneck).value_or(result.rule.resource);
  if (result.rule.resource != resource) {
    result.rule.next = std::exchange(result.rule.resource, resource);
    result.rule.next_samples_per_s = result.lowest;
  }
  return result;
}

std::string cache_name(const MissModel::Facts& facts) {
  return cache_kind_name(facts.kind) + (facts.admission == Admission::cost_aware ? ":cost-aware" : "");
}

double fetch_rate(const RateModel& model, double cache_fraction) {
  return effective_fetch_rate(1 - model.misses.storage_share(cache_fraction), model.rates.cache, model.rates.storage);
}

std::optional<double> cache_fraction_for(const RateModel& model, double target) {
  if (model.misses.is_minio()) return dsanalyze::cache_fraction_for(target, model.rates.cache, model.rates.storage);
  double low = 0;
  double high = 1;
  if (fetch_rate(model, high) < target) return std::nullopt;
  if (fetch_rate(model, low) >= target) return 0;
  while (high - low > 1e-4) {
    const double middle = (low + high) / 2;
    (fetch_rate(model, middle) >= target ? high : low) = middle;
  }
  return high;
}

bool inconclusive(const Evaluation& evaluation) { return evaluation.too_close && evaluation.ci95.high > evaluation.ci95.low; }

std::string cores_text(double cores) { return format_number(cores) + (cores == 1 ? " core" : " cores"); }

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
      return (evaluation.by_transfer ? "copies to the GPU are the bottleneck at " : "the accelerators are the bottleneck at ") +
             rate_with_letter(rate, letter_of_ingestion(evaluation));
    case Resource::cpu:
      return "prep is the bottleneck at " + rate_with_letter(rate, 'P');
    case Resource::io:
      break;
  }
  return "fetch is the bottleneck at " + rate_with_letter(rate, 'F');
}

namespace {

/// How far batches lie outside those that G was measured with.
double batch_extrapolation(const RateModel& model, double batch) {
  if (model.any_batch_size || !model.batch_size) return 1;
  double least = *model.batch_size;
  double most = least;
  for (const BatchPoint& point : model.ingestion_by_batch) {
    least = std::min(least, point.batch_size);
    most = std::max(most, point.batch_size);
  }
  return std::max(batch / most, least / batch);
}

double storage_extrapolation(const RateModel& model, const WhatIfChange& change) {
  double most = change.storage_factor.value_or(1);
  if (change.storage_bytes_per_s && model.storage_bytes_per_s) most = std::max(most, *change.storage_bytes_per_s / *model.storage_bytes_per_s);
  if (!model.storage_curve) return most;
  if (change.request_bytes) most = std::max(most, *change.request_bytes / model.storage_curve->largest_request());
  if (change.fetch_concurrency) most = std::max(most, *change.fetch_concurrency / model.storage_curve->largest_concurrency());
  return most;
}

}  // namespace

double extrapolation(const RateModel& model, const WhatIfChange& change) {
  double most = std::max(1.0, storage_extrapolation(model, change));
  if (change.cores && model.measured_cores_high) most = std::max(most, *change.cores / *model.measured_cores_high);
  if (change.cores_factor) most = std::max(most, *change.cores_factor);
  const double accelerators = change.accelerators && model.accelerators ? *change.accelerators / *model.accelerators : 1;
  most = std::max(most, accelerators * change.accelerator_speed.value_or(1));
  if (change.servers) most = std::max(most, static_cast<double>(*change.servers) / std::max(model.profiled_ranks, 1));
  if (change.jobs) most = std::max(most, static_cast<double>(*change.jobs) / std::max(model.profiled_jobs, 1));
  if (change.batch_size) most = std::max(most, batch_extrapolation(model, *change.batch_size));
  return most;
}

std::optional<Finding> far_extrapolation_finding(double most) {
  if (most <= most_extrapolation) return std::nullopt;
  return Finding{"extrapolated-far", Finding::Severity::warning,
                 fmt::format("A resource is up to {} times what was measured; beyond {} times an answer is an estimate, never certain.",
                             format_number(most), format_number(most_extrapolation))};
}

}  // namespace dsanalyze::whatif
