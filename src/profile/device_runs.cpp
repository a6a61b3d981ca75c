#include <fmt/format.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/random.hpp"
#include "run_support.hpp"
#include "training.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t synthetic_iterations = 100;  // [DS-Analyzer, App. C.1]
constexpr std::size_t least_iterations = 10;
constexpr std::size_t rough_iterations = 5;
constexpr double reap_seconds = 0.25;

/// The settings' accelerators, and a batch for them that is always there.
class Alone {
 public:
  explicit Alone(const RunContext& context) {
    const ProfileSettings& settings = context.inputs.settings;
    const auto accelerators = static_cast<std::uint32_t>(settings.accelerators);
    m_batch.count = static_cast<std::uint32_t>(settings.batch_size);
    if (settings.accelerator == AcceleratorKind::cpu) {
      m_made_up.emplace(context.inputs);
      m_batch = m_made_up->batch();
      CpuTrainerOptions options = cpu_trainer_options(context.inputs);
      options.memory = [memory = m_made_up->memory()](const Batch&) { return memory; };
      m_trainer = make_cpu_trainer(options, context.timing);
    } else if (settings.accelerator == AcceleratorKind::cuda) {
      m_trainer = make_gpu_trainer(gpu_trainer_options(context.inputs), context.inputs.gpus, context.timing);
    } else {
      m_lanes = std::vector<DeviceLane>(accelerators);
      m_trainer = make_emulated_trainer({accelerators, settings.accelerator_rate, settings.step}, m_lanes, context.timing);
    }
    m_batch.ready_at = context.timing.clock->now();
    m_batch.slices = settings.step == StepMode::lockstep ? accelerators : 1;
  }
  [[nodiscard]] const Batch& batch() const { return m_batch; }
  Trainer& trainer() { return *m_trainer; }

 private:
  std::optional<MadeUpBatch> m_made_up;
  std::vector<DeviceLane> m_lanes;
  Batch m_batch;
  std::unique_ptr<Trainer> m_trainer;
};

/// Ends of the iterations of a trainer whose batches are always there.
std::vector<ProgressPoint> iterate(const std::string& run, double seconds, const std::function<bool(const std::vector<ProgressPoint>&)>& enough,
                                   RunContext& context) {
  const Timing timing = context.timing;
  Alone alone(context);
  Trainer& trainer = alone.trainer();
  const Nanoseconds begun = timing.clock->now();
  std::vector<ProgressPoint> points;
  std::array<BatchCompletion, 256> done;
  std::uint64_t samples = 0;
  while (!enough(points) && to_seconds(timing.clock->now() - begun) < seconds) {
    if (context.stop.stop_requested()) throw Interrupted();
    while (trainer.wants_batch()) {
      if (!trainer.submit(alone.batch()).ok()) break;
    }
    const std::size_t count = trainer.reap(done, timing.clock->after(reap_seconds));
    for (std::size_t i = 0; i < count; ++i) samples += done[i].samples;
    // The clock, not the device's own account, says when an iteration ended.
    if (count > 0) points.push_back({timing.clock->now(), samples});
    const double elapsed = to_seconds(timing.clock->now() - begun);
    show_progress(context, run, begun, seconds, elapsed > 0 ? static_cast<double>(samples) / elapsed : -1);
  }
  return points;
}

/// As if each of the accelerators did what the one did that was measured.
Measured synthetic_as_measured(RunContext& context, const MeasuredAccelerator& accelerator) {
  WindowedRate rate = accelerator.rate;
  const double accelerators = context.inputs.settings.accelerators;
  rate.estimate.value *= accelerators;
  rate.estimate.ci95.low *= accelerators;
  rate.estimate.ci95.high *= accelerators;
  Measured measured;
  measured.record.name = "synthetic";
  measured.record.seconds = accelerator.seconds;
  measured.record.samples = accelerator.samples;
  measured.rate = record_rate(context, "synthetic", rate, mean_sample_bytes(context), accelerator.method + ", on a batch that was there already");
  take_rate(context, measured);
  note_rate(context, "the accelerators can consume [G]", measured.rate);
  return measured;
}

}  // namespace

Measured run_synthetic(RunContext& context, double seconds) {
  if (context.inputs.measured_accelerator) return synthetic_as_measured(context, *context.inputs.measured_accelerator);
  const Nanoseconds begun = context.timing.clock->now();
  const auto points = iterate(
      "synthetic", seconds,
      [](const std::vector<ProgressPoint>& so_far) {
        if (so_far.size() > synthetic_iterations) return true;
        return so_far.size() > least_iterations && iteration_rate(so_far).estimate.relative_half_width() <= narrow_enough;
      },
      context);

  Measured measured;
  measured.record.name = "synthetic";
  measured.record.seconds = to_seconds(context.timing.clock->now() - begun);
  measured.record.samples = points.empty() ? 0 : points.back().samples;
  measured.rate = record_rate(context, "synthetic", iteration_rate(points), mean_sample_bytes(context),
                              fmt::format("{}: {} iterations on batches that were there already",
                                          context.inputs.settings.accelerator == AcceleratorKind::cpu    ? "the CPU, with nothing else to do"
                                          : context.inputs.settings.accelerator == AcceleratorKind::cuda ? "a GPU that is occupied as long as asked"
                                                                                                         : "emulated",
                                          points.empty() ? 0 : points.size() - 1));
  take_rate(context, measured);
  note_rate(context, "the accelerators can consume [G]", measured.rate);
  return measured;
}

double rough_training_rate(RunContext& context, double seconds) {
  const auto points = iterate(
      "pilot", seconds, [](const std::vector<ProgressPoint>& so_far) { return so_far.size() > rough_iterations; }, context);
  return points.size() > 1 ? iteration_rate(points).estimate.value : INFINITY;
}

RateRecord measure_cache(RunContext& context, Pipeline& pipeline, double seconds) {
  const auto workers =
      static_cast<std::size_t>(context.inputs.settings.prep == Seam::real ? context.inputs.settings.workers : context.inputs.host.worker_count());
  const DatasetIndex& index = pipeline.index();
  std::vector<CacheAccess> accesses(index.size());
  std::vector<CacheLookup> places(index.size());
  std::vector<SampleId> order(index.size());
  random_permutation(mix(context.inputs.settings.seed, 0xca), order);
  for (std::size_t i = 0; i < order.size(); ++i) accesses[i] = {order[i], index[order[i]].length, 0, 0};
  pipeline.cache().lookup(accesses, places);
  for (const CacheLookup& place : places) {
    if (place.decision == CacheDecision::admit) pipeline.cache().abandon(place.key);  // it could not be read when the cache was filled
  }
  std::erase_if(places, [](const CacheLookup& place) { return place.decision != CacheDecision::hit; });
  if (places.empty()) return {};

  std::vector<std::atomic<std::uint64_t>> copied(workers);
  std::atomic<std::uint32_t> stop{0};
  std::vector<std::jthread> threads;
  std::uint32_t largest = 0;
  for (const CacheLookup& place : places) largest = std::max(largest, place.length);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      std::vector<std::byte> into(largest);
      for (std::size_t i = worker % places.size(); stop.load(std::memory_order_relaxed) == 0; i = (i + workers) % places.size()) {
        const auto bytes = pipeline.cache().read(places[i], into);
        if (bytes.data() != into.data()) std::ranges::copy(bytes, into.begin());
        copied[worker].fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  std::vector<ProgressPoint> points;
  std::vector<CpuPoint> cpu;
  const auto look = [&] {
    std::uint64_t total = 0;
    for (const auto& count : copied) total += count.load(std::memory_order_relaxed);
    points.push_back({context.timing.clock->now(), total});
    cpu.push_back({points.back().at, sample_cpu(context.inputs.host)});
  };
  const Nanoseconds end = context.timing.clock->after(seconds).at;
  for (look(); context.timing.clock->now() < end && !context.stop.stop_requested(); look())
    context.timing.waiter->sleep_until(context.timing.clock->after(0.02).at);
  stop.store(1);
  threads.clear();
  pipeline.cache().release(places);
  RateRecord record =
      record_rate(context, "cache", windowed_rate(points, cpu, points.front().at, points.back().at, context.inputs.host, judge_cpu(context)),
                  mean_sample_bytes(context), fmt::format("copies of the cache's own objects in random order, {} threads", workers));
  note_rate(context, "the cache can supply [C]", record);
  return record;
}

}  // namespace dsanalyze
