#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "core/records/price_list.hpp"
#include "core/records/search_result.hpp"
#include "models/whatif/whatif.hpp"

namespace dsanalyze {

/// What is looked for, and among which configurations. Lists that are empty are made from the price list's bounds, and from the values at which one
/// stage just keeps up with another or with the target.
struct SearchQuestion {
  PriceList prices;
  std::string prices_path;
  /// A rate, or an epoch's time; the text is kept as asked.
  struct Target {
    std::string text;
    std::optional<double> samples_per_s;
    std::optional<double> epoch_seconds;
  };
  std::optional<Target> target;
  std::optional<std::string> measured_accelerator;  ///< the list's kind that G was measured on; without it, found by relative speed 1, with a finding
  std::vector<double> cores;                        ///< as the profile counts them
  std::vector<double> cache_fractions;
  std::vector<int> servers;                    ///< of one data-parallel job; empty: one
  std::vector<int> accelerators;               ///< in a server
  std::optional<std::chrono::sys_days> today;  ///< what the prices' age is counted to; without it, it is not known
  std::size_t most_setups = 10'000;
  std::size_t most_simulated = 20;
};

/// What the search needs from outside; both may be empty. `simulate` gives the samples/s of a configuration by a better model than the closed form,
/// nullopt where it cannot (or has no more time). `progress` may throw to stop the search.
struct SearchHooks {
  std::function<std::optional<double>(const SearchPoint&)> simulate;
  std::function<void(const Progress&)> progress;
};

/// Predicts every configuration of the space by the closed form (whatif's), prices it, and answers: the Pareto front of cost per epoch and epoch
/// time, the cheapest configuration that reaches the target, the fastest, and for each the bottleneck and the next one. P goes with cores as whatif's
/// does, G with the accelerators' number and relative speed, S is that of the listed storage for samples of the dataset's mean size; C is as
/// measured. Several servers (models/servers.hpp) have storage of their own each and the list's network, and whichever of separate, partitioned and
/// locality-aware caches brings most; what their accelerators exchange is not in the model. The front and the answer are refined by `simulate`:
/// points that it shows to be dominated leave the front, an answer that it shows to miss the target gives way to the next cheapest. Configurations
/// whose global batch is larger than the dataset are none. Each point carries what its prediction assumes; what goes more than most_extrapolation
/// times beyond the measured cores or accelerators reaches a target maybe at most. Pure but for the hooks. Findings: storage-from-list,
/// accelerator-kind-assumed, prep-extrapolated, workers-as-needed, cores-are-threads, target-out-of-reach, target-not-sure, simulator-disagrees,
/// servers-in-closed-form, prices-old. Throws UsageError where the model lacks G, cores, accelerators, or the dataset's bytes and samples (says what
/// to give), for a kind that the list does not have, and when lists make more than most_setups configurations.
SearchResult search_setups(const RateModel& model, const SearchQuestion& question, const SearchHooks& hooks = {});

/// SearchHooks::simulate by the epoch simulator: the listed storage as an emulated device, a warm MinIO cache, as many workers as cores, lockstep
/// accelerators; sizes and prep as `distributed` in the profile, constant without one; of a large dataset 100,000 samples or 100 steps. nullopt for
/// other caches and for several servers.
std::function<std::optional<double>(const SearchPoint&)> epoch_simulation(const RateModel& model, const PriceList& prices,
                                                                          const ProfileResult::Distributions& distributed = {});

/// The points of which none is both cheaper per epoch and faster, cheapest first; of equals, the first. Differences below 1e-9 count as none.
std::vector<SearchPoint> pareto_front(std::vector<SearchPoint> points);
/// At most `most` points of a front: its ends, and those between that are furthest apart in time.
std::vector<SearchPoint> thinned_front(std::vector<SearchPoint> front, std::size_t most);

}  // namespace dsanalyze
