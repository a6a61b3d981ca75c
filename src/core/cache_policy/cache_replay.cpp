#include "cache_replay.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/json_reader.hpp"

namespace dsanalyze {

ReplayPolicy parse_replay_policy(const std::string& text) {
  if (const std::optional<ReplayPolicy> policy = enum_named<ReplayPolicy>(text)) return *policy;
  const std::optional<std::string> near = nearest_name(text, replay_policy_names());
  throw UsageError(fmt::format("found '{}', expected {}{}", text, fmt::join(enum_names<ReplayPolicy>, ", "),
                               near ? fmt::format("; did you mean {}?", *near) : ""));
}

std::string replay_policy_name(ReplayPolicy policy) { return enum_name(policy); }

ReplayPolicy replay_policy_of(CacheKind kind, Admission admission) {
  switch (kind) {
    case CacheKind::minio:
      return admission == Admission::cost_aware ? ReplayPolicy::minio_cost_aware : ReplayPolicy::minio;
    case CacheKind::lru:
      return ReplayPolicy::lru;
    case CacheKind::page_model_random:
      return ReplayPolicy::page_model_random;
    case CacheKind::page_model_linux:
      return ReplayPolicy::page_model_linux;
    case CacheKind::none:
    case CacheKind::page:
      break;
  }
  return ReplayPolicy::none;
}

CacheKind cache_kind_of(ReplayPolicy policy) {
  switch (policy) {
    case ReplayPolicy::minio:
    case ReplayPolicy::minio_cost_aware:
      return CacheKind::minio;
    case ReplayPolicy::lru:
      return CacheKind::lru;
    case ReplayPolicy::page_model_random:
      return CacheKind::page_model_random;
    case ReplayPolicy::page_model_linux:
      return CacheKind::page_model_linux;
    case ReplayPolicy::none:
    case ReplayPolicy::belady:
      break;
  }
  return CacheKind::none;
}

AccessCounts& CaseCounts::of(std::uint32_t job, std::uint32_t epoch) {
  std::vector<EpochCounts>& of_job = jobs[job];
  if (of_job.empty() || of_job.back().epoch != epoch) of_job.push_back({epoch, {}});
  return of_job.back().counts;
}

void CaseCounts::add_up() {
  std::map<std::uint32_t, AccessCounts> sums;
  for (const auto& job : jobs) {
    for (const EpochCounts& each : job) sums[each.epoch].add(each.counts);
  }
  epochs.clear();
  for (const auto& [epoch, counts] : sums) epochs.push_back({epoch, counts});
}

std::vector<std::string> replay_policy_names() { return {enum_names<ReplayPolicy>.begin(), enum_names<ReplayPolicy>.end()}; }

}  // namespace dsanalyze
