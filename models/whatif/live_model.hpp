#pragma once

#include <optional>
#include <string>
#include <vector>

#include "whatif.hpp"

namespace dsanalyze {

/// A quantity that a page lets its reader move: the values that it may take, rising. Named as in WhatIfChange.
struct LiveSlider {
  std::string name;                ///< cache_fraction, cores, accelerator_speed, accelerators, storage_factor
  std::vector<double> values;      ///< empty: it cannot be asked about
  std::optional<double> measured;  ///< of the configuration as measured; may lie between two values
  std::string why_absent;          ///< a sentence, where there are no values
};

/// What a page needs to evaluate answer()'s closed forms by itself, for one job on one server: the rates with their errors, what the cache misses,
/// how P goes with cores, and the sliders. `reports/html/whatif.js` holds the same equations; a test compares it with `dsanalyze whatif`.
struct LiveModel {
  RateModel model;
  std::string command;                 ///< "dsanalyze whatif profile.json", to which a page adds the sliders' options; not shown with enough_workers,
                                       ///< as the command answers for the workers that there are
  std::vector<LiveSlider> sliders;     ///< always all five, in the order above
  std::vector<double> storage_shares;  ///< of a cache whose misses are replayed: at each value of the cache's slider; else empty
  double measured_storage_share = 1;   ///< at the cache as measured
};

/// Pure. `command` is shown as it is given: quote what comes from outside (base/text.hpp). Where a cache's misses are replayed, this replays them for
/// a hundred sizes, which takes a part of a second. Cache: 0 to 100 % in percents. Cores and accelerators: whole ones, from 1 to 4 times as many as
/// measured (at least 4). Accelerator speed: 0.25x to 4x, storage: 0.1x to 10x, in steps of about 6 %.
LiveModel live_model(RateModel model, std::string command);

/// An object: command, rates and relative errors, cache (form and parameters of the miss model), prep_scaling, sliders, dataset. Numbers of full
/// precision. Plain JSON: who writes it into HTML escapes it.
std::string to_json(const LiveModel& live);

}  // namespace dsanalyze
