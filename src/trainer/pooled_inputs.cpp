#include <algorithm>

#include "base/error.hpp"
#include "reference_network.hpp"

namespace dsanalyze {
namespace {

constexpr std::int64_t longest_kept_whole = 4;
constexpr std::array<std::int64_t, 3> most_cells = {256, 8, 6};  ///< by the number of dimensions that are cut

std::vector<std::int64_t> cell_begins(std::int64_t length, std::int64_t cells) {
  std::vector<std::int64_t> begins;
  for (std::int64_t cell = 0; cell <= cells; ++cell) begins.push_back(cell * length / cells);
  return begins;
}

double scaled(std::uint8_t, double mean) { return mean / 127.5 - 1; }
double scaled(float, double mean) { return mean; }

template <typename Element, typename Real>
void add_row(const Element* from, Real* into, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += static_cast<Real>(from[i]);
}

}  // namespace

PooledInputs::PooledInputs(const TensorShape& tensor) : m_tensor(tensor) {
  const auto lengths = std::span(tensor.shape).first(tensor.dimensions).subspan(std::min<std::size_t>(tensor.dimensions, 1));
  const auto cut = std::ranges::count_if(lengths, [](std::int64_t length) { return length > longest_kept_whole; });
  const std::size_t missing = m_dimensions.size() - lengths.size();
  m_size = 1;
  for (std::size_t i = 0; i < m_dimensions.size(); ++i) {
    const std::int64_t length = i < missing ? 1 : lengths[i - missing];
    const std::int64_t cells = length > longest_kept_whole ? std::min(length, most_cells[static_cast<std::size_t>(cut) - 1]) : length;
    if (cells <= 0) throw Error("the reference network has nothing to learn from: the samples have no values");
    m_dimensions[i] = {i < missing ? 0 : tensor.strides[i - missing + 1], cell_begins(length, cells)};
    m_size *= static_cast<std::uint32_t>(cells);
  }
}

bool PooledInputs::fits(const TensorShape& tensor) const {
  // Not the first dimension, which counts samples.
  return tensor.dtype == m_tensor.dtype && tensor.dimensions == m_tensor.dimensions &&
         std::equal(tensor.shape.begin() + 1, tensor.shape.end(), m_tensor.shape.begin() + 1) &&
         std::equal(tensor.strides.begin() + 1, tensor.strides.end(), m_tensor.strides.begin() + 1);
}

/// Rows of the last dimension are added up first, which lie side by side: the bulk of the work, which the compiler vectorises.
template <typename Element, typename Real>
void PooledInputs::read_elements(const Element* sample, std::span<Real> into, std::vector<Real>& room) const {
  const auto& [first, second, last] = m_dimensions;
  const std::int64_t row = last.begins.back();
  const std::int64_t plane = second.begins.back() * row;
  // Where whole planes lie side by side (channels last), they are added up before their rows: rows of three values would take their time.
  const bool by_planes = second.stride == row && last.stride == 1 && first.cells() < static_cast<std::size_t>(first.begins.back());
  room.resize(static_cast<std::size_t>(by_planes ? plane + row : row));
  Real* const sums = room.data();
  Real* const plane_sums = sums + row;
  std::size_t at = 0;
  for (std::size_t a = 0; a < first.cells(); ++a) {
    if (by_planes) {
      std::fill_n(plane_sums, plane, Real{0});
      for (std::int64_t i = first.begins[a]; i < first.begins[a + 1]; ++i) add_row(sample + i * first.stride, plane_sums, plane);
    }
    for (std::size_t b = 0; b < second.cells(); ++b) {
      std::fill_n(sums, row, Real{0});
      for (std::int64_t j = second.begins[b]; j < second.begins[b + 1]; ++j) {
        if (by_planes) {
          add_row(plane_sums + j * row, sums, row);
          continue;
        }
        for (std::int64_t i = first.begins[a]; i < first.begins[a + 1]; ++i) {
          const Element* const begin = sample + i * first.stride + j * second.stride;
          if (last.stride == 1) {
            add_row(begin, sums, row);
          } else {
            for (std::int64_t k = 0; k < row; ++k) sums[k] += static_cast<Real>(begin[k * last.stride]);
          }
        }
      }
      const std::int64_t rows = (first.begins[a + 1] - first.begins[a]) * (second.begins[b + 1] - second.begins[b]);
      for (std::size_t c = 0; c < last.cells(); ++c) {
        double sum = 0;
        for (std::int64_t k = last.begins[c]; k < last.begins[c + 1]; ++k) sum += sums[k];
        const auto count = static_cast<double>(rows * (last.begins[c + 1] - last.begins[c]));
        into[at++] = static_cast<Real>(scaled(Element{}, sum / count));
      }
    }
  }
}

template <typename Real>
void PooledInputs::read(const std::byte* sample, std::span<Real> into, std::vector<Real>& room) const {
  if (m_tensor.dtype == DType::uint8) {
    read_elements(reinterpret_cast<const std::uint8_t*>(sample), into, room);
  } else {
    read_elements(reinterpret_cast<const float*>(sample), into, room);
  }
}

template void PooledInputs::read<float>(const std::byte*, std::span<float>, std::vector<float>&) const;
template void PooledInputs::read<double>(const std::byte*, std::span<double>, std::vector<double>&) const;

}  // namespace dsanalyze
