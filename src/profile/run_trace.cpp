#include "run_support.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/records/result.hpp"
#include "core/trace/trace_events.hpp"

namespace dsanalyze {
namespace {

std::vector<AcceleratorStep> accelerator_steps(const RunContext& context, const TrainingLog& log) {
  std::vector<AcceleratorStep> steps;
  if (!trains(context.inputs.settings)) return steps;
  steps.reserve(log.completions.size());
  for (const BatchCompletion& each : log.completions) steps.push_back({each.begin, each.end, each.stall, each.step, each.samples});
  return steps;
}

std::vector<EpochEnd> epoch_ends(const TrainingLog& log) {
  std::vector<EpochEnd> ends;
  for (const BatchCompletion& each : log.completions) {
    if (each.last_of_epoch) ends.push_back({each.end, each.epoch});
  }
  return ends;
}

TracedRun traced_run(const RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log) {
  TracedRun run;
  run.spans = &spans;
  for (const std::string_view name : loader.operator_names()) run.operators.emplace_back(name);
  run.steps = accelerator_steps(context, log);
  run.epochs = epoch_ends(log);
  run.counters = observer.counters();
  run.begun = log.begun;
  run.name = "dsanalyze, full run";
  const ToolRecord tool = this_tool();
  run.facts = {{"tool", fmt::format("{} {}", tool.name, tool.version)},
               {"dataset", context.inputs.settings.dataset},
               {"times", "microseconds since the run began, floored to 1/8; each operator's time in a sample as one span"},
               {"accelerators", run.steps.empty()                                             ? "none"
                                : context.inputs.settings.accelerator == AcceleratorKind::cpu ? "the CPU"
                                                                                              : "emulated"}};
  return run;
}

}  // namespace

std::unique_ptr<SpanRecorder> make_span_recorder(const RunContext& context) {
  if (context.inputs.trace_events_file.empty()) return nullptr;
  return std::make_unique<SpanRecorder>(room_for_spans(context.inputs.most_trace_events));
}

void write_run_trace(RunContext& context, const SpanRecorder& spans, const Loader& loader, const Observer& observer, const TrainingLog& log) {
  const std::filesystem::path& file = context.inputs.trace_events_file;
  context.find(Finding::Severity::info, "traced",
               "run \"full\" was recorded for --trace-events: its rate and stalls hold what recording took; compare rates of runs without it.");
  try {
    const TraceEventsSummary written = write_trace_events(file, traced_run(context, spans, loader, observer, log), context.inputs.most_trace_events);
    context.events.note(fmt::format("trace of {} events written to {}", written.events, printable(file.native())));
    if (written.dropped > 0)
      context.find(Finding::Severity::warning, "trace-cut-short",
                   fmt::format("the trace holds {} events and no more: {} later spans were left out. A smaller --subset or fewer --epochs make a "
                               "shorter run.",
                               written.events, written.dropped));
  } catch (const Error& error) {
    context.find(Finding::Severity::warning, "trace-not-written", fmt::format("the measurement stands, its trace is lost: {}", error.what()));
  }
}

}  // namespace dsanalyze
