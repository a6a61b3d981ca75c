#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dependent/dependent_group.hpp"
#include "group.hpp"

namespace dsanalyze {

/// Where a job of a dependent group goes on that comes again under its name.
struct DependentPosition {
  std::uint32_t batch_size = 1;
  std::string subset{};             ///< as it was asked for; empty: the whole dataset
  std::uint64_t epochs = 0;         ///< in all; 0: until it leaves
  std::uint64_t epoch = 0;          ///< of its next batch; `epochs`: it had all
  std::uint64_t batch = 0;          ///< that one's index in the epoch
  std::vector<SampleId> samples{};  ///< that it still needs in the epoch, ascending; none for batch 0: all
};
using DependentPositions = std::vector<std::pair<std::string, DependentPosition>>;

/// A longer name of a job is refused, in bytes.
constexpr std::size_t most_job_name = 200;
/// Jobs that are remembered: those that have something to come, and as many that had all their epochs.
constexpr std::size_t most_positions = std::size_t{2} * most_dependent_jobs;

/// Whether a job can have this name.
bool is_job_name(std::string_view name);
/// Throws UsageError that says what a name is.
void require_job_name(std::string_view name);

/// What a dependent group leaves for one that goes on with its jobs' epochs.
struct DependentState {
  std::string dataset_digest;
  std::string prep;
  std::uint64_t seed = 0;
  DependentGroup::State group;
  DependentPositions jobs;
};

/// The text of a file: one line with the format, its version, a checksum and the size of the rest, then JSON.
std::string to_text(const DependentState& state);
/// Throws UsageError with `source` and what was found: no such file, of another version, cut off, changed, of a group with other terms than `terms`
/// (what differs, and both values), or with values that cannot be. Takes no more memory than the text and a state of `terms` do.
DependentState parse_dependent_state(std::string_view text, const std::string& source, const GroupTerms& terms);

}  // namespace dsanalyze
