#include "sharing_modes.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

template <typename Mode>
Mode parse(const std::string& text) {
  if (const std::optional<Mode> mode = enum_named<Mode>(text)) return *mode;
  throw UsageError(fmt::format("found '{}', expected one of {}", text, fmt::join(enum_names<Mode>, ", ")));
}

}  // namespace

JobSharing parse_job_sharing(const std::string& text) { return parse<JobSharing>(text); }
std::string job_sharing_name(JobSharing sharing) { return enum_name(sharing); }

Producers parse_producers(const std::string& text) { return parse<Producers>(text); }
std::string producers_name(Producers producers) { return enum_name(producers); }

PartitionMode parse_partition_mode(const std::string& text) { return parse<PartitionMode>(text); }
std::string partition_mode_name(PartitionMode mode) { return enum_name(mode); }

BalanceFrom parse_balance_from(const std::string& text) { return parse<BalanceFrom>(text); }
std::string balance_from_name(BalanceFrom from) { return enum_name(from); }

StorageScope parse_storage_scope(const std::string& text) { return parse<StorageScope>(text); }
std::string storage_scope_name(StorageScope scope) { return enum_name(scope); }

}  // namespace dsanalyze
