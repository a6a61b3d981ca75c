#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/options/typed_options.hpp"
#include "cli/process/data_files.hpp"
#include "core/trace/access_trace.hpp"
#include "core/trace/draw_trace.hpp"
#include "simulated_draws.hpp"
#include "simulated_scenario.hpp"

namespace dsanalyze::cli {
namespace {

/// Shows how far a replay is, and ends it when asked to.
ReplayOptions watched_replay(const CommandContext& context, std::uint64_t decisions) {
  ReplayOptions options;
  options.progress = [&context, decisions](std::uint64_t decided) {
    if (context.stop.stop_requested()) throw Interrupted();
    context.events.progress({"simulate", static_cast<double>(decided) / static_cast<double>(std::max<std::uint64_t>(decisions, 1)), -1});
  };
  return options;
}

/// Which bytes each sample of a trace has, as records; samples that it does not ask for have none.
std::vector<IndexRecord> records_of(AccessTraceReader& trace) {
  std::vector<IndexRecord> records(trace.header().samples);
  trace.rewind();
  AccessBlock block;
  while (trace.next(block)) {
    for (const CacheAccess& access : block.accesses) records[access.key].length = access.bytes;
  }
  return records;
}

/// An epoch that was not complete when the recording ended says nothing of a whole one.
void drop_unfinished_epoch(SimulateResult& result) {
  const std::vector<EpochCounts>& epochs = result.recorded->epochs;
  if (epochs.size() < 2) return;
  const EpochCounts last = epochs.back();
  const std::uint64_t whole = epochs[epochs.size() - 2].counts.accesses;
  if (last.counts.accesses >= whole) return;
  const auto drop_from = [&last](CaseCounts& counts) {
    for (auto& job : counts.jobs) std::erase_if(job, [&last](const EpochCounts& epoch) { return epoch.epoch == last.epoch; });
    counts.add_up();
  };
  drop_from(*result.recorded);
  for (CaseCounts& counts : result.cases) drop_from(counts);
  result.findings.push_back({"trace-ends-in-epoch", Finding::Severity::info,
                             fmt::format("The trace ends within epoch {}, after {} of {} accesses: that epoch is left out of the counts.", last.epoch,
                                         last.counts.accesses, whole)});
}

/// The same of recorded draws.
class WatchedDraws final : public DrawRecorder {
 public:
  WatchedDraws(DrawRecorder& into, std::uint64_t records, const CommandContext& context) : m_into(into), m_records(records), m_context(context) {}
  void began(std::uint32_t job, std::span<const SampleRange> samples) override {
    m_into.began(job, samples);
    look(1 + samples.size());
  }
  void ended(std::uint32_t job) override {
    m_into.ended(job);
    look(1);
  }
  void drew(std::span<const Drawn> round) override {
    m_into.drew(round);
    look(round.size());
  }

 private:
  void look(std::uint64_t records) {
    m_done += records;
    if (m_context.stop.stop_requested()) throw Interrupted();
    constexpr std::uint64_t records_between = 1 << 16;
    if (m_done - m_told < records_between) return;
    m_told = m_done;
    m_context.events.progress({"simulate", static_cast<double>(m_done) / static_cast<double>(m_records), -1});
  }

  DrawRecorder& m_into;
  std::uint64_t m_records;
  const CommandContext& m_context;
  std::uint64_t m_done = 0;
  std::uint64_t m_told = 0;
};

class SimulateCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const std::string& scenario = context.typed.text("SCENARIO");
    const std::string& trace = context.typed.text("--trace");
    if (!scenario.empty() && !trace.empty())
      throw UsageError(fmt::format("both a scenario ({}) and --trace {} are given: give one", scenario, trace));
    if (scenario.empty() && trace.empty()) {
      throw UsageError(
          "what to simulate is missing: name a scenario (`dsanalyze list scenarios`), give one as a file, or --trace FILE, which `dsanalyze profile "
          "--trace FILE` writes");
    }
    const SimulateResult result = trace.empty()          ? simulate_scenario(scenario, context)
                                  : is_draw_trace(trace) ? simulate_draws(trace, context)
                                                         : simulate_trace(trace, context);
    Outcome outcome;
    if (context.options.json || context.options.output) outcome.json = to_json(result);
    if (!context.options.json) outcome.text = console_summary(result, context.style);
    return outcome;
  }

 private:
  static SimulateResult simulate_scenario(const std::string& name, const CommandContext& context) {
    const ConfigFile file = config_file(ConfigKind::scenario, name);
    Scenario asked = parse_scenario(file.text, file.source);
    context.typed.put(asked);
    if (std::ranges::find(asked.policies, ReplayPolicy::minio_cost_aware) != asked.policies.end() && asked.storage.empty())
      throw UsageError(fmt::format("--policy minio:cost-aware: {} names no /storage, whose cost of a read decides what is admitted", file.source));
    const SimulatedScenario scenario(asked, context.options.seed);
    const std::vector<CacheCase> cases = scenario.cases();
    SimulateResult result = scenario.result(file.source);
    result.cases = replay(*scenario.source(), cases, watched_replay(context, scenario.accesses() * cases.size()));
    result.times = scenario.times(cases, [&](std::size_t done) {
      if (context.stop.stop_requested()) throw Interrupted();
      context.events.progress({"epoch times", static_cast<double>(done) / static_cast<double>(cases.size()), -1});
    });
    return result;
  }

  static SimulateResult simulate_draws(const std::string& file, const CommandContext& context) {
    DrawTraceReader trace{std::filesystem::path(file)};
    const SimulatedStores stores(trace.header(), context.typed);
    require_draw_memory(file, trace.header().samples, stores.cases());
    DrawReplay replay(trace.header().samples, stores.cases());
    WatchedDraws watched(replay, trace.records(), context);
    trace.replay(watched);
    return stores.result(file, trace.header(), replay);
  }

  static SimulateResult simulate_trace(const std::string& file, const CommandContext& context) {
    AccessTraceReader trace{std::filesystem::path(file)};
    const std::vector<CacheCase> cases = trace_cases(file, trace, context.typed);
    const AccessTraceHeader& header = trace.header();
    SimulateResult result;
    result.tool = this_tool();
    result.source = file;
    result.samples = header.samples;
    result.dataset_bytes = header.dataset_bytes;
    result.digest = header.digest;
    result.jobs = header.jobs;
    result.accesses = trace.accesses();
    result.recorded = recorded_counts(trace);
    result.cases = replay(trace, cases, watched_replay(context, trace.accesses() * cases.size()));
    drop_unfinished_epoch(result);
    return result;
  }

  static std::vector<CacheCase> trace_cases(const std::string& file, AccessTraceReader& trace, const TypedOptions& typed) {
    using enum ReplayPolicy;
    const AccessTraceHeader& header = trace.header();
    Scenario asked;
    asked.policies = {minio, lru, page_model_random, page_model_linux, belady};
    if (header.cache.capacity > 0) asked.cache_sizes.push_back({ByteAmount::Kind::bytes, header.cache.capacity, 0});
    typed.put(asked);
    if (asked.cache_sizes.empty())
      throw UsageError(fmt::format("--cache-size is missing: {} was recorded without a cache, whose size it could be", file));
    const bool cost_aware = std::ranges::find(asked.policies, minio_cost_aware) != asked.policies.end();
    require_replay_memory(file, header.samples, trace.accesses(), cost_aware ? sizeof(IndexRecord) : 0, asked.policies);
    std::vector<IndexRecord> records;
    if (cost_aware) records = records_of(trace);
    return cases_of(asked.policies, asked.cache_sizes, header.dataset_bytes, records, header.storage_cost);
  }
};

}  // namespace

std::unique_ptr<Command> make_simulate_command() { return std::make_unique<SimulateCommand>(); }

}  // namespace dsanalyze::cli
