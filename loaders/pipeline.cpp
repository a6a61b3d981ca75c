#include "pipeline.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "loaders/prep/prep.hpp"

namespace dsanalyze {
namespace {

/// Shards read one after another gain from reading ahead; random extents, and files that are read whole, do not.
bool reads_consecutively(const ProfileSettings& settings, const DatasetIndex& index) {
  return settings.order != OrderKind::random && index.file_count() < index.size();
}

FetchOptions fetch_options(const ProfileSettings& settings, const Pipeline::Spec& spec) {
  FetchOptions options;
  options.concurrency = settings.fetch_concurrency;
  options.capacity = fetch_places(settings);
  options.largest_made_up = largest_sample(*spec.index);
  options.read_mode = spec.way.mode;
  options.read_ahead = reads_consecutively(settings, *spec.index) ? ReadAhead::sequential : ReadAhead::off;
  options.page_cache = spec.page_cache;
  options.max_bytes_per_second = settings.max_storage_bytes_per_s;
  return options;
}

bool is_emulated(const DatasetIndex& index) { return index.facts().format == "emulated"; }

std::unique_ptr<FetchEngine> make_engine(const ProfileSettings& settings, const Pipeline::Spec& spec, ServerDevices& devices, Timing timing) {
  const std::shared_ptr<const DatasetIndex>& index = spec.index;
  const FetchOptions options = fetch_options(settings, spec);
  if (settings.storage == Seam::null) return make_null_engine(options, timing);
  if (settings.storage == Seam::real) {
    return spec.way.engine == IoEngine::uring ? make_uring_engine(index, options, timing) : make_thread_engine(index, options, timing);
  }
  FetchOptions inner_options = options;
  inner_options.page_cache = PageCacheUse::keep;  // the emulated disk decides how fast bytes come, not the real one
  auto inner = is_emulated(*index) ? nullptr : make_thread_engine(index, inner_options, timing);
  return make_emulated_engine(std::move(inner), options, storage_device(settings), devices.storage, timing);
}

/// Slots of samples that no thread writes need no room.
TensorShape unwritten_tensor() { return TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1); }

std::unique_ptr<PrepFactory> make_real_prep(const LoadInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  const std::optional<ArrayDescription>& array = inputs.index->facts().array;
  if (inputs.form == SampleForm::encoded) return make_encoded_prep();
  if (inputs.form == SampleForm::decoded) return make_decoding_prep();
  return array ? make_array_prep(*array)
               : make_image_prep({inputs.image_prep, settings.dtype, settings.layout, settings.seed, inputs.crop, inputs.resize});
}

std::unique_ptr<PrepFactory> make_prep(const LoadInputs& inputs, ServerDevices& devices, Timing timing) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.prep == Seam::null) return make_null_prep(unwritten_tensor());
  if (settings.prep == Seam::emulated) {
    const auto cores = static_cast<std::size_t>(settings.cores);
    return make_emulated_prep(unwritten_tensor(), 1 / settings.prep_rate_per_core, std::span(devices.cores).first(cores), timing);
  }
  auto prep = make_real_prep(inputs);
  const double slowed_by = slow_prep_share();
  return slowed_by > 0 ? make_slowed_prep(std::move(prep), slowed_by) : std::move(prep);
}

/// Hits that may be unreleased at once: of every slot's batch and, with a shuffle buffer, of those that wait in it.
int samples_in_flight(const ProfileSettings& settings) {
  return (prefetch_batches(settings) + settings.accelerators + 1) * settings.batch_size +
         (order_spec(settings).buffers() ? settings.shuffle_buffer : 0);
}

CacheOptions cache_options(const Pipeline::Spec& spec, int samples_in_flight) {
  return {spec.cache,
          spec.cache_bytes,
          spec.index->size(),
          spec.index->bytes(),
          largest_sample(*spec.index),
          static_cast<std::uint32_t>(samples_in_flight),
          spec.least_priority};
}

}  // namespace

TensorShape prepared_tensor(const LoadInputs& inputs, std::int64_t count) { return make_real_prep(inputs)->tensor(count); }

TensorShape slot_tensor(const LoadInputs& inputs, std::int64_t count) {
  return inputs.settings.prep == Seam::real ? prepared_tensor(inputs, count) : make_null_prep(unwritten_tensor())->tensor(count);
}

bool only_waits(const ProfileSettings& settings) { return settings.storage != Seam::real && settings.prep != Seam::real; }

Pipeline::Pipeline(const LoadInputs& inputs, const Spec& spec, Timing timing)
    : m_inputs(inputs),
      m_spec(spec),
      m_timing(timing),
      m_prefetch(spec.prefetch_batches.value_or(dsanalyze::prefetch_batches(inputs.settings))),
      m_meter(spec.index->facts().root),
      m_server(spec.server ? spec.server : make_server(inputs, spec, 1, timing)),
      m_prep(make_prep(inputs, m_server->devices(), timing)),
      m_no_prep(make_null_prep(unwritten_tensor())),
      m_partitioned_cache(spec.peers != nullptr ? make_partitioned_cache(m_server->cache(), *spec.rules) : nullptr),
      m_engine(make_engine(inputs.settings, spec, m_server->devices(), timing)) {
  if (spec.peers == nullptr) return;
  auto engine = make_partitioned_engine(spec.index, std::move(m_engine), *spec.peers, *spec.rules, timing);
  m_partitioned = engine.get();
  m_engine = std::move(engine);
}

std::shared_ptr<ServerHolder> Pipeline::make_server(const LoadInputs& inputs, const Spec& spec, int users, Timing timing) {
  return std::make_shared<ServerHolder>(cache_options(spec, users * samples_in_flight(inputs.settings)), timing);
}

std::function<std::optional<Bytes>()> Pipeline::storage_bytes() const {
  if (m_inputs.settings.storage == Seam::real) return [this] { return m_meter.process_bytes(); };
  return [this] { return std::optional<Bytes>(m_engine->requested()); };
}

std::unique_ptr<Loader> Pipeline::make_loader(const Use& use) {
  const ProfileSettings& settings = m_inputs.settings;
  LoaderOptions options;
  options.batch_size = static_cast<std::uint32_t>(settings.batch_size);
  options.slices = settings.step == StepMode::lockstep ? static_cast<std::uint32_t>(settings.accelerators) : 1;
  options.workers = static_cast<std::uint32_t>(use.cores.value_or(m_spec.workers));
  options.prefetch_batches = static_cast<std::uint32_t>(m_prefetch);
  options.held_batches = static_cast<std::uint32_t>(settings.accelerators);
  options.start = use.start.value_or(SamplerState{settings.seed, use.first_epoch, 0, m_spec.index->size(), order_spec(settings)});
  options.storage_cost = m_spec.storage_cost;
  options.epochs = use.epochs;
  options.on_error = settings.on_error;
  options.error_budget = settings.error_budget;
  options.slot_pages = m_spec.slot_pages;
  options.worker_cpus = m_spec.worker_cpus;
  const auto& allowed = m_inputs.host.cpus_allowed;
  if (use.cores && *use.cores <= static_cast<int>(allowed.size())) options.worker_cpus.assign(allowed.begin(), allowed.begin() + *use.cores);
  const PrepFactory* prep = use.prep == PrepUse::none ? m_no_prep.get() : m_prep.get();
  std::shared_ptr<GpuPrep> gpu;
  if (const double share = use.gpu_share.value_or(settings.gpu_share); m_inputs.gpu && use.prep == PrepUse::as_set && share > 0) {
    const ImagePrepOptions image{m_inputs.image_prep, settings.dtype, settings.layout, settings.seed, m_inputs.crop, m_inputs.resize};
    gpu = std::make_shared<GpuPrep>(m_inputs.gpu, GpuPrep::Options{image, share, options.prefetch_batches + options.held_batches, options.batch_size},
                                    m_timing);
  }
  return std::make_unique<Loader>(Loader::Parts{m_spec.index, m_engine.get(), &cache(), prep, storage_bytes(), m_timing, use.recorder, use.spans,
                                                use.staging, use.staging_slots, use.claimed, m_spec.share, std::move(gpu)},
                                  options);
}

}  // namespace dsanalyze
