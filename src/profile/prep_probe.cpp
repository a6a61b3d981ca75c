#include "prep_probe.hpp"

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "base/host/host.hpp"
#include "pilot.hpp"
#include "runs.hpp"

namespace dsanalyze {
namespace {

constexpr double period_seconds = 0.1;

}  // namespace

PrepProbe::PrepProbe(std::vector<std::vector<std::byte>> samples, const PrepFactory& factory, std::vector<int> cpus, Timing timing)
    : m_samples(std::move(samples)),
      m_prep(factory.make()),
      m_output(static_cast<std::size_t>(factory.tensor(1).sample_bytes())),
      m_cpus(std::move(cpus)),
      m_timing(timing),
      m_thread([this](const std::stop_token& stop) { run(stop); }) {}

double PrepProbe::end() {
  m_thread.request_stop();
  if (m_thread.joinable()) m_thread.join();
  return m_turns > 0 ? m_seconds / static_cast<double>(m_turns * m_samples.size()) : 0;
}

void PrepProbe::run(const std::stop_token& stop) {
  if (!m_cpus.empty()) set_thread_affinity(m_cpus);
  double of_this_turn = 0;
  for (std::size_t at = 0; !stop.stop_requested(); at = (at + 1) % m_samples.size()) {
    const Nanoseconds next = m_timing.clock->after(period_seconds).at;
    const Nanoseconds begun = thread_cpu_time();
    // A sample that cannot be prepared takes its time as well, and the same each time.
    const Status ignored = m_prep->prepare({m_samples[at], static_cast<SampleId>(at), 0, m_timing.clock->now(), m_output});
    static_cast<void>(ignored);
    of_this_turn += to_seconds(thread_cpu_time() - begun);
    if (at + 1 == m_samples.size()) {
      m_seconds += of_this_turn;
      ++m_turns;
      of_this_turn = 0;
    }
    m_timing.waiter->sleep_until(next);
  }
}

namespace {

constexpr std::uint32_t probed_samples = 16;
constexpr double without_limit = 1e6;  ///< seconds: the caller says how long

ProfileInputs prep_alone(ProfileInputs inputs) {
  inputs.settings.runs = {"prep"};
  inputs.settings.time_budget_seconds = without_limit;
  return inputs;
}

FetchWay way_of(const ProfileSettings& settings) { return {settings.io == IoEngine::automatic ? IoEngine::pread : settings.io, settings.read_mode}; }

/// Some of the samples that the pipeline's cache holds.
std::vector<std::vector<std::byte>> held_samples(Pipeline& pipeline) {
  const DatasetIndex& index = pipeline.index();
  const std::uint32_t count = std::min(probed_samples, index.size());
  std::vector<std::vector<std::byte>> samples;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto id = static_cast<SampleId>(static_cast<std::uint64_t>(i) * index.size() / count);
    const CacheAccess access{id, index[id].length, 0, 0};
    CacheLookup place;
    pipeline.cache().lookup({&access, 1}, {&place, 1});
    if (place.decision == CacheDecision::admit) pipeline.cache().abandon(place.key);  // it could not be read when the cache was filled
    if (place.decision != CacheDecision::hit) continue;
    std::vector<std::byte> sample(place.length);
    const auto bytes = pipeline.cache().read(place, sample);
    if (bytes.data() != sample.data()) std::ranges::copy(bytes, sample.begin());
    pipeline.cache().release({&place, 1});
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

struct PrepGauge::State {
  State(const ProfileInputs& given, std::stop_token stop, Timing timing)
      : inputs(prep_alone(given)),
        plan(plan_profile(inputs)),
        context{inputs,
                plan,
                draw_subset(inputs, plan.most_subset_samples),
                0,
                null_events(),
                std::move(stop),
                timing,
                timing.clock->now(),
                {},
                true,
                way_of(inputs.settings),
                {}},
        warm(inputs, run_spec(context, CacheKind::minio, context.subset->bytes()), timing) {
    fill_cache(context, warm, without_limit);
    samples = held_samples(warm);
  }

  ProfileInputs inputs;
  ProfilePlan plan;
  RunContext context;
  Pipeline warm;
  std::vector<std::vector<std::byte>> samples;  ///< the probe's
  std::optional<PrepProbe> probe;
};

PrepGauge::PrepGauge(const ProfileInputs& inputs, std::stop_token stop, Timing timing)
    : m_state(std::make_unique<State>(inputs, std::move(stop), timing)) {}
PrepGauge::~PrepGauge() = default;

PrepGauge::Speed PrepGauge::speed(int cores, double seconds) {
  begin_probe(cores);
  const auto point = measure_on_cores(m_state->context, m_state->warm, cores, seconds);
  return {point ? point->samples_per_s : 0, end_probe()};
}

void PrepGauge::begin_probe(int cores) {
  if (m_state->samples.empty()) return;
  const auto& allowed = m_state->inputs.host.cpus_allowed;
  const auto count = std::min(static_cast<std::size_t>(std::max(cores, 1)), allowed.size());
  m_state->probe.emplace(m_state->samples, m_state->warm.prep(),
                         std::vector<int>(allowed.begin(), allowed.begin() + static_cast<std::ptrdiff_t>(count)), m_state->context.timing);
}

double PrepGauge::end_probe() {
  if (!m_state->probe) return 0;
  const double seconds = m_state->probe->end();
  m_state->probe.reset();
  return seconds;
}

}  // namespace dsanalyze
