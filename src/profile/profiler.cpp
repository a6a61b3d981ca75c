#include "profiler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "base/clock.hpp"
#include "base/host/control_group.hpp"
#include "core/rates.hpp"
#include "loaders/prep/prep.hpp"
#include "pilot.hpp"
#include "profile/jobs/job_runs.hpp"
#include "profile/ranks/rank_runs.hpp"
#include "run_support.hpp"
#include "runs.hpp"
#include "training.hpp"
#include "verdict.hpp"

namespace dsanalyze {
namespace {

std::string accelerator_text(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.accelerator == AcceleratorKind::cpu) return "the CPU: " + reference_network_text(inputs);
  if (settings.accelerator == AcceleratorKind::cuda)
    return fmt::format("{} x {}, each occupied at {} samples/s", settings.accelerators, inputs.gpus.front()->info().name,
                       format_number(settings.accelerator_rate));
  if (inputs.measured_accelerator)
    return fmt::format("emulated, {} x {} samples/s, as {} reached", settings.accelerators, format_number(settings.accelerator_rate),
                       inputs.measured_accelerator->method);
  if (!emulates_accelerator(settings)) return "none";
  return fmt::format("emulated, {} x {} samples/s", settings.accelerators, format_number(settings.accelerator_rate));
}

HostRecord host_record(const ProfileInputs& inputs) {
  const HostFacts& host = inputs.host;
  const ProfileSettings& settings = inputs.settings;
  HostRecord record = machine_record(host);
  if (settings.storage == Seam::real) {
    const StorageMeter meter(inputs.index->facts().root);
    record.storage_device = meter.device();
    record.storage_filesystem = meter.filesystem();
    record.storage_meter = meter.method();
  } else {
    record.storage_device =
        settings.storage == Seam::emulated ? fmt::format("emulated {}", format_bytes_per_second(settings.storage_bytes_per_s)) : "null";
    record.storage_filesystem = "none";
    record.storage_meter = "the emulated device's own count";
  }
  record.accelerator = accelerator_text(inputs);
  record.accelerator_shares_cores = settings.accelerator == AcceleratorKind::cpu;
  return record;
}

DatasetRecord dataset_record(const ProfileInputs& inputs, const DatasetIndex& subset) {
  const auto& facts = inputs.index->facts();
  DatasetRecord record;
  record.path = inputs.settings.dataset;
  record.format = facts.format;
  record.samples = facts.total_samples;
  record.bytes = facts.total_bytes;
  record.mean_sample_bytes = static_cast<double>(facts.total_bytes) / static_cast<double>(std::max<std::uint64_t>(facts.total_samples, 1));
  record.digest = facts.digest;
  if (inputs.contents) record.content_sample_digest = inputs.contents->digest;
  record.sizes_sampled = facts.sizes_sampled;
  record.subset_samples = subset.size();
  record.subset_bytes = subset.bytes();
  return record;
}

OrderRecord order_record(const RunContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  EpochOrder order;
  make_epoch_order(order_spec(settings), settings.seed, 0, context.subset->records(), context.subset->size(), order);
  const ShuffleQuality quality = shuffle_quality(order.training, context.subset->records(), static_cast<std::uint32_t>(settings.batch_size));
  return {order_kind_name(settings.order), settings.shuffle_buffer, settings.readers,   quality.mean_displacement,
          quality.rank_correlation,        quality.neighbours,      quality.batch_files};
}

/// What limits the meaning of the result from the start.
void state_reservations(RunContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  if (settings.max_storage_bytes_per_s > 0) {
    context.find(
        Finding::Severity::warning, "storage-rate-limited",
        fmt::format("reads were held to {} as asked (--max-storage-rate): S and the full run are bound by that limit, the disk may deliver more.",
                    format_bytes_per_second(settings.max_storage_bytes_per_s)));
  }
  if (settings.accelerator == AcceleratorKind::cpu) {
    context.find(Finding::Severity::warning, "accelerator-shares-cores",
                 "the CPU trains (--accelerator cpu) and takes cores that prep needs: together they reach less than the lower of P and G, and what "
                 "lacks is told as stalls. G is what this CPU makes of a small reference network and says nothing of your accelerator: measure that "
                 "one's, and pass --accelerator emulated:RATE.");
  }
  if (const std::size_t gpus = std::set(context.inputs.gpus.begin(), context.inputs.gpus.end()).size(); gpus < context.inputs.gpus.size()) {
    context.find(Finding::Severity::warning, "gpus-stand-for-several",
                 fmt::format("{} GPU{} stand{} for {} devices, which have their own streams and memory there: their steps overlap as those of so "
                             "many GPUs would, and their copies share one bus.",
                             gpus, gpus == 1 ? "" : "s", gpus == 1 ? "s" : "", context.inputs.gpus.size()));
  }
  if (context.inputs.measured_accelerator && context.inputs.measured_accelerator->on_cpu) {
    context.find(
        Finding::Severity::warning, "measured-on-cpu",
        "G is what PyTorch trained on this machine's CPU with nothing else to do, and the full run's accelerator is emulated at that rate: a "
        "training on the CPU shares its cores with prep, and both are slower together. `dsanalyze profile -- python3 train.py` measures that.");
  }
  if (const double slowed_by = slow_prep_share(); slowed_by > 0) {
    context.find(
        Finding::Severity::warning, "prep-slowed",
        fmt::format(
            "prep was slowed on purpose: each sample burned {:.3g} % of its CPU time once more (DSANALYZE_TEST_SLOW_PREP), which is for tests of "
            "`dsanalyze gate`; unset it to measure this machine.",
            100 * slowed_by));
  }
  if (settings.order != OrderKind::random && settings.storage == Seam::emulated) {
    context.find(Finding::Severity::info, "order-not-priced",
                 "emulated storage charges each request alike, wherever it lies: what an order saves in seeks does not show here.");
  }
  if (settings.order != OrderKind::random && context.inputs.index->facts().sizes_sampled) {
    context.find(
        Finding::Severity::warning, "order-over-sample",
        "only a random part of the dataset's files was asked for its size, so neighbours in this run are no neighbours on disk; make an index "
        "first: dsanalyze dataset index DIR");
  }
  if (settings.cache == CacheKind::page && !settings.memory_limit && context.plan.cache_fraction < 1) {
    context.distrust(
        "page-cache-subset",
        "the dataset is larger than memory, but the subset that was run is not, so the kernel's page cache did not thrash as it would: the full run "
        "is too fast. Use --memory-limit, --cache minio, or a dataset that fits.");
  }
}

/// What the GPU's decoder does not take is prepared by cores, and counts as the GPU's.
void state_left_to_cores(RunContext& context, const PrepServersRecord& servers) {
  constexpr double worth_naming = 0.01;
  if (context.inputs.settings.gpu_share <= 0 || servers.left_to_cpu_fraction < worth_naming) return;
  context.find(Finding::Severity::warning, "left-to-cores",
               fmt::format("the GPU's decoder ({}) takes no part of {} of the samples that it was given, and cores prepare them instead: no JPEG "
                           "files, such that nvJPEG does not decode, or damaged ones. `--prep cpu` or a lower share leaves the GPU to the training.",
                           servers.decoder, format_share(servers.left_to_cpu_fraction)));
}

std::optional<DistributionRecord> distribution(const DurationCounts& counts) {
  if (counts.count() == 0) return std::nullopt;
  return DistributionRecord{counts.mean_seconds(), counts.count(), counts.quantiles(DistributionRecord::points)};
}

std::optional<DistributionRecord> size_distribution(const DatasetIndex& index) {
  if (index.size() == 0) return std::nullopt;
  std::vector<double> sizes;
  sizes.reserve(index.size());
  for (const IndexRecord& record : index.records()) sizes.push_back(static_cast<double>(record.length));
  std::ranges::sort(sizes);
  DistributionRecord record{static_cast<double>(index.bytes()) / index.size(), index.size(), {}, standard_deviation(sizes)};
  for (std::size_t i = 0; i < DistributionRecord::points; ++i)
    record.quantiles.push_back(sizes[i * (sizes.size() - 1) / (DistributionRecord::points - 1)]);
  return record;
}

/// The GPU's share of each batch by the rate model; says so.
double chosen_share(const RunContext& context, const std::optional<PrepServersRecord>& servers) {
  if (!servers)
    throw UsageError(
        "--prep split: the time was too short to measure what the GPU and the cores prepare: pass a longer --time-budget, or --prep split:SHARE");
  const PrepServers rates = servers->servers();
  const double share = rates.best_share(rough_transfer_rate(context));
  context.events.note(fmt::format("split of prep: {:.1f} % of each batch on the GPU, which prepares {} samples/s by {}, the cores {} beside it",
                                  100 * share, format_number(rates.gpu), servers->decoder, format_number(rates.cpu_beside_gpu())));
  return share;
}

/// P, its curve over cores, and C: what the warm cache serves to. `seconds` gives what each run may take now.
template <typename Seconds, typename Keep>
void measure_prep(RunContext& context, Pipeline& warm, Seconds seconds, ProfileResult& result, Keep keep) {
  Measured prep = run_prep(context, warm, seconds(TimedRun::prep));
  result.distributions.prep_seconds = distribution(prep.times.prep);
  result.prep = keep(std::move(prep));
  if (!result.prep) return;
  const int all = context.inputs.settings.cores;
  const double for_fewer = seconds(TimedRun::fewer_cores);
  const std::vector<int> fewer = for_fewer > 0 ? fewer_cores(all) : std::vector<int>{};
  for (const int cores : fewer) {
    if (const auto point = measure_on_cores(context, warm, cores, for_fewer / static_cast<double>(fewer.size())))
      result.prep_by_cores.push_back(*point);
  }
  result.prep_by_cores.push_back({all, result.prep->samples_per_s, result.prep->ci95_samples_per_s});
  RateRecord cache = measure_cache(context, warm, seconds(TimedRun::cache));
  if (cache.samples_per_s > 0) result.cache = std::move(cache);
}

/// What all ranks together did.
template <typename Keep>
void take_ranks(RunContext& context, double seconds, ProfileResult& result, Keep keep) {
  RanksMeasured measured = run_ranks(context, seconds);
  keep(std::move(measured.all));
  result.ranks = std::move(measured.ranks);
  result.partition = std::move(measured.partition);
  result.network = std::move(measured.network);
}

}  // namespace

namespace {

/// The profile of a rank that is not the first: it measures nothing by itself and waits for the run of all.
ProfileResult run_other_rank(RunContext& context, double pilot_seconds) {
  choose_io(context, pilot_seconds / 2);
  context.subset = context.inputs.index;
  ProfileResult result;
  result.tool = this_tool();
  result.settings = context.inputs.settings;
  result.settings.io = context.way.engine;
  result.settings.read_mode = context.way.mode;
  result.host = host_record(context.inputs);
  const auto keep = [&](Measured measured) { result.runs.push_back(std::move(measured.record)); };
  take_ranks(context, 0, result, keep);
  result.dataset = dataset_record(context.inputs, *context.subset);
  result.findings = context.findings;
  result.trusted = context.trusted;
  return result;
}

}  // namespace

ProfileResult run_profile(const ProfileInputs& given, const ProfilePlan& plan, EventSink& events, std::stop_token stop, Timing timing) {
  const auto started = std::chrono::system_clock::now();
  ProfileInputs inputs = given;  // the split of prep is chosen below
  RunContext context{inputs, plan, inputs.index, 0, events, std::move(stop), timing, timing.clock->now(), {}, true, {}, {}};
  if (inputs.settings.memory_limit) const MemoryGroup permitted;  // throws now rather than when the full run's turn comes
  const TimeShares shares = share_time(inputs, plan);
  if (runs_ranks(inputs.settings) && inputs.team->rank() != 0) {
    ProfileResult result = run_other_rank(context, shares.planned(TimedRun::pilot));
    result.started_utc = utc_text(started);
    return result;
  }
  const auto seconds = [&](TimedRun run) { return shares.seconds(run, context.elapsed()); };
  choose_io(context, shares.planned(TimedRun::pilot) / 2);
  const double for_servers = seconds(TimedRun::servers);
  const auto servers = for_servers > 0 ? measure_prep_servers(context, for_servers) : std::nullopt;
  if (inputs.settings.prep_place == PrepPlace::split && inputs.settings.gpu_share == 0) inputs.settings.gpu_share = chosen_share(context, servers);
  inputs.settings.gpu_share = share_of_batch(inputs.settings.gpu_share, static_cast<std::uint32_t>(inputs.settings.batch_size));
  PilotRates pilot = run_pilot(context, shares.planned(TimedRun::pilot) / 2);
  if (servers && inputs.settings.prep_place != PrepPlace::cpu)
    pilot.prep = std::max(pilot.prep, servers->servers().with_share(inputs.settings.gpu_share));
  const double left = shares.left(TimedRun::fetch, context.elapsed());
  context.subset =
      draw_subset(inputs, choose_subset(inputs, plan, pilot, left * shares.planned(TimedRun::full), left * shares.planned(TimedRun::filling)));
  context.subset_cache_bytes = static_cast<Bytes>(std::llround(plan.cache_fraction * static_cast<double>(context.subset->bytes())));
  if (context.subset->size() < inputs.index->facts().total_samples) {
    events.note(fmt::format("subset: {} of {} samples, drawn at random; the cache fraction is kept", format_number(context.subset->size()),
                            format_number(static_cast<double>(inputs.index->facts().total_samples))));
  }

  state_reservations(context);
  if (servers) state_left_to_cores(context, *servers);
  if (inputs.settings.storage == Seam::real) {
    context.places = storage_places(*context.subset, system_storage(), context.stop);
    context.meter_moves = context.pages_tell = !context.places.empty();
    for (const StoragePlace& place : context.places) {
      const MeterTrial trial = try_meter(place.meter, *context.subset, place.files, context.stop);
      context.meter_moves = context.meter_moves && trial.moved();
      context.pages_tell = context.pages_tell && trial.pages_tell();
    }
  }

  ProfileResult result;
  result.tool = this_tool();
  result.started_utc = utc_text(started);
  result.settings = inputs.settings;
  result.settings.io = context.way.engine;
  result.settings.read_mode = context.way.mode;
  result.host = host_record(inputs);
  // Only real prep is as fast as the CPU.
  if (inputs.settings.prep == Seam::real)
    if (const double speed = calibrate_cpu(timing); speed > 0) result.host.calibration_passes_per_s = speed;
  result.dataset = dataset_record(inputs, *context.subset);
  result.prep_servers = servers;
  result.order = order_record(context);
  result.distributions.sample_bytes = size_distribution(*context.subset);
  const auto keep = [&](Measured measured) {
    result.runs.push_back(std::move(measured.record));
    return measured.rate.samples_per_s > 0 ? std::optional<RateRecord>(measured.rate) : std::nullopt;
  };
  const auto wanted = [&](const char* name) { return std::ranges::find(plan.runs, name) != plan.runs.end(); };

  if (wanted("fetch")) {
    Measured fetch = run_fetch(context, seconds(TimedRun::fetch));
    result.distributions.request_seconds = distribution(fetch.times.request);
    result.storage = keep(std::move(fetch));
    if (result.storage) {
      result.storage_by_request.push_back(
          {std::round(result.dataset.mean_sample_bytes), inputs.settings.fetch_concurrency, result.storage->bytes_per_s});
    }
  }
  context.storage_curve = measure_storage_curve(context, seconds(TimedRun::curve));
  std::ranges::copy_if(context.storage_curve, std::back_inserter(result.storage_by_request), [&](const StoragePoint& point) {
    const bool measured_longer = !result.storage_by_request.empty() && point.request_bytes == result.storage_by_request.front().request_bytes &&
                                 point.concurrency == result.storage_by_request.front().concurrency;
    return !measured_longer;
  });
  if (wanted("synthetic")) result.ingestion = keep(run_synthetic(context, seconds(TimedRun::synthetic)));
  if (wanted("synthetic") && inputs.settings.accelerator == AcceleratorKind::cuda) {
    const bool mesh = !inputs.settings.mesh.empty();
    const double seconds_each = seconds(TimedRun::transfer) / (mesh ? 3 : 2);
    if (RateRecord transfer = measure_transfer(context, seconds_each); transfer.samples_per_s > 0) result.transfer = std::move(transfer);
    result.transfer_by_copy = measure_transfer_curve(context, seconds_each);
    if (mesh) result.transfer_by_feed = measure_feeds(context, seconds_each);
  }
  if (wanted("prep") || wanted("cached")) {
    Pipeline warm(inputs, run_spec(context, CacheKind::minio, context.subset->bytes()), timing);
    if (fill_cache(context, warm, seconds(TimedRun::filling))) {
      if (wanted("prep")) measure_prep(context, warm, seconds, result, keep);
      if (wanted("cached")) keep(run_cached(context, warm, seconds(TimedRun::cached)));
    }
  }
  if (wanted("full") && runs_ranks(inputs.settings)) take_ranks(context, seconds(TimedRun::full), result, keep);
  if (wanted("full") && !runs_jobs(inputs.settings) && !runs_ranks(inputs.settings)) keep(run_full(context, seconds(TimedRun::full)));
  if (wanted("full") && runs_jobs(inputs.settings)) {
    const auto run = inputs.settings.share == JobSharing::none        ? run_independent_jobs
                     : inputs.settings.share == JobSharing::dependent ? run_dependent_jobs
                                                                      : run_coordinated_jobs;
    JobsMeasured measured = run(context, seconds(TimedRun::full));
    keep(std::move(measured.all));
    result.jobs = std::move(measured.jobs);
    result.sharing = std::move(measured.sharing);
    result.trials = std::move(measured.trials);
  }

  for (RunRecord& run : result.runs) run.beyond_epochs = fetched_beyond_epochs(run);
  judge_background_load(context, result.runs);
  result.findings = context.findings;
  result.trusted = context.trusted;
  conclude(result, {plan.cache_fraction, saved_storage_share(context)});
  return result;
}

}  // namespace dsanalyze
