#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
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

/// Both servers were measured for a moment only, P for longer: they give P together, and keep their ratio.
void take_servers(const PrepServersRecord& record, RateModel& model) {
  constexpr double most_left = 0.5;
  if (record.left_to_cpu_fraction > most_left) return;  // the GPU's rate is that of the cores
  PrepServers servers = record.servers();
  if (!(servers.cpu > 0) || !(servers.gpu > 0) || !(servers.cores > 0)) return;
  const double measured = model.rates.prep / servers.with_share(model.gpu_share);
  if (model.prep_place != PrepPlace::cpu) servers.gpu *= measured;
  if (model.prep_place != PrepPlace::gpu) servers.cpu *= measured;
  if (model.prep_place != PrepPlace::cpu) servers.gpu_core_seconds /= measured;
  model.prep_servers = servers;
}

}  // namespace

RateModel rate_model(const ProfileResult& profile) {
  if (!profile.command.empty())
    throw UsageError(
        "the profile is of a launched training, whose loader is not dsanalyze's; profile its dataset with dsanalyze's own loader (dsanalyze profile "
        "DATASET)");
  const RateRecord& prep = required(profile.prep, "P (prep rate)", "prep");
  const RateRecord& cache = required(profile.cache, "C (cache fetch rate)", "prep");
  const RateRecord& storage = required(profile.storage, "S (storage fetch rate)", "fetch");
  require_consistent(profile, cache, storage);
  const ProfileSettings& settings = profile.settings;

  RateModel model;
  model.profile = std::make_shared<const ProfileResult>(profile);
  model.rates = {std::nullopt, prep.samples_per_s, cache.samples_per_s, storage.samples_per_s};
  model.prep_error = relative_error(prep);
  model.cache_error = relative_error(cache);
  model.storage_error = relative_error(storage);
  if (profile.ingestion && profile.ingestion->samples_per_s > 0) {
    model.rates.ingestion = profile.ingestion->samples_per_s;
    model.ingestion_error = relative_error(*profile.ingestion);
    model.accelerators = settings.accelerators;
  }
  if (profile.transfer && profile.transfer->samples_per_s > 0) {
    model.transfer = profile.transfer->samples_per_s;
    model.transfer_error = relative_error(*profile.transfer);
    model.transfers_floats = settings.dtype == DType::float32;
  }
  if (profile.network && profile.network->samples_per_s > 0) {
    model.network = profile.network->samples_per_s;
    model.network_error = relative_error(*profile.network);
  }
  model.prep_place = settings.prep_place;
  model.gpu_share = settings.gpu_share;
  if (profile.prep_servers) take_servers(*profile.prep_servers, model);
  model.batch_size = settings.batch_size;
  model.any_batch_size = emulates_accelerator(settings);

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
  model.emulated =
      emulates_accelerator(settings) || settings.storage == Seam::emulated || settings.prep == Seam::emulated || settings.network == Seam::emulated;
  model.profiled_jobs = std::max(settings.jobs, 1);
  model.profiled_dependent = settings.share == JobSharing::dependent;
  model.profiled_ranks = std::max(settings.world, 1);
  model.storage_scope = settings.storage_scope;
  model.balance_from = settings.balance_from;
  model.accelerator_shares_cores = profile.host.accelerator_shares_cores;
  return model;
}

namespace {

/// The text's "KEY=VALUE" parts in order, each key known and given once.
std::map<std::string, std::string> key_values(const std::string& text, const std::string& option, const std::vector<std::string>& known) {
  std::map<std::string, std::string> values;
  for (const std::string& part : split_list(text)) {
    const auto equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || equals + 1 == part.size())
      throw UsageError(fmt::format("{}: found \"{}\", expected {}=VALUE", option, part, key.empty() ? "NAME" : key));
    if (std::ranges::find(known, key.substr(0, key.find('@'))) == known.end()) {
      const auto near = nearest_name(key, known);
      throw UsageError(fmt::format("{}: \"{}\" is not known{}; known are {}", option, key, near ? fmt::format(" (did you mean \"{}\"?)", *near) : "",
                                   fmt::join(known, ", ")));
    }
    if (!values.emplace(key, part.substr(equals + 1)).second) throw UsageError(fmt::format("{}: {} is given twice", option, key));
  }
  return values;
}

struct TypedRate {
  double value = 0;
  double error = 0;
};

/// "4698", "4698±2%", "4698+-2%".
TypedRate typed_rate(const std::string& key, const std::string& text) {
  try {
    TypedRate rate;
    std::string number = text;
    for (const std::string sign : {"±", "+-", "+/-"}) {
      const auto at = text.find(sign);
      if (at == std::string::npos) continue;
      number = text.substr(0, at);
      rate.error = parse_share(text.substr(at + sign.size()));
      if (rate.error >= 1) throw UsageError(fmt::format("found an error of {}, expected less than 100 %", format_share(rate.error)));
      break;
    }
    if (number.ends_with("B/s") || number.ends_with("bit/s"))
      throw UsageError(fmt::format("found \"{}\", expected samples/s: divide the bytes/s by the mean size of a sample", text));
    rate.value = parse_number(number);
    if (rate.value <= 0) throw UsageError(fmt::format("found \"{}\", expected a rate above 0 in samples/s", text));
    return rate;
  } catch (const Error& error) {
    throw UsageError(fmt::format("--rates {}: {}", key, error.what()));
  }
}

double positive_number(const std::string& text) {
  const double value = parse_number(text);
  if (value <= 0) throw UsageError(fmt::format("found \"{}\", expected a number above 0", text));
  return value;
}

template <std::int64_t Most>
double count(const std::string& text) {
  return static_cast<double>(parse_integer(text, 1, Most));
}

Bytes positive_bytes(const std::string& text) {
  const Bytes bytes = parse_bytes(text);
  if (bytes == 0) throw UsageError("found 0 bytes, expected the dataset's size, for example dataset=146GiB");
  return bytes;
}

void read_base(const std::string& base, RateModel& model) {
  const auto values = key_values(base, "--base", {"cores", "accelerators", "batch", "dataset", "samples", "cache"});
  const auto value_of = [&values](const std::string& key, auto parse) -> std::optional<decltype(parse(key))> {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    try {
      return parse(found->second);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--base {}: {}", key, error.what()));
    }
  };
  model.cores = model.measured_cores_high = value_of("cores", positive_number);
  model.accelerators = value_of("accelerators", count<1'000'000>);
  model.batch_size = value_of("batch", count<1'000'000'000>);
  model.dataset_bytes = value_of("dataset", positive_bytes);
  if (const auto samples = value_of("samples", positive_number)) model.dataset_samples = static_cast<std::uint64_t>(*samples);
  if (const auto amount = value_of("cache", parse_byte_amount)) {
    if (amount->kind == ByteAmount::Kind::bytes && !model.dataset_bytes)
      throw UsageError(
          fmt::format("--base cache={}: bytes need the dataset's size: add dataset=146GiB, or give a share such as cache=35%", values.at("cache")));
    model.cache_fraction = std::min(amount->kind == ByteAmount::Kind::fraction ? amount->fraction : amount->share_of(*model.dataset_bytes), 1.0);
  }
  if (model.dataset_bytes && model.dataset_samples)
    model.storage_bytes_per_s = model.rates.storage * static_cast<double>(*model.dataset_bytes) / static_cast<double>(*model.dataset_samples);
}

void take_rate(const std::string& key, const TypedRate& rate, RateModel& model) {
  if (key == "G") {
    model.rates.ingestion = rate.value;
    model.ingestion_error = rate.error;
  } else if (key == "N") {
    model.network = rate.value;
    model.network_error = rate.error;
  } else {
    (key == "P" ? model.rates.prep : key == "C" ? model.rates.cache : model.rates.storage) = rate.value;
    (key == "P" ? model.prep_error : key == "C" ? model.cache_error : model.storage_error) = rate.error;
  }
}

/// "P@8": on 8 cores; "G@128": with batches of 128.
void take_point(const std::string& key, const TypedRate& rate, std::size_t at, RateModel& model, std::vector<ScalingPoint>& by_cores) {
  const std::string letter = key.substr(0, at);
  if (letter != "P" && letter != "G") throw UsageError(fmt::format("--rates {}: only P@CORES and G@BATCH are known at other numbers", key));
  double number = 0;
  try {
    number = parse_number(key.substr(at + 1));
  } catch (const Error& error) {
    throw UsageError(fmt::format("--rates {}: {}", key, error.what()));
  }
  if (number <= 0) throw UsageError(fmt::format("--rates {}: found {}, expected a number above 0 after the @", key, key.substr(at + 1)));
  if (letter == "P") {
    by_cores.push_back({number, rate.value, rate.error});
  } else {
    model.ingestion_by_batch.push_back({number, rate.value});
  }
}

}  // namespace

void take_typed_network(const std::string& rates, RateModel& model) {
  for (const auto& [key, text] : key_values(rates, "--rates", {"G", "P", "C", "S", "N"})) {
    if (key != "N")
      throw UsageError(
          fmt::format("--rates {}: the profile has its own; beside a profile only N, what one server gets from others' caches, is typed", key));
    take_rate(key, typed_rate(key, text), model);
  }
}

RateModel rate_model_from_text(const std::string& rates, const std::string& base) {
  RateModel model;
  model.typed = true;
  std::vector<ScalingPoint> by_cores;
  const std::vector<std::string> letters{"G", "P", "C", "S", "N"};
  for (const auto& [key, text] : key_values(rates, "--rates", letters)) {
    const TypedRate rate = typed_rate(key, text);
    if (const auto at = key.find('@'); at != std::string::npos) {
      take_point(key, rate, at, model, by_cores);
    } else {
      take_rate(key, rate, model);
    }
  }
  std::vector<std::string> missing;
  if (model.rates.prep <= 0) missing.emplace_back("P (prep)");
  if (model.rates.cache <= 0) missing.emplace_back("C (cache)");
  if (model.rates.storage <= 0) missing.emplace_back("S (storage)");
  if (!missing.empty())
    throw UsageError(
        fmt::format("--rates lacks {}: give all in samples/s, for example --rates G=9800,P=10200,C=252000,S=4700", fmt::join(missing, ", ")));
  if (!base.empty()) read_base(base, model);
  if (!by_cores.empty()) {
    if (!model.cores) throw UsageError("--rates P@...: P on other cores needs the number behind P: add --base cores=24");
    by_cores.push_back({*model.cores, model.rates.prep, model.prep_error});
    model.scaling = FittedScaling(by_cores, std::numeric_limits<double>::infinity());
    model.measured_cores_high = model.scaling.most_measured();
  }
  if (!model.ingestion_by_batch.empty() && !(model.batch_size && model.rates.ingestion))
    throw UsageError("--rates G@...: G at other batch sizes needs G and the batch size behind it: add --base batch=512");
  return model;
}

}  // namespace dsanalyze
