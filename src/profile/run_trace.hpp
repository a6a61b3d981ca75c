#pragma once

#include <memory>

#include "observer.hpp"
#include "runs.hpp"
#include "training.hpp"

namespace dsanalyze {

/// Room for the spans of the full run; nullptr when nobody wants them (ProfileInputs::trace_events_file). Throws Error when there is no memory.
std::unique_ptr<SpanRecorder> make_span_recorder(const RunContext& context);
/// Writes the trace of a run whose loader has stopped and says so in findings: that the run was traced, spans that found no room, and a file that
/// could not be written, for which nobody shall lose the measurement.
void write_run_trace(RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log);

}  // namespace dsanalyze
