#include "training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/random.hpp"
#include "core/depths.hpp"
#include "loaders/pipeline.hpp"
#include "loaders/slot_pool.hpp"
#include "profile/jobs/trial_search.hpp"
#include "trainer/reference_network.hpp"

namespace dsanalyze {
namespace {

CpuTrainerOptions options_for(const ProfileInputs& inputs, const BatchSource& batches) {
  CpuTrainerOptions options = cpu_trainer_options(inputs);
  options.memory = [&batches](const Batch& batch) { return batches.memory(batch); };
  return options;
}

}  // namespace

void TrainingLog::append(TrainingLog later) {
  if (begun == 0) begun = later.begun;
  if (first_batch == 0) first_batch = later.first_batch;
  ended = later.ended;
  completions.insert(completions.end(), later.completions.begin(), later.completions.end());
}

std::vector<ProgressPoint> TrainingLog::progress() const {
  std::vector<ProgressPoint> points;
  points.reserve(completions.size());
  std::uint64_t samples = 0;
  for (const BatchCompletion& completion : completions) {
    samples += completion.samples;
    if (!points.empty() && points.back().at >= completion.end) {
      points.back().samples = samples;
    } else {
      points.push_back({completion.end, samples});
    }
  }
  return points;
}

std::map<std::uint64_t, Nanoseconds> TrainingLog::epoch_ends() const {
  std::map<std::uint64_t, Nanoseconds> ends;
  for (const BatchCompletion& completion : completions) {
    if (completion.last_of_epoch) ends[completion.epoch] = completion.end;
  }
  return ends;
}

Nanoseconds TrainingLog::steady_begin() const {
  std::uint64_t first = UINT64_MAX;
  Nanoseconds end = begun;
  for (const BatchCompletion& completion : completions) {
    if (!completion.last_of_epoch || completion.epoch > first) continue;
    first = completion.epoch;
    end = completion.end;
  }
  return !completions.empty() && end < completions.back().end ? end : begun;
}

double TrainingLog::steady_stall_fraction(int accelerators) const {
  if (completions.empty()) return 0;
  const Nanoseconds steady = steady_begin();
  Nanoseconds stalled = 0;
  for (const BatchCompletion& completion : completions) stalled += completion.end > steady ? completion.stall : 0;
  const double time = to_seconds(completions.back().end - steady) * accelerators;
  return time > 0 ? std::clamp(to_seconds(stalled) / time, 0.0, 1.0) : 0;
}

Nanoseconds TrainingLog::longest_steady_stall() const {
  const Nanoseconds steady = steady_begin();
  Nanoseconds longest = 0;
  for (const BatchCompletion& completion : completions) longest = std::max(longest, completion.end > steady ? completion.stall : 0);
  return longest;
}

TrainingLog feed(BatchSource& batches, Trainer& trainer, const std::function<bool(const TrainingLog&)>& enough, const std::stop_token& stop,
                 Timing timing) {
  TrainingLog log;
  log.begun = timing.clock->now();
  std::array<BatchCompletion, 256> done;
  bool more = true;
  while (!enough(log)) {
    if (stop.stop_requested()) throw Interrupted();
    if (more && trainer.wants_batch()) {
      Batch batch;
      const Status status = batches.next(batch, timing.clock->after(look_up_seconds));
      if (status.code == StatusCode::corrupt || status.code == StatusCode::io) throw Error(batches.failure());
      if (status.code == StatusCode::end || status.code == StatusCode::cancelled) more = false;
      if (status.ok()) {
        if (log.first_batch == 0) log.first_batch = std::max(batch.ready_at, log.begun);
        if (!trainer.submit(batch).ok()) throw Error("the accelerator refused a batch that it asked for");
      }
      if (status.ok() && trainer.wants_batch()) continue;  // a lockstep step needs more
    }
    const Deadline deadline = timing.clock->after(look_up_seconds);
    const std::size_t count = trainer.reap(done, deadline);
    for (std::size_t i = 0; i < count; ++i) {
      log.completions.push_back(done[i]);
      batches.release(done[i].token);
    }
    if (!more && count == 0 && timing.clock->now() < deadline.at) break;  // nothing runs any more; a step may last longer than a look
  }
  log.ended = timing.clock->now();
  return log;
}

TrainingLog train(BatchSource& batches, Trainer& trainer, const std::function<bool(const TrainingLog&)>& enough, const std::stop_token& stop,
                  Timing timing) {
  TrainingLog log = feed(batches, trainer, enough, stop, timing);
  batches.stop();
  return log;
}

std::unique_ptr<Trainer> make_trainer(const ProfileInputs& inputs, ServerDevices& devices, std::uint32_t first, const BatchSource& batches,
                                      Timing timing, std::optional<int> trial) {
  const ProfileSettings& settings = inputs.settings;
  if (settings.accelerator == AcceleratorKind::cpu) {
    CpuTrainerOptions options = options_for(inputs, batches);
    if (trial) {
      const TrialSetup setup = trial_setup(settings.seed, *trial);
      options.learning_rate = setup.learning_rate;
      options.momentum = setup.momentum;
    }
    return make_cpu_trainer(options, timing);
  }
  if (settings.accelerator == AcceleratorKind::cuda) {
    GpuTrainerOptions options = gpu_trainer_options(inputs);
    options.memory = [&batches](const Batch& batch) { return batches.memory(batch); };
    if (settings.gpu_share > 0) options.gpu_memory = [&batches](const Batch& batch) { return batches.gpu_memory(batch); };
    return make_gpu_trainer(options, inputs.gpus, timing);
  }
  if (!emulates_accelerator(settings)) return make_null_trainer();
  const auto accelerators = static_cast<std::uint32_t>(settings.accelerators);
  return make_emulated_trainer({accelerators, settings.accelerator_rate, settings.step}, std::span(devices.accelerators).subspan(first, accelerators),
                               timing);
}

TeamTrainer::TeamTrainer(const ProfileInputs& inputs, ServerDevices& devices, const BatchSource& batches, double patience_seconds, Timing timing)
    : m_ranks(inputs.team->ranks()) {
  if (inputs.settings.accelerator != AcceleratorKind::cpu) {
    m_trainer = make_trainer(inputs, devices, 0, batches, timing);
    return;
  }
  CpuTrainerOptions options = options_for(inputs, batches);
  options.ranks = &m_ranks.training();
  options.sum_seconds = patience_seconds;
  m_trainer = make_cpu_trainer(options, timing);
}

TeamTrainer::~TeamTrainer() { m_ranks.stop_training(); }

namespace {

std::uint64_t count_labels(const DatasetIndex& index) {
  std::uint64_t labels = index.labels().size();
  for (const IndexRecord& record : index.records()) {
    if (record.has_label()) labels = std::max<std::uint64_t>(labels, std::uint64_t{record.label} + 1);
  }
  return labels;
}

template <typename Value, typename Draw>
void fill(std::span<std::byte> bytes, Draw draw) {
  for (std::size_t at = 0; at + sizeof(Value) <= bytes.size(); at += sizeof(Value)) {
    const Value value = draw();
    std::memcpy(bytes.data() + at, &value, sizeof(Value));
  }
}

}  // namespace

void require_labels(const DatasetIndex& index) {
  const std::uint64_t labels = count_labels(index);
  if (labels < 2) {
    throw UsageError(
        "--accelerator cpu: the reference network learns labels, and all samples of this dataset have the same. A folder for each class gives "
        "labels, a .cls member of each sample in shards, X.labels.npy beside X.npy; or pass --accelerator emulated:RATE, which needs none");
  }
  if (labels > most_classes) {
    throw UsageError(fmt::format(
        "--accelerator cpu: the dataset's labels go up to {}, and the reference network has room for {}; pass --accelerator emulated:RATE",
        labels - 1, most_classes));
  }
}

CpuTrainerOptions cpu_trainer_options(const ProfileInputs& inputs) {
  CpuTrainerOptions options;
  options.accelerators = static_cast<std::uint32_t>(inputs.settings.accelerators);
  options.precision = inputs.settings.accelerator_precision.value_or(Precision::float32);
  options.tensor = prepared_tensor(inputs, 1);
  options.classes = static_cast<std::uint32_t>(count_labels(*inputs.index));
  options.seed = inputs.settings.seed;
  return options;
}

BatchLayout batch_layout(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  const TensorShape tensor = prepared_tensor(inputs, settings.batch_size);
  if (settings.mesh.empty()) return BatchLayout::identity(static_cast<std::uint32_t>(settings.accelerators), tensor);
  const Mesh mesh = parse_mesh(settings.mesh);
  return BatchLayout::of_mesh(mesh, parse_input_sharding(settings.input_sharding, mesh), tensor);
}

GpuTrainerOptions gpu_trainer_options(const ProfileInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  GpuTrainerOptions options;
  options.layout = batch_layout(inputs);
  options.samples_per_second = settings.accelerator_rate;
  options.step = settings.step;
  options.tensor = prepared_tensor(inputs, settings.batch_size);
  options.slot_bytes = SlotLayout(slot_tensor(inputs, settings.batch_size)).bytes;
  return options;
}

std::string reference_network_text(const ProfileInputs& inputs) {
  const CpuTrainerOptions options = cpu_trainer_options(inputs);
  return fmt::format("reference network of {} parameters, {}, {} thread{}", format_number(static_cast<double>(network_options(options).parameters())),
                     precision_name(options.precision), options.accelerators, options.accelerators == 1 ? "" : "s");
}

std::string nothing_learned_text(const std::string& run, const TrainingRecord& training) {
  std::span<const TrainingRecord::EpochLoss> epochs = training.by_epoch;
  if (epochs.size() > 1 && epochs.back().samples < epochs[epochs.size() - 2].samples) epochs = epochs.first(epochs.size() - 1);  // of few batches
  const double guess = std::log(training.classes);
  if (epochs.size() < 2 || epochs.back().loss < guess) return "";
  return fmt::format(
      "run \"{}\": the reference network's loss was {:.4g} in its last whole epoch, no lower than the {:.4g} of a guess among {} classes: it has "
      "learned "
      "nothing yet. Its losses still tell whether two runs had the same batches, not whether both learn equally well. A longer --time-budget gives "
      "more "
      "epochs; labels must say something of the samples (those of \"dataset make\" do not), and NumPy samples should lie between -3 and 3.",
      run, epochs.back().loss, guess, training.classes);
}

MadeUpBatch::MadeUpBatch(const ProfileInputs& inputs) {
  const auto count = static_cast<std::uint32_t>(inputs.settings.batch_size);
  const auto labels = static_cast<std::uint32_t>(count_labels(*inputs.index));
  m_batch.count = count;
  m_batch.tensor = prepared_tensor(inputs, count);
  const std::size_t samples = (m_batch.tensor.sample_bytes() * count + 63) / 64 * 64;
  m_batch.ids_offset = samples;
  m_batch.labels_offset = samples + count * sizeof(SampleId);
  m_memory.resize(m_batch.labels_offset + count * sizeof(std::uint32_t));
  RandomStream random(mix(inputs.settings.seed, 0x6d616465));
  const std::span<std::byte> bytes(m_memory);
  if (m_batch.tensor.dtype == DType::uint8) {
    fill<std::uint64_t>(bytes.first(samples), [&] { return random.next(); });
  } else {
    fill<float>(bytes.first(samples), [&] { return static_cast<float>(random.uniform(-1, 1)); });
  }
  SampleId id = 0;
  fill<SampleId>(bytes.subspan(m_batch.ids_offset, count * sizeof(SampleId)), [&] { return id++; });
  fill<std::uint32_t>(bytes.subspan(m_batch.labels_offset), [&] { return static_cast<std::uint32_t>(random.below(labels)); });
}

}  // namespace dsanalyze
