#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/events.hpp"
#include "cli/terminal/terminal.hpp"
#include "loaders/dataset/dataset.hpp"
#include "profile/profiler.hpp"
#include "typed_options.hpp"

namespace dsanalyze::cli {

/// The options of `profile` as typed, or those of them that another command has, and how they become settings: names are looked up in configs/, a
/// preset fills what was not typed.
class ProfileOptions {
 public:
  /// `typed` lives as long as this does.
  explicit ProfileOptions(const TypedOptions& typed) : m_typed(typed) {}

  [[nodiscard]] bool names_dataset() const { return m_typed.given("DATASET"); }
  /// The settings alone, of a dataset that may be missing, and the workload's prep. Throws UsageError that names the option.
  /// `sharing`: where no option says how jobs share.
  [[nodiscard]] ProfileInputs resolve_settings(std::uint64_t seed, JobSharing sharing = JobSharing::none) const;
  /// Throws UsageError that names the option; opens the dataset last (Error).
  [[nodiscard]] ProfileInputs resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const;
  /// The dataset's index; `settings` as resolved.
  [[nodiscard]] std::shared_ptr<const DatasetIndex> open(const ProfileSettings& settings, EventSink& events, const std::stop_token& stop) const;
  /// Throws UsageError when none was given.
  void require_dataset() const;

  /// What it was asked to write.
  [[nodiscard]] std::vector<OutputFile> outputs() const;
  /// What no output may replace.
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const { return {m_typed.text("--index")}; }

 private:
  void apply_preset(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_accelerator(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_mesh(ProfileSettings& settings) const;
  void apply_storage(ProfileSettings& settings) const;
  void apply_prep(ProfileSettings& settings, const std::optional<Workload>& workload) const;
  void apply_order(ProfileSettings& settings) const;
  void apply_cache(ProfileSettings& settings) const;

  const TypedOptions& m_typed;
};

}  // namespace dsanalyze::cli
