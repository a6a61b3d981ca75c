#pragma once

#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "core/batch.hpp"

namespace dsanalyze::test {

/// Labelled samples in memory as batches have them. Images that can be learned: each class is bright in a quarter of its own, under noise.
class ToyBatches {
 public:
  static constexpr std::uint32_t classes = 4;

  ToyBatches(DType dtype, Layout layout, std::uint32_t samples, std::uint64_t seed = 5) : m_dtype(dtype), m_layout(layout) {
    RandomStream random(seed);
    for (SampleId id = 0; id < samples; ++id) {
      const auto label = static_cast<std::uint32_t>(random.below(classes));
      std::vector<double> pixels;
      for (std::int64_t i = 0; i < channels * side * side; ++i) {
        const std::int64_t x = i % side, y = i / side % side;
        const auto quarter = static_cast<std::uint32_t>(2 * (y >= side / 2) + (x >= side / 2));
        pixels.push_back((quarter == label ? 0.7 : 0.4) + random.uniform(-0.3, 0.3));
      }
      m_labels.push_back(label);
      m_samples.push_back(pixels);
    }
  }

  [[nodiscard]] TensorShape tensor(std::int64_t count) const { return TensorShape::images(m_dtype, m_layout, count, channels, side, side); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(m_labels.size()); }
  std::vector<std::uint32_t>& labels() { return m_labels; }
  std::vector<double>& sample(SampleId id) { return m_samples[id]; }

  /// The samples as one batch, whose offsets count from memory(); it lasts as long as this.
  Batch batch(const std::vector<SampleId>& ids) {
    Batch batch;
    batch.count = static_cast<std::uint32_t>(ids.size());
    batch.tensor = tensor(batch.count);
    batch.samples_offset = aligned(batch.count * batch.tensor.sample_bytes());
    const std::uint64_t samples = batch.samples_offset;
    batch.ids_offset = aligned(ids.size() * sizeof(SampleId));
    batch.labels_offset = aligned(ids.size() * sizeof(std::uint32_t));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      write(m_memory.data() + samples + i * batch.tensor.sample_bytes(), m_samples[ids[i]]);
      std::memcpy(m_memory.data() + batch.ids_offset + i * sizeof(SampleId), &ids[i], sizeof(SampleId));
      std::memcpy(m_memory.data() + batch.labels_offset + i * sizeof(std::uint32_t), &m_labels[ids[i]], sizeof(std::uint32_t));
    }
    return batch;
  }
  /// Samples from `first` on.
  Batch batch(SampleId first, std::uint32_t count) {
    std::vector<SampleId> ids;
    for (std::uint32_t i = 0; i < count; ++i) ids.push_back(first + i);
    return batch(ids);
  }
  [[nodiscard]] const std::byte* memory() const { return m_memory.data(); }
  [[nodiscard]] std::size_t bytes() const { return m_memory.size(); }

 private:
  static constexpr std::int64_t channels = 3, side = 12;

  std::uint64_t aligned(std::size_t bytes) {
    const std::size_t begin = (m_memory.size() + 63) / 64 * 64;
    m_memory.resize(begin + bytes);
    return begin;
  }
  void write(std::byte* to, const std::vector<double>& pixels) const {
    for (std::int64_t i = 0; i < channels * side * side; ++i) {
      // Pixels are kept as C, H, W.
      const std::int64_t channel = i / (side * side), place = i % (side * side);
      const std::int64_t at = m_layout == Layout::nchw ? i : place * channels + channel;
      const double value = pixels[static_cast<std::size_t>(i)];
      if (m_dtype == DType::uint8) {
        to[at] = static_cast<std::byte>(static_cast<std::uint8_t>(value * 255));
      } else {
        const auto number = static_cast<float>(value * 2 - 1);
        std::memcpy(to + at * sizeof(float), &number, sizeof(float));
      }
    }
  }

  DType m_dtype;
  Layout m_layout;
  std::vector<std::uint32_t> m_labels;
  std::vector<std::vector<double>> m_samples;
  std::vector<std::byte> m_memory;
};

}  // namespace dsanalyze::test
