#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <vector>

#include "profile/profiler.hpp"
#include "transport/rendezvous/launch.hpp"
#include "transport/rendezvous/rendezvous.hpp"
#include "transport/team/ranks.hpp"
#include "typed_options.hpp"

namespace dsanalyze::cli {

/// This process as one rank of a job, from the meeting with the others to its end.
class LaunchedRank {
 public:
  virtual ~LaunchedRank() = default;
  virtual RankTeam& team() = 0;
  /// All ranks came to their end: lets the launcher know.
  virtual void finish() = 0;
};

/// The options that make a profile that of several ranks, one a server.
class RankOptions {
 public:
  /// `typed` lives as long as this does.
  explicit RankOptions(const TypedOptions& typed) : m_typed(typed) {}
  /// Into settings; rank and world from the options or from who launched this process. Throws UsageError that names the option.
  void apply(ProfileSettings& settings);
  /// After apply().
  [[nodiscard]] std::uint32_t rank() const { return m_launch.rank; }
  /// What no output may replace.
  [[nodiscard]] std::vector<std::filesystem::path> inputs() const { return {m_typed.text("--key-file")}; }
  /// Meets the others; nothing for a job that is one process. Throws UsageError, Error (who is missing), Interrupted.
  std::unique_ptr<LaunchedRank> launch(const ProfileInputs& inputs, const std::stop_token& stop, Timing timing) const;

 private:
  const TypedOptions& m_typed;
  Launch m_launch;
  double m_peer_timeout = RankFacts{}.peer_deadline_seconds;
};

/// What all ranks must have alike, or they would not train one job: the dataset and the options that must be the same, as resolved. Values are one
/// short line each.
std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs);

}  // namespace dsanalyze::cli
