#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze::whatif {

void require_positive(double value, const std::string& option) {
  if (!(value > 0)) throw UsageError(fmt::format("{}: found {}, expected a value above 0", option, value));
}

namespace {

using Findings = std::vector<Finding>;

std::vector<Step> cache_steps(const RateModel& model, const WhatIfQuestion& question, Findings& findings) {
  std::vector<Step> steps;
  for (const ByteAmount& amount : question.cache_sizes) {
    const bool in_bytes = amount.kind == ByteAmount::Kind::bytes;
    if (in_bytes && !model.dataset_bytes)
      throw UsageError(fmt::format("--cache-size {}: bytes need the dataset's size: add --base dataset=146GiB, or give a share such as 35%",
                                   format_bytes(amount.bytes)));
    double fraction = in_bytes ? amount.share_of(*model.dataset_bytes) : amount.fraction;
    if (fraction > 1) {
      findings.push_back({"cache-larger-than-dataset", Finding::Severity::info,
                          fmt::format("--cache-size {}: the whole dataset fits, so the cache would hold {}; answered as 100 %.",
                                      in_bytes ? format_bytes(amount.bytes) : format_share(fraction),
                                      model.dataset_bytes ? "its " + format_bytes(*model.dataset_bytes) : "all of it")});
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

std::vector<Step> cache_kind_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  for (const auto& [kind, admission] : question.caches) {
    MissModel::Facts facts = model.misses.facts();
    facts.kind = kind;
    facts.admission = admission;
    if (admission == Admission::cost_aware && (facts.size_quantiles.empty() || facts.cost.seconds_per_request <= 0))
      throw UsageError(
          "--cache minio:cost-aware: needs the sizes of the samples and what a request costs storage, which a profile measures with its run "
          "\"fetch\"");
    steps.emplace_back([misses = std::make_shared<const MissModel>(facts), name = cache_name(facts)](Variant& variant) {
      variant.setup.misses = misses;
      variant.change.cache = name;
    });
  }
  return steps;
}

/// Why P on so many cores is no measurement.
Finding prep_extrapolated(const RateModel& model, double most) {
  const ScalingLaw& law = model.scaling.law();
  const bool straight = law.contention <= 0 && law.coherence <= 0;
  std::string how = straight ? "as if prep scaled linearly, so it is an upper bound"
                             : fmt::format("by the scalability law fitted to the measured points (contention {}, coherence {})",
                                           format_share(law.contention), format_share(law.coherence));
  if (most > law.physical_cores)
    how += fmt::format("; the threads beyond {} physical cores count {} each [DS-Analyzer, App. B.1]", format_number(law.physical_cores),
                       format_share(law.thread_share));
  if (most > law.host_threads) how += fmt::format(", and more than {} threads are those of a larger machine alike", format_number(law.host_threads));
  return {
      "prep-extrapolated", Finding::Severity::warning,
      fmt::format("P was measured on up to {}; up to {} it is extrapolated {}.", cores_text(*model.measured_cores_high), format_number(most), how)};
}

std::vector<Step> core_steps(const RateModel& model, const WhatIfQuestion& question, Findings& findings) {
  std::vector<Step> steps;
  double most = 0;
  for (const auto& change : question.cores) {
    if (!change.cores) require_positive(change.factor.value_or(0), "--cores");
    if (change.cores && !model.cores)
      throw UsageError(fmt::format("--cores {}: a number of cores needs the number behind P: add --base cores=24, or give a factor such as 2x",
                                   format_number(*change.cores)));
    if (!model.cores) {
      steps.emplace_back([factor = *change.factor](Variant& variant) {
        variant.setup.prep *= factor;
        variant.change.cores_factor = factor;
      });
      continue;
    }
    const double cores = change.cores ? *change.cores : *change.factor * *model.cores;
    most = std::max(most, cores);
    if (!(cores > 0)) {
      steps.emplace_back([cores](Variant& variant) { variant.change.cores = cores; });  // left out, with the reason
      continue;
    }
    steps.emplace_back([&model, cores](Variant& variant) {
      take_cores(model, cores, variant.setup);
      variant.change.cores = cores;
    });
  }
  if (model.measured_cores_high && most > *model.measured_cores_high * (1 + 1e-9)) findings.push_back(prep_extrapolated(model, most));
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

std::vector<Step> prep_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  if (!question.prep_places.empty() && !model.prep_servers)
    throw UsageError("--prep: what a GPU prepares is not known; profile with --accelerator cuda:RATE on a machine with a GPU and NVIDIA's nvJPEG");
  for (const PrepPlace place : question.prep_places) {
    steps.emplace_back([place](Variant& variant) {
      variant.setup.prep_place = place;
      take_prep(variant.setup);
      variant.change.prep_place = place;
    });
  }
  return steps;
}

/// The split is chosen by how fast copies are, too.
void take_split(Setup& setup) {
  if (setup.prep_servers && setup.prep_place == PrepPlace::split) take_prep(setup);
}

std::vector<Step> transfer_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  if (!question.transfers.empty() && !model.transfer)
    throw UsageError(
        "--transfer: how fast batches are copied to the GPUs [H] is not known; profile with --accelerator cuda:RATE on a machine with a GPU");
  for (const double factor : question.transfers) {
    require_positive(factor, "--transfer");
    steps.emplace_back([factor](Variant& variant) {
      *variant.setup.transfer *= factor;
      take_split(variant.setup);
      variant.change.transfer_factor = factor;
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
      if (variant.setup.transfer) *variant.setup.transfer *= factor;
      take_split(variant.setup);
      variant.setup.local_batch *= factor;
      variant.change.accelerators = count;
    });
  }
  return steps;
}

std::vector<Step> batch_steps(const RateModel& model, const WhatIfQuestion& question, Findings& findings) {
  std::vector<Step> steps;
  if (question.batch_sizes.empty()) return steps;
  require_ingestion(model, "--batch-size");
  if (!model.batch_size) throw UsageError("--batch-size: needs the batch size behind G: add --base batch=256");
  std::vector<BatchPoint> points{{*model.batch_size, *model.rates.ingestion}};
  points.insert(points.end(), model.ingestion_by_batch.begin(), model.ingestion_by_batch.end());
  const FittedBatch law(points);
  const bool known = model.any_batch_size || points.size() > 1;
  const auto [least, most] = std::ranges::minmax(points, {}, &BatchPoint::batch_size);
  bool outside = !known;
  for (const double batch : question.batch_sizes) {
    require_positive(batch, "--batch-size");
    outside = outside || (!model.any_batch_size && (batch < least.batch_size || batch > most.batch_size));
    const double factor = model.any_batch_size ? 1 : law.rate(batch) / law.rate(*model.batch_size);
    steps.emplace_back([batch, factor, of_measured = batch / *model.batch_size](Variant& variant) {
      *variant.setup.ingestion *= factor;
      variant.setup.local_batch *= of_measured;
      variant.change.batch_size = batch;
    });
  }
  if (outside)
    findings.push_back({"batch-not-measured", Finding::Severity::warning,
                        known ? fmt::format("G was measured with batches of {} to {}; outside, the fitted time a step goes on.",
                                            format_number(least.batch_size), format_number(most.batch_size))
                              : "G is known at one batch size only and taken to be the same at others; larger batches are usually ingested faster "
                                "[DS-Analyzer, App. B.3]. Type it for a second one: --rates ...,G@128=..."});
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

/// S by its curve, at another request size or another number of reads in flight.
template <typename At, typename Note>
std::vector<Step> curve_steps(const RateModel& model, const std::vector<double>& values, const std::string& option, At at, Note note,
                              Findings& findings) {
  std::vector<Step> steps;
  if (values.empty()) return steps;
  const auto base = model.storage_curve && model.request_bytes && model.fetch_concurrency
                        ? model.storage_curve->at(*model.request_bytes, *model.fetch_concurrency)
                        : std::nullopt;
  if (!base) throw UsageError(option + ": needs S over request size and concurrency, which a profile measures with its run \"fetch\"");
  bool extrapolated = false;
  for (const double value : values) {
    require_positive(value, option);
    const StorageCurve::Rate rate = *at(value);
    extrapolated = extrapolated || rate.extrapolated;
    steps.emplace_back([value, note, factor = rate.bytes_per_s / base->bytes_per_s](Variant& variant) {
      variant.setup.storage *= factor;
      note(variant.change) = value;
    });
  }
  if (extrapolated)
    findings.push_back(
        {"storage-extrapolated", Finding::Severity::warning,
         fmt::format("{}: S was measured with requests of up to {} at {} in flight, and other numbers in flight at that size; beyond, the "
                     "cost of a request and of a byte fitted to those goes on.",
                     option, format_bytes(static_cast<Bytes>(model.storage_curve->largest_request())), format_number(*model.fetch_concurrency))});
  return steps;
}

std::vector<Step> request_steps(const RateModel& model, const WhatIfQuestion& question, Findings& findings) {
  return curve_steps(
      model, question.request_sizes, "--request-size", [&](double bytes) { return model.storage_curve->at(bytes, *model.fetch_concurrency); },
      [](WhatIfChange& change) -> std::optional<double>& { return change.request_bytes; }, findings);
}

std::vector<Step> concurrency_steps(const RateModel& model, const WhatIfQuestion& question, Findings& findings) {
  return curve_steps(
      model, question.concurrencies, "--io-depth", [&](double depth) { return model.storage_curve->at(*model.request_bytes, depth); },
      [](WhatIfChange& change) -> std::optional<double>& { return change.fetch_concurrency; }, findings);
}

/// Each number of jobs with each way of sharing.
std::vector<Step> job_steps(const WhatIfQuestion& question) {
  if (question.jobs.empty() && !question.shares.empty()) throw UsageError("--share: among how many jobs? Add --jobs 8, or --job-mix FILE");
  const std::vector<JobSharing> shares = question.shares.empty() ? std::vector{JobSharing::none} : question.shares;
  if (std::ranges::find(shares, JobSharing::dependent) != shares.end()) {
    throw UsageError("--share dependent: of jobs that are equal it shares what coordinated does; add --job-mix FILE, which says how jobs differ");
  }
  std::vector<Step> steps;
  for (const std::uint32_t jobs : question.jobs) {
    for (const JobSharing share : shares) {
      steps.emplace_back([jobs, share](Variant& variant) {
        variant.setup.jobs = jobs;
        variant.setup.sharing = share;
        variant.change.jobs = jobs;
        variant.change.share = job_sharing_name(share);
      });
    }
  }
  return steps;
}

}  // namespace

std::vector<std::vector<Step>> steps_of(const RateModel& model, const WhatIfQuestion& question, std::vector<Finding>& findings) {
  if (!question.jobs.empty() && !question.servers.empty())
    throw UsageError("--jobs and --servers: jobs that share a server and one job on many servers are asked about one at a time");
  return {cache_steps(model, question, findings),
          cache_kind_steps(model, question),
          prep_steps(model, question),
          core_steps(model, question, findings),
          speed_steps(model, question),
          transfer_steps(model, question),
          accelerator_steps(model, question),
          batch_steps(model, question, findings),
          storage_steps(model, question),
          request_steps(model, question, findings),
          concurrency_steps(model, question, findings),
          job_steps(question),
          server_steps(model, question)};
}

Asked ask(const RateModel& model, const WhatIfQuestion& question) {
  Asked asked;
  asked.variant.setup = as_measured(model);
  for (const auto& steps : steps_of(model, question, asked.findings))
    for (const Step& step : steps) step(asked.variant);
  asked.evaluation = evaluate(model, asked.variant);
  if (auto finding = far_extrapolation_finding(extrapolation(model, asked.variant.change))) asked.findings.push_back(std::move(*finding));
  return asked;
}

namespace {

/// N of a link, in samples/s.
double network_rate(const RateModel& model, double bytes_per_s) {
  if (!model.dataset_bytes || !model.dataset_samples)
    throw UsageError(fmt::format("--network {}: bytes/s need the size of a sample: add --base dataset=146GiB,samples=1281167",
                                 format_bytes_per_second(bytes_per_s)));
  return bytes_per_s * static_cast<double>(*model.dataset_samples) / static_cast<double>(*model.dataset_bytes);
}

/// How the servers part the dataset, and, of locality alone, where from the batches are balanced.
struct Parting {
  PartitionMode mode = PartitionMode::none;
  BalanceFrom balance_from = BalanceFrom::peers;

  [[nodiscard]] bool balances() const { return mode == PartitionMode::locality; }
  [[nodiscard]] bool asks_peers() const { return mode == PartitionMode::partitioned || (balances() && balance_from == BalanceFrom::peers); }
};

std::vector<Parting> partings_of(const RateModel& model, const WhatIfQuestion& question) {
  const std::vector<BalanceFrom> balances = question.balances.empty() ? std::vector{model.balance_from} : question.balances;
  std::vector<Parting> partings;
  for (const PartitionMode mode : question.partitions.empty() ? std::vector{PartitionMode::none} : question.partitions) {
    if (mode == PartitionMode::locality)
      for (const BalanceFrom from : balances) partings.push_back({mode, from});
    else
      partings.push_back({mode});
  }
  const bool from_storage = std::ranges::find(question.balances, BalanceFrom::storage) != question.balances.end();
  if (from_storage && std::ranges::none_of(partings, &Parting::balances))
    throw UsageError(
        "--balance-from storage does not go together with any --partition but locality: only locality-aware batches are balanced; add --partition "
        "locality, or leave it out");
  return partings;
}

void require_servers_known(const RateModel& model, const WhatIfQuestion& question, const std::vector<Parting>& partings) {
  if (!model.dataset_bytes || !model.dataset_samples)
    throw UsageError("--servers: what each reads needs the dataset's size: add --base dataset=146GiB,samples=1281167");
  if (std::ranges::any_of(partings, &Parting::asks_peers) && question.networks.empty() && !model.network)
    throw UsageError(
        "--partition: servers that ask one another need the network between them: add --network 40Gbit/s, or --rates ...,N=..., or profile with "
        "--partition");
  const bool partitioned = std::ranges::any_of(partings, [](const Parting& parting) { return parting.mode != PartitionMode::none; });
  if (partitioned && model.misses.facts().kind != CacheKind::minio)
    throw UsageError("--partition: goes with the MinIO cache alone, for who holds what must not change; profile with --cache minio");
}

}  // namespace

std::vector<Step> server_steps(const RateModel& model, const WhatIfQuestion& question) {
  std::vector<Step> steps;
  const bool about_servers = !question.partitions.empty() || !question.balances.empty() || !question.scopes.empty() || !question.networks.empty();
  if (question.servers.empty() && about_servers)
    throw UsageError("--partition, --balance-from, --storage-scope and --network: among how many servers? Add --servers 2");
  if (question.servers.empty()) return steps;
  const std::vector<Parting> partings = partings_of(model, question);
  const std::vector<StorageScope> scopes = question.scopes.empty() ? std::vector{model.storage_scope} : question.scopes;
  std::vector<std::optional<double>> networks{std::nullopt};
  if (!question.networks.empty()) networks.assign(question.networks.begin(), question.networks.end());
  require_servers_known(model, question, partings);
  for (const std::uint32_t servers : question.servers) {
    for (const Parting& parting : partings) {
      for (const StorageScope scope : scopes) {
        for (const std::optional<double>& network : networks) {
          const std::optional<double> rate = network ? std::optional(network_rate(model, *network)) : std::nullopt;
          steps.emplace_back([servers, parting, scope, network, rate](Variant& variant) {
            variant.setup.servers = servers;
            variant.setup.partition = parting.mode;
            variant.setup.balance_from = parting.balance_from;
            variant.setup.storage_scope = scope;
            if (rate) variant.setup.network = *rate;
            variant.change.servers = servers;
            variant.change.partition = partition_mode_name(parting.mode);
            if (parting.balances()) variant.change.balance_from = balance_from_name(parting.balance_from);
            variant.change.storage_scope = storage_scope_name(scope);
            variant.change.network_bytes_per_s = network;
          });
        }
      }
    }
  }
  return steps;
}

}  // namespace dsanalyze::whatif
