#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "profile/profiler.hpp"
#include "transport/rendezvous/rendezvous.hpp"

namespace dsanalyze::cli {

/// Whether all ranks of a job must be given the same.
enum class AmongRanks {
  same,  ///< it says what the job is, or how it is measured
  own    ///< it says what this server or this process is: ranks may differ
};

/// What a setting of 0 says of an option that has that one setting.
enum class ZeroMeans {
  zero,    ///< it was given, or is the default
  nothing  ///< the option was not given
};

/// An option of `profile` and the settings that it decides, by their names in a result.
struct RankOption {
  std::string_view name;  ///< "--batch-size"
  AmongRanks rule = AmongRanks::own;
  std::array<std::string_view, 4> settings{};  ///< empty ones behind those there are
  ZeroMeans zero = ZeroMeans::zero;
};

/// The only place where that is decided: each option of `profile` once.
std::span<const RankOption> rank_options();

/// What all ranks must have alike, or they would not train one job: the dataset and the options that must be the same, as resolved. Values are one
/// short line each.
std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs);

}  // namespace dsanalyze::cli
