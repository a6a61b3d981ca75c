#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "cli/terminal/output_files.hpp"
#include "loaders/dataset/dataset.hpp"
#include "profile/profiler.hpp"

namespace CLI {
class App;
}

namespace dsanalyze::cli {

/// The options of `profile` as typed, and how they become settings: names are looked up in configs/, a preset fills what was not typed.
class ProfileOptions {
 public:
  void declare(CLI::App& app);
  /// Those that say what set-up is meant, without those of the measuring.
  void declare_set_up(CLI::App& app);
  /// Those that say what is loaded and how: the dataset, reads, cache and prep.
  void declare_loading(CLI::App& app);
  [[nodiscard]] bool names_dataset() const { return !m_dataset.empty(); }
  /// The settings alone, of a dataset that may be missing, and the workload's prep. Throws UsageError that names the option.
  [[nodiscard]] ProfileInputs resolve_settings(std::uint64_t seed) const;
  /// Throws UsageError that names the option; opens the dataset last (Error).
  [[nodiscard]] ProfileInputs resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const;
  /// The dataset's index; `settings` as resolved.
  [[nodiscard]] std::shared_ptr<const DatasetIndex> open(const ProfileSettings& settings, EventSink& events, const std::stop_token& stop) const;
  /// Throws UsageError when none was given.
  void require_dataset() const;

  /// What it was asked to write.
  [[nodiscard]] std::vector<OutputFile> outputs() const {
    return {{"--trace", m_trace}, {"--trace-events", m_trace_events}, {"--metrics", m_metrics}, {"--html", m_html}};
  }
  /// What no output may replace.
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const { return {m_index}; }
  /// Where to write OpenMetrics text; empty: nowhere.
  [[nodiscard]] std::filesystem::path metrics() const { return m_metrics; }
  /// Where to write the report; empty: none.
  [[nodiscard]] const std::string& html() const { return m_html; }
  // As typed, for a training that is launched.
  [[nodiscard]] const std::string& time_budget() const { return m_time_budget; }
  [[nodiscard]] const std::string& subset() const { return m_subset; }
  [[nodiscard]] bool dry_run() const { return m_dry_run; }
  [[nodiscard]] bool require_trusted() const { return m_require_trusted; }

 private:
  void declare_source(CLI::App& app);
  void declare_batches(CLI::App& app);
  void apply_preset(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_accelerator(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_storage(ProfileSettings& settings) const;
  void apply_prep(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_order(ProfileSettings& settings) const;
  void apply_cache(ProfileSettings& settings) const;
  void apply_jobs(ProfileSettings& settings) const;

  std::string m_dataset, m_accelerator, m_observed, m_workload, m_accelerators, m_batch_size, m_step, m_workers, m_cores, m_layout, m_dtype, m_cache,
      m_cache_size, m_storage, m_prep, m_preset, m_scale, m_runs, m_epochs, m_time_budget, m_subset, m_max_storage_rate, m_on_error, m_error_budget,
      m_index, m_concurrency, m_io, m_admit, m_memory_limit, m_order, m_shuffle_buffer, m_readers, m_jobs, m_share, m_producers, m_batch_copy,
      m_trials, m_stop_at, m_trace, m_trace_events, m_metrics, m_html;
  SampleKeys m_keys;
  bool m_direct = false;
  bool m_dry_run = false;
  bool m_require_trusted = false;
};

}  // namespace dsanalyze::cli
