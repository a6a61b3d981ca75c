#pragma once

#include <string>

#include "dsanalyze/core/doctor_result.hpp"
#include "dsanalyze/core/result.hpp"
#include "dsanalyze/core/simulate_result.hpp"
#include "dsanalyze/core/whatif_result.hpp"

namespace dsanalyze {

enum class Colour { off, on };

/// How a view is laid out for a terminal.
struct ConsoleStyle {
  Colour colour = Colour::off;
  int width = 80;  ///< columns; lines are kept within it where there are at least 40, and within 120
};

/// The summary that a person understands at a glance: the verdict, how much of the epoch is lost to prep and to fetch, what to do first, how sure and
/// why; then rates with intervals in plain words with their letters, runs, findings.
std::string console_summary(const ProfileResult& result, const ConsoleStyle& style);
/// A table: what changes, samples/s with interval, epoch time, what binds, speed-up; then what --find found, advice, findings.
std::string console_summary(const WhatIfResult& result, const ConsoleStyle& style);
/// A table: policy and cache, then, of an epoch after the first, hits, misses, bytes read and read amplification; findings.
std::string console_summary(const SimulateResult& result, const ConsoleStyle& style);

enum class DoctorDetail {
  usual,  ///< problems and warnings in full, notes and what is not known in short, the rest by title
  all
};
/// How many of each, then the checks, the gravest first, with what was found, why it matters and the commands that mend it (lines that are not
/// broken, however wide); machine and dataset last.
std::string console_summary(const DoctorResult& result, const ConsoleStyle& style, DoctorDetail detail);

}  // namespace dsanalyze
