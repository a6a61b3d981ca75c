#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "profile_options.hpp"

namespace dsanalyze::cli {

/// The options of `share` as typed. What is loaded, and how, is said as to `profile`.
class ShareOptions {
 public:
  void declare(CLI::App& app);
  /// Settings of coordinated jobs, with the dataset's whole index. Throws UsageError that names the option.
  [[nodiscard]] ProfileInputs resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const;
  /// 0: until the last job leaves.
  [[nodiscard]] std::uint64_t epochs() const;
  /// Batches that a job may hold at once.
  [[nodiscard]] std::uint32_t held() const;
  /// Absolute; empty: one of this program's choice. Throws UsageError for another kind of address.
  [[nodiscard]] std::filesystem::path socket() const;
  /// What no output may replace.
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const { return m_loading.inputs(); }

 private:
  ProfileOptions m_loading;
  std::string m_jobs, m_producers, m_epochs, m_held, m_listen;
};

}  // namespace dsanalyze::cli
