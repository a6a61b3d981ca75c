#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "base/statistics.hpp"
#include "base/text/units.hpp"
#include "core/sharing_modes.hpp"

namespace dsanalyze {

/// What a configuration is made of, as it is bought: so many equal servers, and the parts of ONE of them.
struct SearchSetup {
  int servers = 1;
  PartitionMode partition = PartitionMode::none;  ///< of several servers' caches: the one that brings most
  double cores = 0;                               ///< as the profile counts them
  std::string accelerator;
  int accelerators = 0;
  double cache_fraction = 0;  ///< of the dataset
  Bytes cache_bytes = 0;
  std::string storage;
  double storage_bytes_per_s = 0;  ///< bandwidth that is paid for

  bool operator==(const SearchSetup&) const = default;
};
/// "24 cores, 8 v100, 35 % cached (51 GiB), gp3 at 500 MB/s"; "4 servers (partitioned) of 24 cores, ..."
std::string setup_text(const SearchSetup& setup);
/// "12.34 USD": at least three digits that count.
std::string format_cost(double cost, const std::string& currency);

/// Whether a prediction reaches the target: surely when its whole 95 % interval does, conditionally when that rests on assumptions, maybe when only a
/// part of the interval does or the configuration is extrapolated far.
enum class Reach { surely, conditionally, maybe, no };
constexpr std::array<const char*, 4> names_of(Reach /*type*/) { return {"surely", "conditionally", "maybe", "no"}; }

/// One configuration with what it costs and what it reaches. Rates in samples/s, G, P and F those of all servers together.
struct SearchPoint {
  SearchSetup setup;
  double ingestion = 0;  ///< G
  double prep = 0;       ///< P
  double cache = 0;      ///< C, of one server
  double storage = 0;    ///< S, of one server
  double fetch = 0;      ///< F
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;
  double first_epoch_seconds = 0;  ///< everything comes from storage, and fills the cache
  std::string bottleneck;          ///< gpu, cpu, io
  std::string next;                ///< the bottleneck after it
  double next_samples_per_s = 0;
  bool too_close = false;  ///< the lowest rate's interval overlaps that of another
  /// What is paid for an hour, in the list's currency.
  struct Costs {
    double server = 0, cores = 0, memory = 0, accelerators = 0, storage = 0, network = 0;
    [[nodiscard]] double total() const { return server + cores + memory + accelerators + storage + network; }
  } costs_per_hour;
  double cost_per_hour = 0;
  double cost_per_epoch = 0;
  std::optional<Reach> reach;            ///< there with a target
  std::vector<std::string> assumptions;  ///< what must hold beside the measured rates, clauses
  double extrapolation = 1;              ///< by which factor its servers, cores or accelerators go beyond those measured
  struct Simulated {
    double samples_per_s = 0;
    double epoch_seconds = 0;
    double cost_per_epoch = 0;
  };
  std::optional<Simulated> simulated;  ///< by the epoch simulator
  /// On the front: its interval overlaps that of the point before, which is cheaper, so that it is faster is not sure.
  bool close_to_cheaper = false;
};

struct SearchTarget {
  std::string text;  ///< as asked, "10min"
  double samples_per_s = 0;
  double epoch_seconds = 0;
};

/// The cheapest configurations of a price list: the object "search" of "dsanalyze.whatif/1". Cost means cost per epoch unless it says per hour.
struct SearchResult {
  std::string prices;  ///< name of the list
  std::string prices_path;
  std::string prices_date;
  std::optional<int> prices_age_days;  ///< on the day of the search
  std::string currency;
  std::uint64_t setups = 0;     ///< that the closed form answered
  std::uint64_t simulated = 0;  ///< of them, by the epoch simulator
  std::optional<SearchTarget> target;
  std::optional<Reach> reach;  ///< of the best that there is, with a target
  /// Whose whole interval reaches the target; else that is predicted to, extrapolated far only if no other is; else that comes nearest. Of all
  /// without a target.
  std::optional<SearchPoint> cheapest;
  /// That reaches the target as `cheapest` does, but costs least an hour: the smallest that is enough. Absent where it is `cheapest` itself.
  std::optional<SearchPoint> cheapest_hour;
  std::optional<SearchPoint> cheaper_maybe;  ///< cheaper than `cheapest`, and predicted to reach the target less surely
  SearchPoint fastest;                       ///< the cheapest of those
  std::vector<SearchPoint> front;            ///< of cost per epoch and epoch time, cheapest first; at most 20
  std::vector<std::string> conclusions;      ///< sentences
  std::vector<Finding> findings;
};

}  // namespace dsanalyze
