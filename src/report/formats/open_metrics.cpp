#include "report/report.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text/text.hpp"
#include "report/document/profile_text.hpp"

namespace dsanalyze {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char byte : printable(value)) {
    if (byte == '"' || byte == '\\') text += '\\';
    text += byte;
  }
  return text + '"';
}

/// One metric family at a time: its lines must stand together.
class Exposition {
 public:
  explicit Exposition(const std::string& dataset) : m_dataset(quoted(dataset)) {}

  /// `unit` is the end of `name`, or empty.
  void begin(std::string_view type, std::string_view name, std::string_view unit, std::string_view help) {
    m_name = name;
    m_head = fmt::format("# TYPE {0} {1}\n{2}# HELP {0} {3}\n", name, type, unit.empty() ? "" : fmt::format("# UNIT {} {}\n", name, unit), help);
  }
  void gauge(std::string_view name, std::string_view unit, std::string_view help) { begin("gauge", name, unit, help); }
  /// Of the family that was begun last. Nothing where the value is not a number.
  void sample(double value, const Labels& labels, std::string_view suffix = "") {
    if (!std::isfinite(value)) return;
    m_text += std::exchange(m_head, "");
    m_text += fmt::format("{}{}{{dataset={}", m_name, suffix, m_dataset);
    for (const auto& [name, label] : labels) m_text += fmt::format(",{}={}", name, quoted(label));
    m_text += fmt::format("}} {}\n", value);
  }
  [[nodiscard]] std::string finish() { return std::move(m_text) + "# EOF\n"; }

 private:
  std::string m_dataset;
  std::string_view m_name;
  std::string m_head;  ///< until the first sample
  std::string m_text;
};

void write_profile(Exposition& out, const ProfileResult& result) {
  out.gauge("dsanalyze_profile_info", "", "The profile that the other metrics are of; always 1.");
  out.sample(1, {{"version", result.tool.version},
                 {"workload", result.settings.workload},
                 {"accelerator", result.host.accelerator},
                 {"storage", result.host.storage_device}});
  if (const auto started = parse_utc(result.started_utc)) {
    out.gauge("dsanalyze_profile_started_timestamp_seconds", "seconds", "When the profile began, since 1970.");
    out.sample(static_cast<double>(std::chrono::duration_cast<std::chrono::seconds>(started->time_since_epoch()).count()), {});
  }
  out.gauge("dsanalyze_profile_trusted", "", "1 when the measurement could prove itself, else 0.");
  out.sample(result.trusted ? 1 : 0, {});
  out.gauge("dsanalyze_profile_findings", "", "Findings by severity.");
  for (const auto& [severity, name] :
       {std::pair{Finding::Severity::info, "info"}, {Finding::Severity::warning, "warning"}, {Finding::Severity::error, "error"}}) {
    std::size_t count = 0;
    for (const Finding& finding : result.findings) count += finding.severity == severity ? 1 : 0;
    out.sample(static_cast<double>(count), {{"severity", name}});
  }
}

void write_rates(Exposition& out, const ProfileResult& result) {
  const std::array<std::pair<const char*, const std::optional<RateRecord>&>, 7> rates{{{"G", result.ingestion},
                                                                                       {"P", result.prep},
                                                                                       {"C", result.cache},
                                                                                       {"S", result.storage},
                                                                                       {"N", result.network},
                                                                                       {"H", result.transfer},
                                                                                       {"F", result.fetch}}};
  const auto each = [&](auto value_of) {
    for (const auto& [name, rate] : rates)
      if (rate) out.sample(value_of(*rate), {{"rate", name}});
  };
  out.gauge("dsanalyze_rate_samples_per_second", "samples_per_second",
            "What accelerators can consume (G), prep (P), the cache (C), storage (S), others' caches (N) and fetch (F) can supply.");
  each([](const RateRecord& rate) { return rate.samples_per_s; });
  out.gauge("dsanalyze_rate_ci95_low_samples_per_second", "samples_per_second", "Lower end of the 95 % interval.");
  each([](const RateRecord& rate) { return rate.ci95_samples_per_s.low; });
  out.gauge("dsanalyze_rate_ci95_high_samples_per_second", "samples_per_second", "Upper end of the 95 % interval.");
  each([](const RateRecord& rate) { return rate.ci95_samples_per_s.high; });
  out.gauge("dsanalyze_rate_bytes_per_second", "bytes_per_second", "The same rates in bytes of the samples as they are stored.");
  each([](const RateRecord& rate) { return rate.bytes_per_s > 0 ? rate.bytes_per_s : std::nan(""); });
}

void write_stalls(Exposition& out, const ProfileResult& result) {
  if (result.stalls) {
    std::vector<std::pair<const char*, StallRecord>> parts{
        {"compute", result.stalls->compute}, {"prep", result.stalls->prep}, {"fetch", result.stalls->fetch}};
    if (result.stalls->contention) parts.emplace_back("contention", *result.stalls->contention);
    if (result.stalls->interference) parts.emplace_back("interference", *result.stalls->interference);
    out.gauge("dsanalyze_epoch_ratio", "ratio", "Share of an epoch: computing, waiting for prep, waiting for fetch, lost to interference.");
    for (const auto& [name, stall] : parts) out.sample(stall.fraction, {{"part", name}});
    out.gauge("dsanalyze_epoch_ci95_low_ratio", "ratio", "Lower end of the 95 % interval.");
    for (const auto& [name, stall] : parts) out.sample(stall.ci95_fraction.low, {{"part", name}});
    out.gauge("dsanalyze_epoch_ci95_high_ratio", "ratio", "Upper end of the 95 % interval.");
    for (const auto& [name, stall] : parts) out.sample(stall.ci95_fraction.high, {{"part", name}});
    out.gauge("dsanalyze_epoch_seconds", "seconds", "The same in seconds of an epoch of the whole dataset.");
    for (const auto& [name, stall] : parts) out.sample(stall.seconds_per_epoch, {{"part", name}});
  }
  if (!result.bottleneck) return;
  out.gauge("dsanalyze_bottleneck", "", "1 for the resource that is the bottleneck, 0 for the others.");
  for (const char* resource : {"gpu", "cpu", "io"}) out.sample(result.bottleneck->resource == resource ? 1 : 0, {{"resource", resource}});
  out.gauge("dsanalyze_bottleneck_confident", "", "1 when the intervals tell which resource is the bottleneck, else 0.");
  out.sample(result.bottleneck->confident ? 1 : 0, {});
}

template <typename Value>
void each_run(Exposition& out, const ProfileResult& result, Value value_of) {
  for (const RunRecord& run : result.runs) out.sample(value_of(run), {{"run", run.name}});
}

void write_waits(Exposition& out, const ProfileResult& result) {
  out.begin("summary", "dsanalyze_run_stall_seconds", "seconds", "An accelerator's waits for its next batch.");
  for (const RunRecord& run : result.runs) {
    if (!run.stall_seconds || run.stall_seconds->quantiles.size() < 2) continue;
    const DistributionRecord& waits = *run.stall_seconds;
    for (const auto& [share, name] : {std::pair{0.5, "0.5"}, {0.9, "0.9"}, {0.99, "0.99"}, {1.0, "1"}}) {
      const auto at = static_cast<std::size_t>(std::lround(share * static_cast<double>(waits.quantiles.size() - 1)));
      out.sample(waits.quantiles[at], {{"run", run.name}, {"quantile", name}});
    }
    out.sample(static_cast<double>(waits.count), {{"run", run.name}}, "_count");
    out.sample(waits.mean * static_cast<double>(waits.count), {{"run", run.name}}, "_sum");
  }
}

void write_runs(Exposition& out, const ProfileResult& result) {
  out.gauge("dsanalyze_run_samples_per_second", "samples_per_second", "Rate of each run.");
  each_run(out, result, [](const RunRecord& run) { return run.samples_per_s; });
  out.gauge("dsanalyze_run_epoch_seconds", "seconds", "An epoch of the subset, the first apart.");
  each_run(out, result, [](const RunRecord& run) { return run.epoch_seconds > 0 ? run.epoch_seconds : std::nan(""); });
  out.gauge("dsanalyze_run_storage_bytes", "bytes", "What came from storage.");
  each_run(out, result, [](const RunRecord& run) { return run.storage_bytes ? static_cast<double>(*run.storage_bytes) : std::nan(""); });
  out.gauge("dsanalyze_run_cache_hits", "", "Samples that the cache had.");
  each_run(out, result, [](const RunRecord& run) { return static_cast<double>(run.cache_hits); });
  out.gauge("dsanalyze_run_cache_misses", "", "Samples that were fetched.");
  each_run(out, result, [](const RunRecord& run) { return static_cast<double>(run.cache_misses); });
  out.gauge("dsanalyze_run_failed_samples", "", "Samples that could not be used.");
  each_run(out, result, [](const RunRecord& run) { return static_cast<double>(run.samples_failed); });
  write_waits(out, result);
  out.gauge("dsanalyze_run_mlperf_storage_au_ratio", "ratio", "Accelerator utilisation by the formula of MLPerf Storage; no MLPerf result.");
  each_run(out, result, [](const RunRecord& run) { return run.mlperf_storage_au ? run.mlperf_storage_au->value / 100 : std::nan(""); });
  out.gauge("dsanalyze_prep_operator_seconds", "seconds", "Busy time of one worker in an operator, a sample.");
  for (const RunRecord& run : result.runs)
    for (const OperatorRecord& each : run.prep_operators)
      out.sample(each.seconds_per_sample.value_or(std::nan("")), {{"run", run.name}, {"operator", each.name}});
}

template <typename Value>
void each_job(Exposition& out, const ProfileResult& result, Value value_of) {
  for (const JobRecord& job : result.jobs) out.sample(value_of(job), {{"job", fmt::format("{}", job.job)}});
}

void write_jobs(Exposition& out, const ProfileResult& result) {
  out.gauge("dsanalyze_job_samples_per_second", "samples_per_second", "Rate of each job in the full run.");
  each_job(out, result, [](const JobRecord& job) { return job.samples_per_s; });
  out.gauge("dsanalyze_job_epoch_seconds", "seconds", "An epoch of the subset, the first apart.");
  each_job(out, result, [](const JobRecord& job) { return job.epoch_seconds > 0 ? job.epoch_seconds : std::nan(""); });
  out.gauge("dsanalyze_job_stall_ratio", "ratio", "Share of its time in which the job's accelerators waited for a batch.");
  each_job(out, result, [](const JobRecord& job) { return job.stall_fraction; });
  out.gauge("dsanalyze_job_trained_samples", "", "Samples that the job trained on.");
  each_job(out, result, [](const JobRecord& job) { return static_cast<double>(job.samples); });
  out.gauge("dsanalyze_job_prepared_samples", "", "Samples that the job prepared itself.");
  each_job(out, result, [](const JobRecord& job) { return static_cast<double>(job.samples_prepared); });
  out.gauge("dsanalyze_job_ended", "", "How the job ended; always 1.");
  for (const JobRecord& job : result.jobs) out.sample(1, {{"job", fmt::format("{}", job.job)}, {"end", enum_name(job.end)}});
  if (!result.sharing) return;
  const SharingRecord& sharing = *result.sharing;
  out.gauge("dsanalyze_sharing_info", "", "What the jobs shared; always 1.");
  out.sample(1, {{"share", sharing.share}, {"producers", sharing.producers}});
  out.gauge("dsanalyze_sharing_preparations_per_sample", "", "How often a sample of an epoch was prepared; 1: once for all jobs.");
  out.sample(sharing.preparations_per_sample, {});
  if (sharing.fastest) {
    out.gauge("dsanalyze_sharing_fastest_preparations_per_sample", "", "Preparations for all jobs while the fastest ran, over its samples.");
    out.sample(sharing.fastest->preparations_per_sample, {});
    out.gauge("dsanalyze_sharing_fastest_independent_per_sample", "", "The same, had each job prepared its own samples.");
    out.sample(sharing.fastest->independent_per_sample, {});
  }
  if (sharing.dependent) {
    out.gauge("dsanalyze_sharing_drawn_samples", "", "Samples that dependent jobs drew, once for each job.");
    out.sample(static_cast<double>(sharing.dependent->samples_drawn), {});
    out.gauge("dsanalyze_sharing_drawn_from_store_samples", "", "Of those drawn: that had been prepared before, for other jobs.");
    out.sample(static_cast<double>(sharing.dependent->samples_from_store), {});
  }
  out.gauge("dsanalyze_sharing_staged_bytes", "bytes", "Memory of the slots of prepared batches.");
  out.sample(static_cast<double>(sharing.staged_bytes), {});
  out.gauge("dsanalyze_sharing_handover_seconds", "seconds", "What passing a batch on costs all processes together.");
  out.sample(sharing.handover_seconds_per_batch.value_or(std::nan("")), {});
  out.gauge("dsanalyze_sharing_taken_over_batches", "", "Made by another job than the one that died.");
  out.sample(static_cast<double>(sharing.taken_over_batches), {});
}

template <typename Value>
void each_rank(Exposition& out, const ProfileResult& result, Value value_of) {
  for (const RankRecord& rank : result.ranks) out.sample(static_cast<double>(value_of(rank)), {{"rank", fmt::format("{}", rank.rank)}});
}

/// Where a rank's samples, or their bytes, came from.
template <typename Value>
void each_source(Exposition& out, const ProfileResult& result, Value values_of) {
  for (const RankRecord& rank : result.ranks)
    for (const auto& [source, value] : values_of(rank)) out.sample(value, {{"rank", fmt::format("{}", rank.rank)}, {"source", source}});
}

void write_ranks(Exposition& out, const ProfileResult& result) {
  using Sources = std::vector<std::pair<std::string, double>>;
  out.gauge("dsanalyze_rank_samples_per_second", "samples_per_second", "Rate of each rank in the full run.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.samples_per_s; });
  out.gauge("dsanalyze_rank_epoch_seconds", "seconds", "An epoch of the subset, the first apart.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.epoch_seconds > 0 ? rank.epoch_seconds : std::nan(""); });
  out.gauge("dsanalyze_rank_stall_ratio", "ratio", "Share of its time in which the rank's accelerators waited for a batch.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.stall_fraction; });
  out.gauge("dsanalyze_rank_trained_samples", "", "Samples that the rank trained on.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.samples; });
  out.gauge("dsanalyze_rank_fetched_samples", "", "Where the rank's samples came from: its cache, others' caches, storage.");
  each_source(out, result, [](const RankRecord& rank) -> Sources {
    return {{"cache", static_cast<double>(rank.cache_hits)},
            {"peers", static_cast<double>(rank.peer_hits)},
            {"storage", static_cast<double>(report::samples_from_storage(rank))}};
  });
  out.gauge("dsanalyze_rank_fetched_bytes", "bytes", "What the rank got from others' caches and from storage.");
  each_source(out, result, [](const RankRecord& rank) -> Sources {
    return {{"peers", static_cast<double>(rank.peer_bytes)},
            {"storage", rank.storage_bytes ? static_cast<double>(*rank.storage_bytes) : std::nan("")}};
  });
  out.gauge("dsanalyze_rank_served_bytes", "bytes", "What the rank's cache gave to others.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.served_bytes; });
  out.gauge("dsanalyze_rank_redirected_requests", "", "That the rank asked first did not serve.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.redirected_requests; });
  out.gauge("dsanalyze_rank_refused_connections", "", "Of strangers.");
  each_rank(out, result, [](const RankRecord& rank) { return rank.refused_connections; });
  out.gauge("dsanalyze_rank_ended", "", "How the rank ended, and on which host; always 1.");
  for (const RankRecord& rank : result.ranks)
    out.sample(1, {{"rank", fmt::format("{}", rank.rank)}, {"host", report::host_name_text(rank)}, {"end", enum_name(rank.end)}});
  if (!result.partition) return;
  const PartitionRecord& partition = *result.partition;
  out.gauge("dsanalyze_partition_info", "", "How the ranks partitioned the dataset; always 1.");
  out.sample(1, {{"partition", partition.partition}, {"balance_from", partition.balance_from}, {"storage_scope", partition.storage_scope}});
  out.gauge("dsanalyze_partition_ranks", "", "Ranks at the begin.");
  out.sample(partition.world, {});
  out.gauge("dsanalyze_partition_lost_ranks", "", "Ranks that were lost.");
  out.sample(static_cast<double>(partition.lost.size()), {});
  out.gauge("dsanalyze_partition_nowhere_bytes", "bytes", "What no cache has room for.");
  out.sample(static_cast<double>(partition.nowhere_bytes), {});
  out.gauge("dsanalyze_partition_balance_ratio", "ratio", "Mean share of a global batch that was moved to balance it.");
  out.sample(partition.balance_traffic, {});
}

}  // namespace

std::string open_metrics(const ProfileResult& result) {
  Exposition out(result.dataset.path);
  write_profile(out, result);
  write_rates(out, result);
  write_stalls(out, result);
  write_runs(out, result);
  write_jobs(out, result);
  write_ranks(out, result);
  return out.finish();
}

}  // namespace dsanalyze
