#include <algorithm>

#include "base/error.hpp"
#include "loaders/prep/gpu_prep.hpp"
#include "occupied_gpu.hpp"
#include "pilot.hpp"
#include "run_support.hpp"
#include "runs.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t least_samples = 2048;
constexpr int batches_of_subset = 8;
constexpr double longest_start = 4;  ///< seconds, of nothing at all
constexpr std::size_t batches_to_start = 2;

struct ServerRate {
  double samples_per_s = 0;
  double core_seconds = 0;  ///< of a sample
};

/// Of a loader whose samples are all in memory, from its first batches on.
ServerRate measure_server(RunContext& context, Loader& loader, double seconds) {
  const Clock& clock = *context.timing.clock;
  const auto trainer = make_null_trainer();
  const Nanoseconds started = clock.now();
  Nanoseconds begun = 0;
  std::uint64_t before = 0;
  double cpu_before = 0;
  ServerRate rate;
  train(
      loader, *trainer,
      [&](const TrainingLog& log) {
        const Nanoseconds now = clock.now();
        // Decoders and workers start meanwhile.
        if (begun == 0 && !log.completions.empty() && log.completions.size() >= batches_to_start) {
          begun = now;
          before = loader.totals().prep.samples;
          cpu_before = sample_cpu(context.inputs.host).own_seconds;
        }
        if (begun == 0) return to_seconds(now - started) >= longest_start;
        const double took = to_seconds(now - begun);
        const auto samples = static_cast<double>(loader.totals().prep.samples - before);
        // However busy the machine is, a server that works gives something.
        if (took < seconds || (samples == 0 && took < longest_start)) return false;
        rate = {samples / took, samples > 0 ? (sample_cpu(context.inputs.host).own_seconds - cpu_before) / samples : 0};
        return true;
      },
      context.stop, context.timing);
  return rate;
}

}  // namespace

std::optional<PrepServersRecord> measure_prep_servers(RunContext& context, double seconds) {
  const ProfileInputs& inputs = context.inputs;
  const bool asked = inputs.settings.prep_place != PrepPlace::cpu;
  if (!inputs.gpu || inputs.settings.prep != Seam::real || inputs.index->facts().array) return std::nullopt;
  RunContext part = context.with_events(null_events());
  const auto samples = std::max<std::uint32_t>(least_samples, static_cast<std::uint32_t>(batches_of_subset * inputs.settings.batch_size));
  part.subset = draw_subset(inputs, std::min(inputs.index->size(), samples));
  PrepServersRecord record;
  record.cores = inputs.settings.cores;
  try {
    Pipeline pipeline(inputs, run_spec(part, CacheKind::minio, part.subset->bytes()), context.timing);
    if (!fill_cache(part, pipeline, seconds / 3)) return std::nullopt;
    auto loader = pipeline.make_loader({.first_epoch = 1, .gpu_share = 0});
    record.cpu_samples_per_s = measure_server(context, *loader, seconds / 3).samples_per_s;
    loader.reset();
    OccupiedGpu training(inputs.gpu, context.timing);
    loader = pipeline.make_loader({.first_epoch = 1, .gpu_share = 1});
    const ServerRate rate = measure_server(context, *loader, seconds / 3);
    training.finish();
    record.gpu_samples_per_s = rate.samples_per_s;
    record.gpu_core_seconds_per_sample = rate.core_seconds;
    const GpuPrepTotals totals = loader->gpu_prep()->totals();
    const auto on_it = static_cast<double>(std::max<std::uint64_t>(totals.samples, 1));
    record.crop_seconds_per_sample = totals.crop_seconds / on_it;
    record.left_to_cpu_fraction =
        static_cast<double>(totals.left_to_cpu) / static_cast<double>(std::max<std::uint64_t>(totals.samples + totals.left_to_cpu, 1));
    record.decoder = loader->gpu_prep()->decoder();
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    if (asked) throw;
    return std::nullopt;  // prep is the CPU's, and no what-if answer speaks of a GPU
  }
  if (!(record.cpu_samples_per_s > 0) || !(record.gpu_samples_per_s > 0)) return std::nullopt;
  return record;
}

}  // namespace dsanalyze
