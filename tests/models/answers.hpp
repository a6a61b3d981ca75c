#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/whatif/whatif.hpp"

// What tests ask of answers.

namespace dsanalyze::testing {

/// Whether one of the findings, or of the pieces of advice, has the code.
template <typename Item>
bool has_code(const std::vector<Item>& items, const std::string& code) {
  return std::ranges::any_of(items, [&](const Item& item) { return item.code == code; });
}

/// A measured rate of samples of 100 kB.
inline RateRecord rate_of(double samples_per_s, double half_interval) {
  RateRecord record;
  record.samples_per_s = samples_per_s;
  record.bytes_per_s = samples_per_s * 100'000;
  record.ci95_samples_per_s = {samples_per_s - half_interval, samples_per_s + half_interval};
  return record;
}

/// What the configuration as it is, and with several jobs, is advised.
inline std::vector<AdviceRecord> advice_for(const RateModel& model, std::vector<std::uint32_t> jobs = {}) {
  WhatIfQuestion question;
  question.jobs = std::move(jobs);
  return answer(model, question).advice;
}

}  // namespace dsanalyze::testing
