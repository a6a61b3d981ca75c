#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "whatif.hpp"

namespace dsanalyze {
namespace {

const RateRecord& required(const std::optional<RateRecord>& rate, const std::string& letter, const std::string& run) {
  if (!rate || rate->samples_per_s <= 0)
    throw UsageError(fmt::format("the profile holds no {}: what-if answers need it; profile again with the run \"{}\" (--runs)", letter, run));
  return *rate;
}

double cores_behind_prep(const ProfileResult& profile) {
  const ProfileSettings& settings = profile.settings;
  double cores = settings.cores > 0 ? settings.cores : profile.host.cores;
  if (settings.workers > 0) cores = cores > 0 ? std::min<double>(cores, settings.workers) : settings.workers;
  return cores;
}

/// A point without an interval is not exact: it is taken to be as unsure as P.
double relative_error(const CorePoint& point, double of_prep) {
  if (!point.ci95_samples_per_s || point.samples_per_s <= 0) return of_prep;
  return std::max((point.ci95_samples_per_s->high - point.ci95_samples_per_s->low) / 2 / point.samples_per_s, 0.0);
}

/// F is a mean of C and S, and of ranks of C and what N and S give at the same time: above both it contradicts them.
void require_consistent(const ProfileResult& profile, const RateRecord& cache, const RateRecord& storage) {
  if (!profile.fetch) return;
  const double network = profile.network ? profile.network->ci95_samples_per_s.high : 0;
  const double most = std::max(cache.ci95_samples_per_s.high, storage.ci95_samples_per_s.high + network);
  if (most > 0 && profile.fetch->ci95_samples_per_s.low > most * (1 + 1e-9))
    throw UsageError(fmt::format("/rates/F/samples_per_s: found {}, which contradicts C ({}) and S ({}): fetch cannot be faster than both",
                                 format_number(profile.fetch->samples_per_s), format_number(cache.samples_per_s),
                                 format_number(storage.samples_per_s)));
}

/// Hardware threads of the record's physical cores. Those lie behind the CPUs that the process may use: where the host has more than two threads for
/// each of them, the others are other cores'.
double threads_of(const HostRecord& host) {
  if (host.cores_online <= 2 * host.cores_physical) return host.cores_online;
  return std::max<double>(host.cores_physical, std::floor(host.cores));
}

/// How P goes with cores. Virtual cores (emulated prep) scale linearly whatever their number.
void take_scaling(const ProfileResult& profile, RateModel& model) {
  if (const double cores = cores_behind_prep(profile); cores > 0) model.cores = cores;
  if (profile.settings.prep == Seam::emulated || !model.cores) return;
  model.measured_cores_high = model.cores;
  std::vector<ScalingPoint> points;
  for (const CorePoint& point : profile.prep_by_cores) {
    points.push_back({static_cast<double>(point.cores), point.samples_per_s, relative_error(point, model.prep_error)});
    model.measured_cores_high = std::max<double>(*model.measured_cores_high, point.cores);
  }
  if (points.empty()) points.push_back({*model.cores, model.rates.prep, model.prep_error});
  const HostRecord& host = profile.host;
  const double threads = threads_of(host);
  if (host.cores_physical > 0 && host.cores_physical < threads)
    model.scaling = FittedScaling(points, host.cores_physical, threads);
  else
    model.scaling = FittedScaling(points, std::numeric_limits<double>::infinity());
}

void take_storage(const ProfileResult& profile, double scale, RateModel& model) {
  const ProfileSettings& settings = profile.settings;
  model.storage_bytes_per_s = profile.storage->bytes_per_s > 0 ? std::optional(profile.storage->bytes_per_s * scale) : std::nullopt;
  model.fetch_concurrency = settings.fetch_concurrency;
  if (profile.dataset.mean_sample_bytes > 0) model.request_bytes = profile.dataset.mean_sample_bytes * scale;
  std::vector<StoragePoint> points = profile.storage_by_request;
  for (StoragePoint& point : points) {
    point.request_bytes *= scale;
    point.bytes_per_s *= scale;
  }
  if (!points.empty()) model.storage_curve.emplace(points, settings.fetch_concurrency);
}

void take_cache(const ProfileResult& profile, double scale, RateModel& model) {
  const ProfileSettings& settings = profile.settings;
  if (const auto fraction = profile.cache_fraction())
    model.cache_fraction = std::clamp(*fraction, 0.0, 1.0);
  else if (settings.cache != CacheKind::none && settings.cache_size && settings.cache_size->kind == ByteAmount::Kind::fraction)
    model.cache_fraction = std::clamp(settings.cache_size->fraction, 0.0, 1.0);
  MissModel::Facts facts;
  facts.kind = settings.cache;
  facts.admission = settings.admission;
  facts.order = settings.order;
  if (model.request_bytes) facts.sample_bytes = static_cast<Bytes>(std::llround(*model.request_bytes));
  model.without_cache = settings.cache == CacheKind::none;
  if (model.without_cache) {
    facts.kind = CacheKind::minio;  // with nothing cached, the same
    model.cache_fraction = 0;
  }
  if (const auto& sizes = profile.distributions.sample_bytes) {
    if (sizes->deviation && sizes->mean > 0) model.size_variation = *sizes->deviation / sizes->mean;
    facts.size_quantiles = sizes->quantiles;
    for (double& size : facts.size_quantiles) size *= scale;
  }
  std::vector<CostPoint> cost;
  for (const StoragePoint& point : profile.storage_by_request)
    if (point.concurrency == settings.fetch_concurrency) cost.push_back({point.request_bytes * scale, point.bytes_per_s * scale});
  facts.cost = fit_storage_cost(cost);
  model.misses = MissModel(std::move(facts));
}

}  // namespace

RateModel rate_model(const ProfileResult& profile) {
  if (!profile.command.empty())
    throw UsageError(
        "the profile is of a launched training, whose storage and cache were not measured apart: what-if answers need S and C; profile its "
        "dataset with dsanalyze's own loader (dsanalyze profile DATASET)");
  const RateRecord& prep = required(profile.prep, "P (prep rate)", "prep");
  const RateRecord& cache = required(profile.cache, "C (cache fetch rate)", "prep");
  const RateRecord& storage = required(profile.storage, "S (storage fetch rate)", "fetch");
  require_consistent(profile, cache, storage);
  const ProfileSettings& settings = profile.settings;

  RateModel model;
  model.rates = {std::nullopt, prep.samples_per_s, cache.samples_per_s, storage.samples_per_s};
  model.prep_error = relative_error(prep);
  model.cache_error = relative_error(cache);
  model.storage_error = relative_error(storage);
  if (profile.ingestion && profile.ingestion->samples_per_s > 0) {
    model.rates.ingestion = profile.ingestion->samples_per_s;
    model.ingestion_error = relative_error(*profile.ingestion);
    model.accelerators = settings.accelerators;
  }
  if (profile.network && profile.network->samples_per_s > 0) {
    model.network = profile.network->samples_per_s;
    model.network_error = relative_error(*profile.network);
  }
  model.batch_size = settings.batch_size;
  model.any_batch_size = settings.accelerator == AcceleratorKind::emulated;

  const double scale = settings.scale > 0 ? settings.scale : 1;
  if (profile.dataset.bytes > 0) model.dataset_bytes = static_cast<Bytes>(std::llround(static_cast<double>(profile.dataset.bytes) * scale));
  if (profile.dataset.samples > 0) model.dataset_samples = profile.dataset.samples;
  take_scaling(profile, model);
  take_storage(profile, scale, model);
  take_cache(profile, scale, model);
  if (settings.jobs <= 1 && settings.world <= 1) model.attained = profile.attained;
  if (model.attained && profile.stalls && profile.stalls->interference)
    model.interference = std::clamp(profile.stalls->interference->fraction, 0.0, 1.0);
  if (profile.observed && profile.observed->samples_per_s > 0) model.observed = profile.observed->samples_per_s;
  model.emulated = settings.accelerator == AcceleratorKind::emulated || settings.storage == Seam::emulated || settings.prep == Seam::emulated ||
                   settings.network == Seam::emulated;
  model.profiled_jobs = std::max(settings.jobs, 1);
  model.profiled_ranks = std::max(settings.world, 1);
  model.storage_scope = settings.storage_scope;
  model.balance_from = settings.balance_from;
  model.accelerator_shares_cores = profile.host.accelerator_shares_cores;
  return model;
}

}  // namespace dsanalyze
