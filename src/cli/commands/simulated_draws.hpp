#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/options/typed_options.hpp"
#include "core/dependent/draw_replay.hpp"
#include "core/records/simulate_result.hpp"
#include "core/trace/draw_trace.hpp"

namespace dsanalyze::cli {

/// The stores that a trace of draws is put before: --policy and --cache-size, or both policies with the size that was recorded.
class SimulatedStores {
 public:
  /// Throws UsageError that names the option.
  SimulatedStores(const DrawTraceHeader& header, const TypedOptions& typed);
  [[nodiscard]] const std::vector<DrawReplay::Case>& cases() const { return m_cases; }
  [[nodiscard]] SimulateResult result(const std::string& path, const DrawTraceHeader& header, const DrawReplay& replay) const;

 private:
  std::vector<DrawReplay::Case> m_cases;
};

/// Throws Error when a replay takes more memory than there is.
void require_draw_memory(const std::string& what, std::uint32_t samples, std::span<const DrawReplay::Case> cases);

}  // namespace dsanalyze::cli
