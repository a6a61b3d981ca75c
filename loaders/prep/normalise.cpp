#include "normalise.hpp"

#include <cstring>

namespace dsanalyze {
namespace {

enum class Order { planes, pixels };

template <typename Value>
Value convert(std::uint8_t value, const SampleTarget& target, std::size_t channel);
template <>
std::uint8_t convert(std::uint8_t value, const SampleTarget&, std::size_t) {
  return value;
}
template <>
float convert(std::uint8_t value, const SampleTarget& target, std::size_t channel) {
  const float product = static_cast<float>(value) * target.scale[channel];
  return product + target.offset[channel];
}

template <typename Value, Order order>
void write_plain(const SampleRows& rows, const SampleTarget& target) {
  constexpr std::size_t channels = 3;
  const auto width = static_cast<std::size_t>(target.width);
  const std::size_t plane = width * static_cast<std::size_t>(target.height);
  auto* sample = static_cast<std::byte*>(target.sample);
  for (int row = 0; row < rows.rows; ++row) {
    const std::uint8_t* pixels = rows.pixels + rows.stride * static_cast<std::size_t>(row);
    const std::size_t row_start = width * static_cast<std::size_t>(rows.first_row + row);
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const Value value = convert<Value>(pixels[x * bytes_per_pixel + channel], target, channel);
        const std::size_t place = order == Order::planes ? channel * plane + row_start + x : (row_start + x) * channels + channel;
        std::memcpy(sample + place * sizeof(Value), &value, sizeof(Value));
      }
    }
  }
}

}  // namespace

const NormaliseKernels plain_normalise_kernels{write_plain<float, Order::planes>, write_plain<float, Order::pixels>,
                                               write_plain<std::uint8_t, Order::planes>, write_plain<std::uint8_t, Order::pixels>};

const NormaliseKernels& best_normalise_kernels() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return avx2_normalise_kernels;
#endif
  return plain_normalise_kernels;
}

Normaliser::Normaliser(const ImagePrep& prep, DType dtype, Layout layout, const NormaliseKernels& kernels) {
  const bool planes = layout == Layout::nchw;
  if (dtype == DType::float32) {
    m_write = planes ? kernels.float_planes : kernels.float_pixels;
  } else {
    m_write = planes ? kernels.byte_planes : kernels.byte_pixels;
  }
  m_target.width = prep.crop_size;
  m_target.height = prep.crop_size;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    m_target.scale[channel] = static_cast<float>(1 / (255 * prep.deviation[channel]));
    m_target.offset[channel] = static_cast<float>(-prep.mean[channel] / prep.deviation[channel]);
  }
}

void Normaliser::write(const SampleRows& rows, std::span<std::byte> sample) const {
  SampleTarget target = m_target;
  target.sample = sample.data();
  m_write(rows, target);
}

}  // namespace dsanalyze
