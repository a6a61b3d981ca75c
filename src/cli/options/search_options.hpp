#pragma once

#include <string>

#include "cli/commands/command.hpp"
#include "core/records/search_result.hpp"
#include "models/search/search.hpp"
#include "models/whatif/whatif.hpp"
#include "typed_options.hpp"

namespace dsanalyze::cli {

/// "10min" (an epoch's time), "5000/s", "5000 samples/s" or "5k" (a rate). Throws UsageError that names --target.
SearchQuestion::Target parse_search_target(const std::string& text);

/// whatif --search with --prices, --target and --measured-accelerator.
class SearchOptions {
 public:
  /// `typed` lives as long as this does.
  explicit SearchOptions(const TypedOptions& typed) : m_typed(typed) {}
  /// Whether --search was given. Throws UsageError for one of the others without it.
  [[nodiscard]] bool asked() const;
  /// Searches the price list's configurations; the question's lists of cores, caches, accelerators and servers narrow the space, others are refused.
  /// `profile` is what the model came from, nullptr for typed rates. Ends within 30 s: what is left is then not simulated.
  [[nodiscard]] SearchResult search(const RateModel& model, const WhatIfQuestion& asked_lists, const ProfileResult* profile,
                                    const CommandContext& context) const;

 private:
  const TypedOptions& m_typed;
};

/// whatif's lists of what to change, and --find. Throws UsageError that names the option.
WhatIfQuestion whatif_question(const TypedOptions& typed, const RateModel& model);
/// Those of --storage; `sample_bytes` is the mean, where it is known.
std::vector<WhatIfQuestion::StorageChange> storage_changes(const TypedOptions& typed, const std::optional<double>& sample_bytes);

}  // namespace dsanalyze::cli
