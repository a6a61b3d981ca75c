#include <array>

#include "base/random.hpp"
#include "profile/run_support.hpp"
#include "rank_runs.hpp"

namespace dsanalyze {
namespace {

/// Samples that others hold and this rank does not, in random order.
class AskedOfOthers {
 public:
  AskedOfOthers(const DatasetIndex& index, const PartitionRules& rules, const HeldSamples& held, std::uint64_t seed) : m_random(seed) {
    for (SampleId sample = 0; sample < index.size(); ++sample) {
      if (rules.ask(sample, 0) && held.find(sample).empty()) m_samples.push_back(sample);
    }
  }
  [[nodiscard]] bool empty() const { return m_samples.empty(); }
  SampleId draw() { return m_samples[m_random.next() % m_samples.size()]; }

 private:
  std::vector<SampleId> m_samples;
  RandomStream m_random;
};

}  // namespace

std::optional<RateRecord> measure_network(RunContext& context, Pipeline& pipeline, const PartitionRules& rules, const HeldSamples& held,
                                          double seconds) {
  const DatasetIndex& index = *context.subset;
  AskedOfOthers others(index, rules, held, context.inputs.settings.seed + context.inputs.team->rank());
  if (others.empty()) return std::nullopt;
  FetchEngine& engine = pipeline.engine();
  const Nanoseconds begun = context.timing.clock->now();
  const Deadline end = context.timing.clock->after(seconds);
  std::vector<ProgressPoint> progress{{begun, 0}};
  std::uint64_t samples = 0;
  Bytes bytes = 0;
  std::size_t under_way = 0;
  std::array<FetchCompletion, FetchEngine::largest_group> completions;
  bool asking = true;
  while (asking || under_way > 0) {
    asking = context.timing.clock->now() < end.at && !context.stop.stop_requested();
    while (asking && engine.free_places() > 0) {
      const SampleId sample = others.draw();
      const FetchRequest request{sample, sample, index[sample].extent()};
      if (!engine.submit({&request, 1}).ok()) break;
      ++under_way;
    }
    const std::size_t count = engine.reap(completions, context.timing.clock->after(1));
    for (const FetchCompletion& completion : std::span(completions).first(count)) {
      if (completion.status.ok() && completion.source == FetchSource::peer) {
        ++samples;
        bytes += completion.bytes.size();
      }
      if (completion.buffer.id != FetchBuffer::none) engine.release({&completion.buffer, 1});
    }
    under_way -= count;
    if (count == 0 && !asking) break;  // a read that hangs is not waited for
    progress.push_back({context.timing.clock->now(), samples});
  }
  if (samples == 0) return std::nullopt;
  const WindowedRate rate = windowed_rate(progress, {}, begun, progress.back().at, context.inputs.host, JudgeCpu::no);
  return record_rate(context, "network", rate, static_cast<double>(bytes) / static_cast<double>(samples),
                     "samples that other ranks hold, in random order, while all ranks ask one another");
}

}  // namespace dsanalyze
