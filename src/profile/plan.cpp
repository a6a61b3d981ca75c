#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "core/depths.hpp"
#include "core/records/settings.hpp"
#include "core/trace/trace_events.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/pipeline.hpp"
#include "loaders/server/server_scope.hpp"
#include "loaders/slot_pool.hpp"
#include "loaders/staging/staging.hpp"
#include "profiler.hpp"
#include "training.hpp"

namespace dsanalyze {
namespace {

constexpr double memory_share = 0.6;  ///< of what is available, for everything that a profile holds: a guest leaves room
/// Of a group, beside its slots: board, control pages, headers and edges of slots.
constexpr Bytes group_memory = Bytes{4} << 20;
constexpr Bytes job_process_memory = Bytes{8} << 20;  ///< of its own, of each process of a job that shares: stacks, tables, decoders

void resolve_cores(ProfileSettings& settings, const HostFacts& host) {
  const int usable = host.worker_count();
  if (settings.prep == Seam::emulated) {
    if (settings.cores == 0) settings.cores = usable;
    if (settings.workers == 0) settings.workers = settings.cores;
    return;
  }
  if (settings.cores > static_cast<int>(host.cpus_allowed.size())) {
    throw UsageError(fmt::format("--cores {}: this process may use {} cores; pass at most that, or --prep emulated:RATE to try more", settings.cores,
                                 host.cpus_allowed.size()));
  }
  if (settings.cores == 0) settings.cores = usable;
  if (settings.workers == 0) settings.workers = settings.cores;
}

bool is_among(const std::vector<std::string>& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

/// All runs that apply, or those asked for, in the order of the result record.
void resolve_runs(ProfileSettings& settings) {
  static const std::vector<std::string> all{"synthetic", "prep", "cached", "fetch", "full"};
  static const std::vector<std::string> without_accelerator{"prep", "fetch", "full"};
  if (settings.runs.empty()) {
    settings.runs = trains(settings) ? all : without_accelerator;
    return;
  }
  for (const std::string& run : settings.runs) {
    if (!is_among(all, run)) throw UsageError(fmt::format("--runs: '{}' is none of {}", run, fmt::join(all, ", ")));
    if (!trains(settings) && !is_among(without_accelerator, run)) {
      throw UsageError(
          fmt::format("--runs {}: needs an accelerator; pass --accelerator emulated:RATE, or --accelerator pytorch with --workload NAME", run));
    }
  }
  std::vector<std::string> sorted;
  std::ranges::copy_if(all, std::back_inserter(sorted), [&](const std::string& run) { return is_among(settings.runs, run); });
  settings.runs = sorted;
}

/// Storage first: the answer that most people wait for, and the only run that needs nothing from another.
std::vector<std::string> running_order(const std::vector<std::string>& runs) {
  std::vector<std::string> order;
  for (const char* run : {"fetch", "synthetic", "prep", "cached", "full"}) {
    if (is_among(runs, run)) order.emplace_back(run);
  }
  return order;
}

/// What can be known of a trace file before hours of work for it.
void check_trace(const ProfileInputs& inputs, const char* option, const std::filesystem::path& file) {
  if (file.empty()) return;
  if (runs_jobs(inputs.settings)) {
    throw UsageError(
        fmt::format("{} {}: one job's accesses are traced, and with --jobs or --share several make the full run; leave it out, or trace "
                    "one job alone",
                    option, file.native()));
  }
  if (!is_among(inputs.settings.runs, "full")) {
    throw UsageError(fmt::format("{} {}: it is the full run that is traced, and only {} will run; full needs an accelerator (emulated:RATE, or null)",
                                 option, file.native(), fmt::join(inputs.settings.runs, ", ")));
  }
  require_writable(file);
}

/// Of the spans, and of their copy that is put in order.
Bytes trace_memory(const ProfileInputs& inputs) {
  return inputs.trace_events_file.empty() ? 0 : 2 * room_for_spans(inputs.most_trace_events) * sizeof(Span);
}

bool runs_cached(const ProfileSettings& settings) { return is_among(settings.runs, "prep") || is_among(settings.runs, "cached"); }

std::size_t prepared_sample_bytes(const ProfileInputs& inputs) {
  if (inputs.settings.prep != Seam::real) return 1;
  if (inputs.index->facts().array) return inputs.index->facts().array->sample_bytes;
  const auto side = static_cast<std::size_t>(inputs.image_prep.crop_size);
  return side * side * 3 * dtype_bytes(inputs.settings.dtype);
}

Bytes slot_memory(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  const Bytes slots = static_cast<Bytes>(batch_slots(settings)) * static_cast<Bytes>(settings.batch_size) * prepared_sample_bytes(inputs);
  return settings.share == JobSharing::none ? slots : slots + group_memory;
}

/// Of one prepared sample, of those that are kept for jobs which draw it later and those that are in flight.
Bytes place_memory(const ProfileInputs& inputs) { return SlotLayout(slot_tensor(inputs, 1)).bytes; }

/// Prepared samples of jobs that draw dependently, beside those that a subset's fraction has (plan_subset()).
Bytes staging_memory(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.share != JobSharing::dependent) return 0;
  const Bytes in_flight = dependent_in_flight(settings.fetch_concurrency, settings.workers) * place_memory(inputs);
  const bool kept_bytes = settings.staging_size && settings.staging_size->kind == ByteAmount::Kind::bytes;
  return in_flight + (kept_bytes ? std::min(settings.staging_size->bytes, inputs.index->size() * place_memory(inputs)) : 0);
}

/// Kept of each sample of the subset.
double staging_bytes_a_sample(const ProfileInputs& inputs) {
  const std::optional<ByteAmount>& size = inputs.settings.staging_size;
  return size && size->kind == ByteAmount::Kind::fraction ? size->fraction * static_cast<double>(place_memory(inputs)) : 0;
}

Bytes process_memory(const ProfileSettings& settings) {
  return settings.share == JobSharing::none ? 0 : static_cast<Bytes>(settings.jobs) * job_process_memory;
}

Bytes training_memory(const ProfileInputs& inputs) {
  if (inputs.settings.accelerator != AcceleratorKind::cpu) return 0;
  return static_cast<Bytes>(inputs.settings.jobs) * cpu_trainer_memory(cpu_trainer_options(inputs));
}

void check_accelerators(const ProfileSettings& settings) {
  if (settings.share != JobSharing::none && settings.accelerators > static_cast<int>(staging_most_held)) {
    throw UsageError(
        fmt::format("--accelerators {0}: each of a job's accelerators holds a batch, and a job that shares may hold {1} at once; pass at most "
                    "{1} --accelerators, or --share none",
                    settings.accelerators, staging_most_held));
  }
  const int all = settings.jobs * settings.accelerators;
  if (!emulates_accelerator(settings) || settings.jobs == 1 || all <= static_cast<int>(ServerDevices::max_accelerators)) return;
  throw UsageError(
      fmt::format("--jobs {} with {} accelerators each are {}, and a server has at most {} emulated ones; pass fewer --jobs or --accelerators",
                  settings.jobs, settings.accelerators, all, ServerDevices::max_accelerators));
}

std::string speeds_text(const ProfileSettings& settings) {
  return settings.job_speeds.empty() ? "" : fmt::format(", at speeds {:.3g}", fmt::join(settings.job_speeds, " : "));
}

/// What is really kept of a subset of so many samples.
std::string staging_text(const ProfileInputs& inputs, std::uint64_t samples) {
  const ProfileSettings& settings = inputs.settings;
  if (!settings.staging_size) return "no prepared samples kept";
  const ByteAmount& size = *settings.staging_size;
  const bool share = size.kind == ByteAmount::Kind::fraction;
  const Bytes place = place_memory(inputs);
  const std::uint64_t places = share ? static_cast<std::uint64_t>(size.fraction * static_cast<double>(samples)) : size.bytes / place;
  const std::string asked = share ? format_share(size.fraction) + " of the subset" : format_bytes(size.bytes);
  if (places == 0) return fmt::format("no prepared samples kept: {} is less than one of {}", asked, format_bytes(place));
  const std::string kept = share || places <= samples ? asked : fmt::format("all of the subset, at most {}", format_bytes(samples * place));
  return fmt::format("prepared samples kept for later draws: {}, {}", kept, enum_name(settings.staging_policy.value_or(StagingPolicy::refcnt)));
}

std::string jobs_line(const ProfilePlan& plan, const ProfileInputs& inputs, Bytes slots) {
  const ProfileSettings& settings = inputs.settings;
  const std::string search = settings.trials == 0 ? ""
                             : !settings.stop_at_epochs
                                 ? fmt::format("; a search of {} trials", settings.trials)
                                 : fmt::format("; a search of {} trials, of those that run the worse half ends every {} epoch{}", settings.trials,
                                               *settings.stop_at_epochs, *settings.stop_at_epochs == 1 ? "" : "s");
  if (settings.share == JobSharing::none) return fmt::format("jobs: {} in the full run, each for itself{}", settings.jobs, search);
  if (settings.share == JobSharing::dependent)
    return fmt::format("jobs: {} in the full run, which draw dependently{}: the coordinator prepares; at most {} batches ({}) staged, {}",
                       settings.jobs, speeds_text(settings), batch_slots(settings), format_bytes(slots),
                       staging_text(inputs, plan.most_subset_samples));
  return fmt::format("jobs: {} in the full run, coordinated: every batch is prepared once, {}; at most {} batches ({}) staged{}", settings.jobs,
                     settings.producers == Producers::jobs ? "each job its part" : "by the coordinator", batch_slots(settings), format_bytes(slots),
                     search);
}

/// What the cache may hold, and what of it there is to hold.
std::string cache_line(const ProfilePlan& plan, const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  const Bytes dataset = inputs.index->facts().total_bytes;
  const std::string kind =
      fmt::format("cache: {}{}, {}", cache_kind_name(settings.cache), settings.admission == Admission::cost_aware ? " with cost-aware admission" : "",
                  format_bytes(plan.cache_bytes));
  if (plan.cache_bytes <= dataset) return fmt::format("{} = {} of the dataset", kind, format_share(plan.cache_fraction));
  return fmt::format("{}: the whole dataset fits, so the cache holds {}", kind,
                     plan.most_subset_bytes < dataset ? fmt::format("all of the subset, at most {}", format_bytes(plan.most_subset_bytes))
                                                      : fmt::format("its {} and no more", format_bytes(dataset)));
}

/// For people: what is read, evicted, held, for how long.
std::vector<std::string> describe(const ProfilePlan& plan, const ProfileInputs& inputs, Bytes slots) {
  const ProfileSettings& settings = inputs.settings;
  const auto& facts = inputs.index->facts();
  std::vector<std::string> lines;
  lines.push_back(fmt::format("runs: {}; about {} in all", fmt::join(plan.runs, ", "), format_seconds(plan.seconds)));
  lines.push_back(fmt::format("subset: at most {} of {} samples, {} of {}, drawn at random; fewer if the time budget asks for it",
                              format_number(static_cast<double>(plan.most_subset_samples)), format_number(static_cast<double>(facts.total_samples)),
                              format_bytes(plan.most_subset_bytes), format_bytes(facts.total_bytes)));
  if (settings.storage == Seam::real) {
    lines.emplace_back("reads: the subset, again and again in the cold runs and once to fill the cache; writes nothing to the dataset");
    lines.emplace_back("evicts: the subset's own pages from the page cache, nothing else");
  } else {
    lines.emplace_back("reads: emulated storage; the disk's speed plays no part");
  }
  if (settings.max_storage_bytes_per_s > 0) {
    lines.push_back(fmt::format("spares: reads at most {}, as asked; S is that limit, not the disk's",
                                format_bytes_per_second(settings.max_storage_bytes_per_s)));
  }
  lines.push_back(fmt::format("holds: at most {} of memory ({} available), of which batch slots {}", format_bytes(plan.memory_bytes),
                              format_bytes(inputs.host.memory_usable), format_bytes(slots)));
  if (settings.order != OrderKind::random) {
    lines.push_back(fmt::format("order: {}, through a shuffle buffer of {} samples{}", order_kind_name(settings.order), settings.shuffle_buffer,
                                settings.readers > 1 ? fmt::format(", {} readers in rotation", settings.readers) : ""));
  }
  lines.push_back(fmt::format("cores: {}{}, {} prep workers; {} reads in flight", settings.cores, settings.prep == Seam::emulated ? " virtual" : "",
                              settings.workers, settings.fetch_concurrency));
  if (settings.accelerator == AcceleratorKind::cpu)
    lines.push_back(fmt::format("trains: a {}, on the CPU; it takes cores that prep needs", reference_network_text(inputs)));
  if (runs_jobs(settings)) lines.push_back(jobs_line(plan, inputs, slots));
  if (settings.cache == CacheKind::page) {
    lines.push_back(settings.memory_limit
                        ? fmt::format("cache: the kernel's page cache, held to {} of the dataset by a cgroup", format_share(plan.cache_fraction))
                        : "cache: the kernel's page cache");
  } else if (settings.cache != CacheKind::none) {
    lines.push_back(cache_line(plan, inputs));
  }
  if (!inputs.trace_file.empty()) lines.push_back(fmt::format("writes: what the full run asks of its cache, to {}", inputs.trace_file.native()));
  if (!inputs.trace_events_file.empty())
    lines.push_back(fmt::format("writes: what each thread does in the full run, to {}; at most {} events, about 100 bytes each",
                                inputs.trace_events_file.native(), format_number(static_cast<double>(inputs.most_trace_events))));
  return lines;
}

/// The mean says nothing of one sample that no memory holds: a file with a hole claims any size.
void require_memory_for_largest(const DatasetIndex& index, Bytes memory, Bytes usable) {
  if (index.facts().format == "emulated" || largest_sample(index) <= memory) return;
  const auto records = index.records();
  const auto largest =
      std::max_element(records.begin(), records.end(), [](const IndexRecord& a, const IndexRecord& b) { return a.length < b.length; });
  throw Error(
      fmt::format("the sample {} of {} has {}, and beside batch slots {} of the {} available may be used; remove it from the dataset, or repair it",
                  sample_name(index, static_cast<SampleId>(largest - records.begin())), index.facts().root, format_bytes(largest->length),
                  format_bytes(memory), format_bytes(usable)));
}

void check_dataset(const ProfileSettings& settings, const DatasetIndex& index) {
  const bool is_emulated = index.facts().format == "emulated";
  if (settings.prep == Seam::real && is_emulated) {
    throw UsageError(
        "an emulated dataset has no images to decode: pass --prep emulated:RATE_PER_CORE, --preset SERVER with --workload NAME, or --prep null");
  }
  if (settings.storage == Seam::real && is_emulated) {
    throw UsageError("an emulated dataset lies on no disk: pass --storage emulated:NAME (ssd, hdd, 530MB/s), --preset SERVER, or --storage null");
  }
  if (settings.order == OrderKind::shards && is_emulated)
    throw UsageError("--order shards: an emulated dataset has no shards; pass --order random or sequential");
  if (settings.order == OrderKind::shards && index.file_count() == index.size() && index.size() > 1) {
    throw UsageError(
        "--order shards: every sample of this dataset is a file of its own; pass --order random or sequential, or pack it into shards: dsanalyze "
        "dataset convert SOURCE DEST --to tar");
  }
  if (settings.prep_place != PrepPlace::cpu && index.facts().array)
    throw UsageError("--prep gpu and split: the samples of this dataset are numbers that need no prep; leave out --prep");
  if (settings.accelerator == AcceleratorKind::cpu) require_labels(index);
}

double mean_sample_bytes(const DatasetIndex& index) { return static_cast<double>(index.bytes()) / std::max(1U, index.size()); }

/// What a profile holds in memory beside what its caches do.
struct MemoryNeeds {
  Bytes processes = 0;
  Bytes slots = 0;
  Bytes staging = 0;    ///< prepared samples that are kept or in flight, of jobs that draw dependently
  Bytes buffers = 0;    ///< of reads in flight or waiting
  Bytes training = 0;   ///< the reference network
  Bytes for_cache = 0;  ///< what is left

  [[nodiscard]] Bytes sum() const { return processes + slots + staging + buffers + training; }
};

/// Throws UsageError where they are more than there is to use.
MemoryNeeds memory_needs(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  const DatasetIndex& index = *inputs.index;
  const std::string usable = format_bytes(inputs.host.memory_usable);
  const double percent = memory_share * 100;
  MemoryNeeds needs;
  auto left = static_cast<Bytes>(memory_share * static_cast<double>(inputs.host.memory_usable));
  needs.processes = process_memory(settings);
  if (needs.processes > left) {
    throw UsageError(fmt::format("--jobs {}: their processes need {}, more than {:.0f} % of the {} available; pass fewer --jobs", settings.jobs,
                                 format_bytes(needs.processes), percent, usable));
  }
  left -= needs.processes;
  needs.slots = slot_memory(inputs);
  if (needs.slots > left) {
    throw UsageError(fmt::format("batch slots need {}, more than {:.0f} % of the {} available; pass a smaller --batch-size or fewer --accelerators{}",
                                 format_bytes(needs.slots), percent, usable, settings.jobs > 1 ? " or --jobs" : ""));
  }
  left -= needs.slots;
  needs.staging = staging_memory(inputs);
  if (needs.staging > left) {
    throw UsageError(
        fmt::format("prepared samples that are kept or in flight need {} beside batch slots of {}, more than {:.0f} % of the {} available; "
                    "pass a smaller --staging-size or --io-depth",
                    format_bytes(needs.staging), format_bytes(needs.slots), percent, usable));
  }
  left -= needs.staging;
  require_memory_for_largest(index, left, inputs.host.memory_usable);
  const auto places = static_cast<std::size_t>(preparing_processes(settings)) * fetch_places(settings);
  needs.buffers = static_cast<Bytes>(static_cast<double>(places) * mean_sample_bytes(index));
  if (needs.buffers > left) {
    throw UsageError(
        fmt::format("{} reads in flight or waiting need {} beside batch slots of {}, more than {:.0f} % of the {} available; pass a smaller "
                    "--shuffle-buffer, --io-depth or --batch-size",
                    places, format_bytes(needs.buffers), format_bytes(needs.slots), percent, usable));
  }
  left -= needs.buffers;
  needs.training = training_memory(inputs);
  if (needs.training > left) {
    throw UsageError(
        fmt::format("--accelerator cpu: the reference network and its threads' gradients need {} beside {} for batches, more than {:.0f} % of the {} "
                    "available; pass fewer --accelerators or a smaller --batch-size",
                    format_bytes(needs.training), format_bytes(needs.slots + needs.buffers), percent, usable));
  }
  needs.for_cache = left - needs.training;
  return needs;
}

/// Fills in the cache's size, and the size that was left open in the settings.
void plan_cache(ProfilePlan& plan, ProfileInputs& inputs, Bytes for_cache) {
  ProfileSettings& settings = inputs.settings;
  const Bytes dataset_bytes = std::max<Bytes>(inputs.index->facts().total_bytes, 1);
  if (holds_samples(settings.cache)) {
    plan.cache_bytes = settings.cache_size ? settings.cache_size->of(dataset_bytes) : std::min(for_cache, dataset_bytes);
    plan.cache_fraction = std::min(1.0, static_cast<double>(plan.cache_bytes) / static_cast<double>(dataset_bytes));
    if (!settings.cache_size) settings.cache_size = ByteAmount{ByteAmount::Kind::bytes, plan.cache_bytes, 0};
    const bool typed_bytes = settings.cache_size->kind == ByteAmount::Kind::bytes;
    if (typed_bytes && plan.cache_fraction < 1 && plan.cache_bytes > inputs.host.memory_usable) {
      throw UsageError(fmt::format(
          "--cache-size {}: only {} of memory are available here; a share of the dataset (--cache-size {:.0f}%) is kept on a subset that fits",
          format_bytes(plan.cache_bytes), format_bytes(inputs.host.memory_usable), plan.cache_fraction * 100));
    }
    return;
  }
  if (settings.cache == CacheKind::page) {
    const Bytes held = settings.memory_limit ? settings.memory_limit->of(dataset_bytes) : inputs.host.memory_usable;
    plan.cache_fraction = std::min(1.0, static_cast<double>(held) / static_cast<double>(dataset_bytes));
  }
  if (settings.cache_size) {
    throw UsageError(fmt::format("--cache-size: --cache {} has no size of its own; pass --cache minio or lru{}", cache_kind_name(settings.cache),
                                 settings.cache == CacheKind::page ? ", or --memory-limit" : ""));
  }
}

/// Fills in the subset's size and the memory that all needs.
void plan_subset(ProfilePlan& plan, const ProfileInputs& inputs, const MemoryNeeds& needs) {
  const ProfileSettings& settings = inputs.settings;
  const DatasetIndex& index = *inputs.index;
  // The cached runs hold the whole subset in memory; without them only the cache fraction of it.
  const double cached_share = runs_cached(settings) ? 1.0 : std::max(plan.cache_fraction, 1e-9);
  const double held_share = cached_share + staging_bytes_a_sample(inputs) / std::max(mean_sample_bytes(index), 1.0);
  const Bytes subset_limit = settings.subset ? settings.subset->of(index.facts().total_bytes) : index.bytes();
  const auto for_cache = static_cast<double>(needs.for_cache);
  if (settings.subset && static_cast<double>(subset_limit) * held_share > for_cache) {
    const double kept = held_share - cached_share;
    throw UsageError(fmt::format("--subset {}: the cached run holds it in memory{}, and {} are to spare; pass --subset {} or less{}",
                                 format_bytes(subset_limit), kept > 0 ? ", beside the prepared samples that --staging-size keeps" : "",
                                 format_bytes(needs.for_cache), format_bytes(static_cast<Bytes>(for_cache / held_share)),
                                 kept > 0 ? ", or a smaller --staging-size" : ""));
  }
  plan.most_subset_bytes = std::min({subset_limit, index.bytes(), static_cast<Bytes>(for_cache / held_share)});
  const double samples = static_cast<double>(plan.most_subset_bytes) / std::max(mean_sample_bytes(index), 1.0);
  plan.most_subset_samples = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(samples), 1, index.size());
  plan.memory_bytes = needs.sum() + trace_memory(inputs) + static_cast<Bytes>(static_cast<double>(plan.most_subset_bytes) * held_share);
}

}  // namespace

ProfilePlan plan_profile(ProfileInputs& inputs) {
  ProfileSettings& settings = inputs.settings;
  resolve_runs(settings);
  settings.validate();
  resolve_cores(settings, inputs.host);
  check_dataset(settings, *inputs.index);
  check_accelerators(settings);
  if (!settings.mesh.empty()) batch_layout(inputs);  // throws now rather than when training begins

  ProfilePlan plan;
  plan.runs = running_order(settings.runs);
  check_trace(inputs, "--trace", inputs.trace_file);
  check_trace(inputs, "--trace-events", inputs.trace_events_file);
  plan.seconds = settings.time_budget_seconds;
  const MemoryNeeds needs = memory_needs(inputs);
  plan_cache(plan, inputs, needs.for_cache);
  plan_subset(plan, inputs, needs);
  plan.lines = describe(plan, inputs, needs.slots);
  return plan;
}

}  // namespace dsanalyze
