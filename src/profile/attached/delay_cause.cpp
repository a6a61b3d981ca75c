#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

/// A figure of the delaying rank, and of the other rank that comes nearest to being as slow.
struct Compared {
  double own = 0;
  double others = 0;
};

/// What the ranks' processes used in a second of the phase, by rank.
struct RankUse {
  double cpu_seconds_per_sample = 0;
  double cores = 0;   ///< busy ones, the mean
  double waited = 0;  ///< for cores, seconds a second
  double storage_bytes_per_s = 0;
  double main_busy = 0;  ///< of the training's own thread: computing or ready to, seconds a second
  double clock_hz = 0;   ///< of its CPUs; 0: not known
};

double samples_of(const std::vector<StepWindow>& windows) {
  double samples = 0;
  for (const StepWindow& window : windows) samples += std::accumulate(window.samples.begin(), window.samples.end(), 0.0);
  return samples;
}

std::map<int, RankUse> uses_of(const PhaseMeasurement& full) {
  std::map<int, RankUse> uses;
  if (!full.before || !full.after) return uses;
  const double seconds = to_seconds(full.after->at - full.before->at);
  for (const auto& [rank, windows] : full.by_rank) {
    const auto before = full.before->branches.find(rank);
    const auto after = full.after->branches.find(rank);
    const double samples = samples_of(windows);
    if (before == full.before->branches.end() || after == full.after->branches.end() || seconds <= 0 || samples <= 0) return {};
    RankUse& use = uses[rank];
    use.cpu_seconds_per_sample = std::max(after->second.cpu_seconds - before->second.cpu_seconds, 0.0) / samples;
    use.cores = std::max(after->second.cpu_seconds - before->second.cpu_seconds, 0.0) / seconds;
    use.waited = std::max(after->second.waited_seconds - before->second.waited_seconds, 0.0) / seconds;
    use.main_busy = std::max(after->second.main_busy_seconds - before->second.main_busy_seconds, 0.0) / seconds;
    if (before->second.clock_hz && after->second.clock_hz) use.clock_hz = (*before->second.clock_hz + *after->second.clock_hz) / 2;
    if (before->second.storage_bytes && after->second.storage_bytes && *after->second.storage_bytes > *before->second.storage_bytes)
      use.storage_bytes_per_s = static_cast<double>(*after->second.storage_bytes - *before->second.storage_bytes) / seconds;
  }
  return uses;
}

Compared compared(const std::map<int, RankUse>& uses, int rank, double RankUse::*figure) {
  Compared result;
  for (const auto& [each, use] : uses) {
    if (each == rank)
      result.own = use.*figure;
    else
      result.others = std::max(result.others, use.*figure);
  }
  return result;
}

constexpr double least_waited = 0.3;  ///< for cores: of each second, by all of a rank's threads together

/// Where the rank uses its CPUs up, as far as that is known.
std::optional<DelayCauseRecord> fewer_cpus(const std::map<int, RankUse>& uses, const WaitsRecord& waits, int rank) {
  constexpr double clearly = 0.75;
  constexpr double nearly_all = 0.6;
  const RankWaitsRecord* own = nullptr;
  const RankWaitsRecord* fewest = nullptr;
  for (const RankWaitsRecord& each : waits.by_rank) {
    if (each.cores == 0) return std::nullopt;
    if (each.rank == rank)
      own = &each;
    else if (fewest == nullptr || each.cores < fewest->cores)
      fewest = &each;
  }
  if (own == nullptr || fewest == nullptr || own->cores >= clearly * fewest->cores) return std::nullopt;
  if (const auto use = uses.find(rank); use != uses.end() && use->second.cores < nearly_all * own->cores && use->second.waited < least_waited)
    return std::nullopt;
  const bool all_alike =
      std::ranges::all_of(waits.by_rank, [&](const RankWaitsRecord& each) { return each.rank == rank || each.cores == fewest->cores; });
  return DelayCauseRecord{DelayCauseRecord::Cause::affinity,
                          fmt::format("rank {} may use {} core{} ({}), the others {}{}", rank, own->cores, own->cores == 1 ? "" : "s", own->cpus,
                                      fewest->cores, all_alike ? "" : " or more")};
}

/// How many times as fast the slowest CPUs of other ranks run; 1 where that is not known of all.
double slower_clock(const std::map<int, RankUse>& uses, int rank) {
  double others = std::numeric_limits<double>::infinity();
  for (const auto& [each, use] : uses) {
    if (use.clock_hz <= 0) return 1;
    if (each != rank) others = std::min(others, use.clock_hz);
  }
  return others / uses.at(rank).clock_hz;
}

std::optional<DelayCauseRecord> cause_in_use(const std::map<int, RankUse>& uses, const WaitsRecord& waits, int rank) {
  constexpr double least_storage = 1e6;
  constexpr double more_storage = 3;
  constexpr double more_waited = 2;
  constexpr double more_computing = 1.25;
  constexpr double clearly_slower = 1.1;
  if (uses.size() < 2) return std::nullopt;
  const Compared storage = compared(uses, rank, &RankUse::storage_bytes_per_s);
  if (delay_of(waits.by_rank, rank) == RankDelay::data && storage.own > std::max(least_storage, more_storage * storage.others))
    return DelayCauseRecord{DelayCauseRecord::Cause::storage,
                            fmt::format("rank {} reads {}/s from storage, the others {}/s at most", rank,
                                        format_bytes(static_cast<Bytes>(storage.own)), format_bytes(static_cast<Bytes>(storage.others)))};
  const Compared waited = compared(uses, rank, &RankUse::waited);
  if (waited.own > std::max(least_waited, more_waited * waited.others))
    return DelayCauseRecord{
        DelayCauseRecord::Cause::cores,
        fmt::format("threads of rank {} wait for a core for {:.2g} s of each second, those of the others for {:.2g} s at most: other "
                    "programs use its cores, or it has more threads than cores",
                    rank, waited.own, waited.others)};
  const Compared computing = compared(uses, rank, &RankUse::cpu_seconds_per_sample);
  // An idle CPU has a low clock, too: it is a cause where computing takes longer, and the clock explains half of that.
  if (const double slower = slower_clock(uses, rank), longer = computing.others > 0 ? computing.own / computing.others : 1;
      slower > clearly_slower && longer > clearly_slower && slower - 1 > (longer - 1) / 2)
    return DelayCauseRecord{DelayCauseRecord::Cause::clock,
                            fmt::format("the CPUs of rank {} run at {:.3g} GHz, those of the others at {:.3g} GHz at least, so it computes {} for a "
                                        "sample, and the others {} at most",
                                        rank, uses.at(rank).clock_hz / 1e9, slower * uses.at(rank).clock_hz / 1e9, format_seconds(computing.own),
                                        format_seconds(computing.others))};
  if (computing.others > 0 && computing.own > more_computing * computing.others)
    return DelayCauseRecord{DelayCauseRecord::Cause::compute,
                            fmt::format("rank {} computes {} for a sample, the others {} at most: its samples take more, or its cores are slower",
                                        rank, format_seconds(computing.own), format_seconds(computing.others))};
  return std::nullopt;
}

/// Whether the training's own thread of a rank needs cores for most of what its steps are computed in. One that sleeps there, or waits for a device,
/// has nothing of more cores, or of faster ones.
bool computes_in_steps(const std::map<int, RankUse>& uses, const WaitsRecord& waits, int rank) {
  constexpr double most = 0.5;
  const auto use = uses.find(rank);
  const auto own = std::ranges::find(waits.by_rank, rank, &RankWaitsRecord::rank);
  return use != uses.end() && own != waits.by_rank.end() && waits.step_seconds > 0 &&
         use->second.main_busy > most * own->compute.seconds_per_step / waits.step_seconds;
}

}  // namespace

std::string cpus_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t at = 0; at < cpus.size();) {
    std::size_t last = at;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[at]);
    if (last > at) text += fmt::format("-{}", cpus[last]);
    at = last + 1;
  }
  return text;
}

void take_delay_cause(const AttachedTraining& training, WaitsRecord& waits) {
  for (RankWaitsRecord& each : waits.by_rank)
    if (const auto cpus = training.cpus.find(each.rank); cpus != training.cpus.end()) {
      each.cores = static_cast<int>(cpus->second.size());
      each.cpus = cpus_text(cpus->second);
    }
  if (!waits.delaying_rank) return;
  const int rank = *waits.delaying_rank;
  if (delay_of(waits.by_rank, rank) == RankDelay::outside) return;  // What the script does there says nothing of its cores and its storage.
  const std::map<int, RankUse> uses = uses_of(training.phases.at(AttachPhase::full));
  if (delay_of(waits.by_rank, rank) == RankDelay::compute && !computes_in_steps(uses, waits, rank)) return;
  waits.delay_cause = fewer_cpus(uses, waits, rank);
  if (!waits.delay_cause) waits.delay_cause = cause_in_use(uses, waits, rank);
}

}  // namespace dsanalyze
