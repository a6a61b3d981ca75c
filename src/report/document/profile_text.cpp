#include "profile_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/text/text.hpp"
#include "core/records/rate_text.hpp"

namespace dsanalyze::report {
namespace {

std::string seam_text(Seam seam, const std::string& emulated) { return seam == Seam::real ? "real" : seam == Seam::null ? "null" : emulated; }

std::string times_text(double times) {
  if (std::abs(times - 1) < 0.0005) return "once";
  return format_number(times) + " times";
}

std::string so_many(std::uint64_t count, const std::string& one, const std::string& several) {
  return fmt::format("{} {}", format_number(static_cast<double>(count)), count == 1 ? one : several);
}

/// Who left, what was late and taken over; empty where all went well.
std::string disturbances_text(const SharingRecord& sharing) {
  std::string text;
  if (sharing.departures > 0) text += fmt::format("; {} left before the end", so_many(sharing.departures, "job", "jobs"));
  if (sharing.taken_over_batches > 0) text += fmt::format("; the others made {} of theirs", so_many(sharing.taken_over_batches, "batch", "batches"));
  if (sharing.late_reports > 0) text += fmt::format("; {} of a late batch", so_many(sharing.late_reports, "report", "reports"));
  return text;
}

std::string jobs_setup_text(const ProfileSettings& settings) {
  std::string text = fmt::format("{} job{}, {}", settings.jobs, settings.jobs == 1 ? "" : "s",
                                 settings.share == JobSharing::none             ? "each for itself"
                                 : settings.share == JobSharing::dependent      ? "drawing dependently"
                                 : settings.producers == Producers::coordinator ? "coordinated, the coordinator prepares"
                                                                                : "coordinated, each prepares its part");
  if (!settings.job_speeds.empty()) text += fmt::format(", speeds {:.3g}", fmt::join(settings.job_speeds, " : "));
  if (settings.staging_size)
    text += fmt::format(", a store of {}, {}",
                        settings.staging_size->kind == ByteAmount::Kind::fraction ? format_share(settings.staging_size->fraction) + " of the samples"
                                                                                  : format_bytes(settings.staging_size->bytes),
                        enum_name(settings.staging_policy.value_or(StagingPolicy::refcnt)));
  if (settings.batch_copy == BatchCopy::cpu) text += ", each copies its batches";
  if (settings.trials > 0) text += fmt::format(", a search of {} trials", settings.trials);
  return text;
}

std::string ranks_setup_text(const ProfileSettings& settings) {
  std::string text = fmt::format("{} rank{}, {}", settings.world, settings.world == 1 ? "" : "s",
                                 settings.partition == PartitionMode::none          ? "each with a cache of its own"
                                 : settings.partition == PartitionMode::partitioned ? "partitioned"
                                                                                    : "locality-aware");
  if (settings.balance_from == BalanceFrom::storage) text += ", balanced from storage";
  if (settings.storage_scope == StorageScope::shared) text += ", one storage for all";
  if (settings.network == Seam::emulated) text += fmt::format(", emulated links of {}", format_bytes_per_second(settings.network_bytes_per_s));
  return text;
}

std::string parting_text(const PartitionRecord& partition) {
  if (partition.partition == "none") return "each with a cache of its own";
  if (partition.partition == "partitioned") return "partitioned: a miss asks the rank that holds the sample, then storage";
  return fmt::format("locality-aware: each trains what it holds of every batch, and {} of a batch {} to even the parts out",
                     format_share(partition.balance_traffic), partition.balance_from == "storage" ? "came from storage" : "moved");
}

}  // namespace

std::string interference_text(const ProfileResult::Attained& attained) {
  return fmt::format("As measured, the full run reached {} samples/s; by the rates it would be {}. The difference is interference: {}.",
                     format_rate(attained.samples_per_s, attained.ci95_samples_per_s),
                     format_rate(attained.by_rates_samples_per_s, attained.ci95_by_rates_samples_per_s), fmt::join(attained.evidence, "; "));
}

std::string share_with_interval(const StallRecord& stall) {
  const double half = (stall.ci95_fraction.high - stall.ci95_fraction.low) / 2 * 100;
  if (!(half > 0)) return format_share(stall.fraction);
  // Two digits of the uncertainty, and the share to the same place; never beyond a hundredth of a percent.
  const int decimals = half >= 9.95 ? 0 : half >= 0.995 ? 1 : 2;
  const double last_place = std::pow(10, -decimals);
  const double share = std::abs(stall.fraction * 100) < last_place / 2 ? 0 : stall.fraction * 100;  // no "-0.00"
  const double low = stall.ci95_fraction.low * 100;
  const double high = stall.ci95_fraction.high * 100;
  if (is_lopsided(stall.fraction * 100, {low, high}))
    return fmt::format("{:.{}f} % ({:.{}f} to {:.{}f} %)", share, decimals, low, decimals, high, decimals);
  return fmt::format("{:.{}f} ± {:.{}f} %", share, decimals, std::max(half, last_place), decimals);
}

std::string trainer_name(const ProfileResult& result) { return result.host.accelerator_shares_cores ? "training" : "GPU"; }

std::string assumptions_of_models(const ProfileResult& result) {
  if (!result.loader) return "";
  std::string text = "These figures are for the long run, in which data that fit are in memory.";
  if (const RunRecord* const full = result.run("full"); full != nullptr && full->samples_per_s > 0)
    text += fmt::format(" As found, with {}, the training reached {} samples/s.", workers_text(*result.loader), format_number(full->samples_per_s));
  return text;
}

std::string batch_text(const ProfileResult& result) {
  const auto steps = result.loader ? result.loader->samples_per_step : std::nullopt;
  if (steps && steps->least < steps->most)
    return fmt::format("batch {}-{} ({} on the average)", format_number(steps->least), format_number(steps->most), format_number(steps->mean));
  if (steps) return fmt::format("batch {}", format_number(steps->most));
  return result.settings.batch_size > 0 ? fmt::format("batch {}", result.settings.batch_size) : "";
}

std::string workers_text(const LoaderRecord& loader) {
  if (loader.style == LoaderRecord::Style::watched) return "watched";
  return fmt::format("{} worker{}", loader.workers, loader.workers == 1 ? "" : "s");
}

std::string loader_text(const LoaderRecord& loader) {
  std::string text = printable(loader.name);
  if (!loader.version.empty()) text += " " + printable(loader.version);
  if (loader.dataset_class != loader.name) text += ", " + printable(loader.dataset_class);
  text += ", " + workers_text(loader);
  if (loader.prefetch && loader.workers > 0) text += fmt::format(" x {} batches ahead", *loader.prefetch);
  if (loader.pin_memory) text += ", pinned";
  if (loader.tokens_per_sample) text += fmt::format(", samples of {} tokens", format_number(static_cast<double>(*loader.tokens_per_sample)));
  if (!loader.file.empty()) text += fmt::format(" ({}:{})", printable(loader.file), loader.line);
  return text;
}

std::string setup_text(const ProfileResult& result) {
  if (result.loader) return "the training's own loader: " + loader_text(*result.loader);
  const ProfileSettings& settings = result.settings;
  std::vector<std::string> parts;
  const std::string storage =
      settings.storage_name.empty() ? "emulated " + format_bytes_per_second(settings.storage_bytes_per_s) : settings.storage_name;
  parts.push_back("storage " + seam_text(settings.storage, storage));
  parts.push_back("prep " + seam_text(settings.prep, fmt::format("emulated {} samples/s a core", format_number(settings.prep_rate_per_core))));
  if (settings.gpu_share > 0) parts.back() += fmt::format(", {:.3g} % of each batch on the GPU", 100 * settings.gpu_share);
  if (settings.gpu_share > 0 && result.prep_servers && result.prep_servers->left_to_cpu_fraction > 0)
    parts.back() += fmt::format(" (it leaves {} of them to the cores)", format_share(result.prep_servers->left_to_cpu_fraction));
  switch (settings.accelerator) {
    case AcceleratorKind::none:
      parts.emplace_back("no accelerator");
      break;
    case AcceleratorKind::null:
      parts.emplace_back("null accelerator");
      break;
    case AcceleratorKind::cpu:
      parts.push_back(fmt::format("the CPU trains, {} thread{}{}", settings.accelerators, settings.accelerators == 1 ? "" : "s",
                                  settings.accelerator_precision ? ", " + precision_name(*settings.accelerator_precision) : ""));
      break;
    case AcceleratorKind::emulated:
    case AcceleratorKind::pytorch:
    case AcceleratorKind::cuda:
      if (!settings.mesh.empty()) parts.push_back(fmt::format("mesh {} of devices, inputs {}", settings.mesh, settings.input_sharding));
      parts.push_back(fmt::format("accelerators {} x {}{}", settings.accelerators, settings.accelerator_name,
                                  settings.jobs > 1    ? " a job"
                                  : settings.world > 1 ? " a rank"
                                                       : ""));
      break;
  }
  if (runs_jobs(settings)) parts.push_back(jobs_setup_text(settings));
  if (runs_ranks(settings)) parts.push_back(ranks_setup_text(settings));
  std::string cache = "cache " + cache_kind_name(settings.cache);
  if (const auto fraction = result.cache_fraction())
    cache += fmt::format(", {} of the dataset{}", format_share(*fraction), settings.world > 1 ? " in each" : "");
  if (settings.admission == Admission::cost_aware) cache += ", cost-aware admission";
  parts.push_back(cache);
  if (settings.storage == Seam::real && settings.io != IoEngine::automatic)
    parts.push_back(fmt::format("reads by {}, {}", settings.io == IoEngine::uring ? "io_uring" : "threads",
                                settings.read_mode == ReadMode::direct ? "direct" : "buffered"));
  if (settings.scale != 1) parts.push_back(fmt::format("scale 1:{}", format_number(settings.scale)));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string dataset_text(const DatasetRecord& dataset) {
  std::string text = fmt::format("{}: {} samples", dataset.path, format_number(static_cast<double>(dataset.samples)));
  if (dataset.bytes > 0)
    text += fmt::format(", {}{}", format_bytes(dataset.bytes), dataset.sizes_sampled ? " (estimated from a sample of the files)" : "");
  if (dataset.subset_samples > 0 && dataset.subset_samples < dataset.samples)
    text += fmt::format("; the runs used a random subset of {} samples, {}", format_number(static_cast<double>(dataset.subset_samples)),
                        format_bytes(dataset.subset_bytes));
  return text;
}

std::string host_text(const HostRecord& host) {
  std::vector<std::string> parts;
  if (!host.cpu_model.empty()) parts.push_back(host.cpu_model);
  parts.push_back(fmt::format("{} usable cores", format_number(host.cores)));
  parts.push_back(format_bytes(host.memory_bytes) + " usable memory");
  if (!host.storage_device.empty())
    parts.push_back(fmt::format("{}{}", host.storage_device, host.storage_filesystem.empty() ? "" : " (" + host.storage_filesystem + ")"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string rate_note(const RateRecord& rate) {
  std::vector<std::string> notes;
  if (rate.bytes_per_s > 0) notes.push_back(format_bytes_per_second(rate.bytes_per_s));
  if (rate.cache_fraction) notes.push_back(format_share(*rate.cache_fraction) + " cached");
  if (rate.windows == 1) notes.emplace_back("one window: interval not known");
  if (rate.void_windows > 0) notes.push_back(fmt::format("{} of {} windows void", rate.void_windows, rate.windows + rate.void_windows));
  return fmt::format("{}", fmt::join(notes, ", "));
}

std::string order_text(const OrderRecord& order) {
  if (order.kind == "random") return "random: every sample anywhere in the epoch";
  return fmt::format(
      "{}, shuffle buffer {} samples{}: samples move {} as far as in a random order, {} stay beside their neighbour, rank correlation "
      "with the files {:.2f}, a batch draws on {} of the files that a random one does",
      order.kind, order.shuffle_buffer, order.readers > 1 ? fmt::format(", {} readers", order.readers) : "", format_share(order.mean_displacement),
      format_share(order.neighbours), order.rank_correlation, format_share(order.batch_files));
}

std::string utilisation_text(const AcceleratorUtilisation& au, const std::string& run) {
  return fmt::format("{} % by MLPerf Storage's formula (no MLPerf result): {} of {} in the {} run, {} emulated accelerator{}",
                     format_number(au.value), format_seconds(au.compute_seconds), format_seconds(au.total_seconds), run, au.accelerators,
                     au.accelerators == 1 ? "" : "s");
}

std::string loss_text(double loss) { return fmt::format("{:.5g}", loss); }

std::string learned_text(const RunRecord& run) {
  if (!run.training || run.training->by_epoch.empty()) return "";
  const auto& epochs = run.training->by_epoch;
  if (epochs.size() == 1) return fmt::format("loss {} in the only epoch (run {})", loss_text(epochs.front().loss), run.name);
  return fmt::format("loss {} in the first epoch, {} in the last of {} (run {})", loss_text(epochs.front().loss), loss_text(epochs.back().loss),
                     format_number(static_cast<double>(epochs.back().epoch + 1)), run.name);
}

std::string saved_by_drawing_text(const SharingRecord& sharing) {
  if (!sharing.fastest) return "";
  const FastestJobRecord& fastest = *sharing.fastest;
  const double saved = 1 - fastest.preparations_per_sample / std::max(fastest.independent_per_sample, 1e-9);
  const std::string of =
      fmt::format("for each sample of the fastest job (job {}), {:.2f} were prepared", fastest.job, fastest.preparations_per_sample);
  if (fastest.independent_per_sample <= 1 || saved < 0.0005)
    return fmt::format("{}, as many as without sharing ({:.2f})", of, fastest.independent_per_sample);
  return fmt::format("{}; jobs that share nothing would have needed {:.2f}, so sharing saved {} of prep", of, fastest.independent_per_sample,
                     format_share(saved));
}

std::string drawn_text(const ShareDependentRecord& dependent) {
  const auto prepared = static_cast<double>(std::max<std::uint64_t>(dependent.samples_prepared, 1));
  std::string text = fmt::format("each prepared sample was given to {:.2f} jobs", static_cast<double>(dependent.samples_drawn) / prepared);
  if (dependent.store_samples == 0) return text + "; none was kept for later draws";
  return text + fmt::format("; {} of those drawn came from the store ({}, at most {})",
                            format_share(static_cast<double>(dependent.samples_from_store) /
                                         static_cast<double>(std::max<std::uint64_t>(dependent.samples_drawn, 1))),
                            dependent.policy, so_many(dependent.store_samples, "sample", "samples"));
}

std::string sharing_text(const SharingRecord& sharing) {
  const std::string jobs = fmt::format("{} job{}", sharing.jobs, sharing.jobs == 1 ? "" : "s");
  const std::string prepared = fmt::format("each sample was prepared {} an epoch", times_text(sharing.preparations_per_sample));
  const std::string batches = fmt::format("at most {} ({})", so_many(sharing.staged_batches, "batch", "batches"), format_bytes(sharing.staged_bytes));
  if (sharing.share == "none") return fmt::format("{}, each for itself: {}; {} in memory{}", jobs, prepared, batches, disturbances_text(sharing));
  if (sharing.dependent)
    return fmt::format("{} drew dependently, and the coordinator prepared for all: {}; {} staged, {} shared in all{}", jobs,
                       drawn_text(*sharing.dependent), batches, format_bytes(sharing.shared_bytes), disturbances_text(sharing));
  std::string handover;
  if (sharing.handover_seconds_per_batch)
    handover = fmt::format("; handing a batch over cost {}", format_seconds(*sharing.handover_seconds_per_batch));
  return fmt::format("{} took every batch from one preparation, {}: {}; {} staged, {} shared in all{}{}", jobs,
                     sharing.producers == "coordinator" ? "the coordinator's" : "to which each did its part", prepared, batches,
                     format_bytes(sharing.shared_bytes), handover, disturbances_text(sharing));
}

std::string job_end_text(const JobRecord& job) {
  return job.trial ? fmt::format("{}, trial {}", enum_name(job.end), *job.trial) : enum_name(job.end);
}

std::string partition_text(const PartitionRecord& partition) {
  std::string text = so_many(static_cast<std::uint64_t>(partition.world), "rank", "ranks") + ", " + parting_text(partition);
  if (partition.storage_scope == "shared") text += "; all read from one storage";
  if (partition.nowhere_samples > 0)
    text += fmt::format("; no cache has room for {} ({}), which storage serves in every epoch",
                        so_many(partition.nowhere_samples, "sample", "samples"), format_bytes(partition.nowhere_bytes));
  else if (partition.partition != "none")
    text += "; together they have room for all samples";
  if (partition.ranks_at_end < partition.world) text += fmt::format("; {} of them were there at the end", format_number(partition.ranks_at_end));
  return text;
}

std::vector<std::string> lost_texts(const PartitionRecord& partition) {
  constexpr std::size_t most_named = 8;
  std::vector<std::string> texts;
  for (const LostRankRecord& lost : std::span(partition.lost).first(std::min(partition.lost.size(), most_named))) {
    const std::string begin = fmt::format("rank {} was lost in epoch {}", lost.rank, format_number(static_cast<double>(lost.epoch)));
    if (lost.untrained.empty())
      texts.push_back(begin + ", and no sample of that epoch with it");
    else
      texts.push_back(fmt::format("{}: its {} of that epoch {} not known to be trained", begin, so_many(lost.untrained.size(), "sample", "samples"),
                                  lost.untrained.size() == 1 ? "is" : "are"));
  }
  if (partition.lost.size() > most_named)
    texts.push_back(
        fmt::format("{} more were lost; the JSON record names them", format_number(static_cast<double>(partition.lost.size() - most_named))));
  return texts;
}

std::string host_name_text(const RankRecord& rank) { return shortened(rank.host, 64); }

std::uint64_t samples_from_storage(const RankRecord& rank) { return rank.cache_misses - std::min(rank.peer_hits, rank.cache_misses); }

std::string judged_by_text(const SearchTrialRecord& trial) { return trial.judged_by == "loss" ? "loss" : "samples/s"; }

std::string observed_text(const ProfileResult::Observed& observed) {
  return fmt::format("your own job reaches {} samples/s; {} of what this machine could feed with dsanalyze's own loader is unused",
                     format_number(observed.samples_per_s), format_share(observed.unused_fraction));
}

}  // namespace dsanalyze::report
