#include "reference_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/random.hpp"
#include "loaders/pipeline.hpp"
#include "trainer/reference_network.hpp"

namespace dsanalyze {
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
