#include <algorithm>
#include <functional>
#include <limits>

#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

/// What an answer may change. `level` is nullopt where it does not; `base` is the place of what was measured, where it is known.
struct SweepFactor {
  const char* name;
  std::function<std::optional<SweepLevel>(const WhatIfChange&)> level;
  std::optional<double> base = std::nullopt;
  std::string base_text = "unchanged";
};

SweepLevel numbered(double number, const std::string& text) { return {number, text}; }

template <typename Member>
auto number_of(Member member, std::string (*text)(double)) {
  return [member, text](const WhatIfChange& change) -> std::optional<SweepLevel> {
    const auto& value = change.*member;
    if (!value) return std::nullopt;
    return numbered(static_cast<double>(*value), text(static_cast<double>(*value)));
  };
}

/// Words have no order: their places come later, as they appear.
auto word_of(std::string WhatIfChange::*member) {
  return [member](const WhatIfChange& change) -> std::optional<SweepLevel> {
    if ((change.*member).empty()) return std::nullopt;
    return SweepLevel{std::numeric_limits<double>::quiet_NaN(), change.*member};
  };
}

std::string factor_text(double factor) { return format_number(factor) + "x"; }
std::string bytes_text(double bytes) { return format_bytes(static_cast<Bytes>(bytes)); }

/// Where locality's batches are balanced from is a part of how the dataset is partitioned: no other partitioning has that.
std::optional<SweepLevel> partition_level(const WhatIfChange& change) {
  if (change.partition.empty()) return std::nullopt;
  return SweepLevel{std::numeric_limits<double>::quiet_NaN(), partition_text(change)};
}

/// Factors on the measured one come before absolute speeds.
std::optional<SweepLevel> storage_level(const WhatIfChange& change) {
  constexpr double without_limit = 1e9;
  if (change.storage_bytes_per_s) return numbered(*change.storage_bytes_per_s, format_bytes_per_second(*change.storage_bytes_per_s));
  if (!change.storage_factor) return std::nullopt;
  if (*change.storage_factor >= without_limit) return numbered(std::numeric_limits<double>::max(), "without limit");
  return numbered(*change.storage_factor, factor_text(*change.storage_factor));
}

std::vector<SweepFactor> factors_of(const WhatIfResult& result) {
  using Change = WhatIfChange;
  return {{"cache", number_of(&Change::cache_fraction, format_share), result.base_cache_fraction,
           format_share(result.base_cache_fraction) + " (unchanged)"},
          {"cache kind", word_of(&Change::cache)},
          {"cores", number_of(&Change::cores, format_number)},
          {"cores, of those measured", number_of(&Change::cores_factor, factor_text), 1},
          {"accelerator speed", number_of(&Change::accelerator_speed, factor_text), 1},
          {"copies to the GPU", number_of(&Change::transfer_factor, factor_text), 1},
          {"accelerators", number_of(&Change::accelerators, format_number)},
          {"storage", storage_level, 1},
          {"size of a read", number_of(&Change::request_bytes, bytes_text)},
          {"reads in flight", number_of(&Change::fetch_concurrency, format_number)},
          {"batch size", number_of(&Change::batch_size, format_number)},
          {"jobs", number_of(&Change::jobs, format_number), 1},
          {"sharing", word_of(&Change::share)},
          {"servers", number_of(&Change::servers, format_number), 1},
          {"partition", partition_level},
          {"storage of", word_of(&Change::storage_scope)},
          {"network", number_of(&Change::network_bytes_per_s, format_bytes_per_second)}};
}

/// The levels of one factor in all answers, those that are as measured with the place that belongs to them.
std::vector<SweepLevel> levels_in(const SweepFactor& factor, const std::vector<WhatIfAnswer>& answers) {
  std::vector<SweepLevel> levels;
  std::vector<std::string> words;
  for (const WhatIfAnswer& answer : answers) {
    SweepLevel level = factor.level(answer.change).value_or(SweepLevel{factor.base.value_or(-1), factor.base_text, true});
    if (level.place != level.place) {
      auto word = std::ranges::find(words, level.text);
      if (word == words.end()) word = words.insert(words.end(), level.text);
      level.place = static_cast<double>(word - words.begin());
    }
    levels.push_back(std::move(level));
  }
  return levels;
}

}  // namespace

std::optional<SweepMap> whatif_sweep(const WhatIfResult& result) {
  const auto& answers = result.answers;
  Sweep sweep;
  for (const WhatIfAnswer& answer : answers) {
    sweep.points.push_back({{}, answer.samples_per_s, format_number(answer.samples_per_s) + " " + binding_letter(answer)});
  }
  for (const SweepFactor& factor : factors_of(result)) {
    const std::vector<SweepLevel> levels = levels_in(factor, answers);
    if (std::ranges::all_of(levels, &SweepLevel::as_measured)) continue;
    sweep.factors.emplace_back(factor.name);
    for (std::size_t at = 0; at < levels.size(); ++at) sweep.points[at].levels.push_back(levels[at]);
  }
  return sweep_map(sweep, "samples/s");
}

}  // namespace dsanalyze::report
