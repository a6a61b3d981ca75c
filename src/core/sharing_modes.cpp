#include "sharing_modes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::array<const char*, 3> job_sharings = {"none", "coordinated", "unified-producer"};
constexpr std::array<const char*, 2> producer_names = {"jobs", "coordinator"};
constexpr std::array<const char*, 3> partition_modes = {"none", "partitioned", "locality"};
constexpr std::array<const char*, 2> balance_sources = {"peers", "storage"};
constexpr std::array<const char*, 2> storage_scopes = {"server", "shared"};

template <typename Mode, std::size_t count>
Mode parse(const std::array<const char*, count>& names, const std::string& text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw UsageError(fmt::format("found '{}', expected one of {}", text, fmt::join(names, ", ")));
  return static_cast<Mode>(found - names.begin());
}

}  // namespace

JobSharing parse_job_sharing(const std::string& text) { return parse<JobSharing>(job_sharings, text); }
std::string job_sharing_name(JobSharing sharing) { return job_sharings[static_cast<std::size_t>(sharing)]; }

Producers parse_producers(const std::string& text) { return parse<Producers>(producer_names, text); }
std::string producers_name(Producers producers) { return producer_names[static_cast<std::size_t>(producers)]; }

PartitionMode parse_partition_mode(const std::string& text) { return parse<PartitionMode>(partition_modes, text); }
std::string partition_mode_name(PartitionMode mode) { return partition_modes[static_cast<std::size_t>(mode)]; }

BalanceFrom parse_balance_from(const std::string& text) { return parse<BalanceFrom>(balance_sources, text); }
std::string balance_from_name(BalanceFrom from) { return balance_sources[static_cast<std::size_t>(from)]; }

StorageScope parse_storage_scope(const std::string& text) { return parse<StorageScope>(storage_scopes, text); }
std::string storage_scope_name(StorageScope scope) { return storage_scopes[static_cast<std::size_t>(scope)]; }

}  // namespace dsanalyze
