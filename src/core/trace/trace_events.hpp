#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "span_recorder.hpp"

namespace dsanalyze {

/// One batch on one accelerator; its accelerator waited for `stall` before `begin`.
struct AcceleratorStep {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  Nanoseconds stall = 0;
  std::uint64_t step = 0;
  std::uint32_t samples = 0;
};

struct EpochEnd {
  Nanoseconds at = 0;
  std::uint64_t epoch = 0;
};

/// A figure over time.
struct TraceCounter {
  struct Point {
    Nanoseconds at = 0;
    double value = 0;
  };
  std::string name;  ///< with its unit: "storage, bytes/s"
  std::vector<Point> points;
};

/// What a run left for a trace.
struct TracedRun {
  const SpanRecorder* spans = nullptr;
  std::vector<std::string> operators;  ///< of prep, in the order that Span::amount counts
  std::vector<AcceleratorStep> steps;  ///< any order; none without accelerators
  std::vector<EpochEnd> epochs;        ///< ascending
  std::vector<TraceCounter> counters;
  Nanoseconds begun = 0;                                   ///< time 0 of the trace, or the first span's begin if that is earlier
  std::string name;                                        ///< of the process: "dsanalyze, full run"
  std::vector<std::pair<std::string, std::string>> facts;  ///< what the file says of itself; may hold anything
};

struct TraceEventsSummary {
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;  ///< spans that found no room
};

/// Spans that a trace of at most `most_events` leaves room for: a tenth, at most 100,000 events, is kept for the names of tracks, epochs, counters
/// and accelerators, so that no number of spans crowds them out.
std::size_t room_for_spans(std::size_t most_events);

/// Writes the run as Chrome's trace events in JSON, which Perfetto and chrome://tracing open: one process; a track each for the epochs, the sampler,
/// each prep worker, each read in flight and each accelerator; counters; an instant at each epoch's end. Complete events ("X"), properly
/// nested on each track, in ascending time from time 0, floored to 1/8 microsecond: exact in binary, so readers that multiply by 1000 see the same
/// nesting. Written piece by piece; whole or not at all. Memory: that of the longest track's spans once more. Throws Error naming path and cause.
TraceEventsSummary write_trace_events(const std::filesystem::path& path, const TracedRun& run, std::size_t most_events);

}  // namespace dsanalyze
