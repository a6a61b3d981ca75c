#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "profile_options.hpp"

namespace dsanalyze::cli {

/// What is said of the group alone.
struct ShareTerms {
  std::uint64_t epochs = 0;  ///< 0: until the last job leaves
  JobSharing share = JobSharing::coordinated;
  std::string save_state{};  ///< of dependent: where its state is written when it ends
  std::string resume{};      ///< of dependent: a state to go on from
  std::uint32_t held = 2;    ///< batches that a job may hold at once: one that is trained on, and the next on its way to an accelerator
};

/// The options of `share` as typed. What is loaded, and how, is said as to `profile`.
class ShareOptions {
 public:
  /// `typed` lives as long as this does.
  explicit ShareOptions(const TypedOptions& typed) : m_typed(typed), m_loading(typed) {}
  /// Settings of jobs that share as terms() says, with the dataset's whole index. Throws UsageError that names the option.
  [[nodiscard]] ProfileInputs resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const;
  [[nodiscard]] ShareTerms terms() const;
  /// Of the draws of a dependent group; empty: none.
  [[nodiscard]] std::filesystem::path trace() const;
  /// Absolute; empty: one of this program's choice. Throws UsageError for another kind of address.
  [[nodiscard]] std::filesystem::path socket() const;
  /// What no output may replace.
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const { return m_loading.inputs(); }

 private:
  const TypedOptions& m_typed;
  ProfileOptions m_loading;
};

}  // namespace dsanalyze::cli
