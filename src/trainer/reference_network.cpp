#include "reference_network.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr std::int64_t samples_at_once = 64;  ///< what forward and backward hold at once stays in the CPU's caches, and bounded

template <typename Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
template <typename Real>
using Vector = Eigen::Matrix<Real, Eigen::Dynamic, 1>;
/// `Of` a Real that is const or not.
template <typename Of, template <typename> typename Shape>
using View = Eigen::Map<std::conditional_t<std::is_const_v<Of>, const Shape<std::remove_const_t<Of>>, Shape<Of>>>;

/// The parameters, or their gradient, as the layers have them.
template <typename Of>
struct Layers {
  Layers(Of* begin, const NetworkOptions& options)
      : hidden(begin, options.hidden, options.inputs),
        hidden_bias(hidden.data() + hidden.size(), options.hidden),
        output(hidden_bias.data() + hidden_bias.size(), options.classes, options.hidden),
        output_bias(output.data() + output.size(), options.classes) {}
  View<Of, Matrix> hidden;
  View<Of, Vector> hidden_bias;
  View<Of, Matrix> output;
  View<Of, Vector> output_bias;
};

template <typename Real>
void draw_weights(View<Real, Matrix>& weights, std::uint64_t key) {
  RandomStream random(key);
  const double bound = std::sqrt(6.0 / static_cast<double>(weights.cols()));
  for (Eigen::Index i = 0; i < weights.size(); ++i) weights.data()[i] = static_cast<Real>(random.uniform(-bound, bound));
}

}  // namespace

std::uint64_t NetworkOptions::parameters() const { return std::uint64_t{hidden} * inputs + hidden + std::uint64_t{classes} * hidden + classes; }

template <typename Real>
void GradientSum<Real>::clear(std::size_t parameters) {
  gradient.assign(parameters, Real{0});
  loss = 0;
  samples = 0;
}

template <typename Real>
void GradientSum<Real>::add(const GradientSum& other) {
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += other.gradient[i];
  loss += other.loss;
  samples += other.samples;
}

template <typename Real>
ReferenceNetwork<Real>::ReferenceNetwork(const NetworkOptions& options) : m_options(options) {
  if (options.inputs == 0 || options.hidden == 0 || options.classes == 0) {
    throw Error(fmt::format("the reference network needs inputs, hidden units and classes; found {}, {} and {}", options.inputs, options.hidden,
                            options.classes));
  }
  const auto count = static_cast<std::size_t>(options.parameters());
  m_memory = ZeroedMemory(2 * count * sizeof(Real));
  m_parameters = {reinterpret_cast<Real*>(m_memory.bytes().data()), count};
  m_velocity = {m_parameters.data() + count, count};
  Layers<Real> layers(m_parameters.data(), options);
  draw_weights<Real>(layers.hidden, mix(options.seed, 0x6e6574, 1));
  draw_weights<Real>(layers.output, mix(options.seed, 0x6e6574, 2));
}

template <typename Real>
void ReferenceNetwork<Real>::descend(const GradientSum<Real>& sum) {
  const auto share = static_cast<Real>(1.0 / static_cast<double>(sum.samples));
  const auto momentum = static_cast<Real>(m_options.momentum);
  const auto rate = static_cast<Real>(m_options.learning_rate);
  for (std::size_t i = 0; i < m_parameters.size(); ++i) {
    m_velocity[i] = momentum * m_velocity[i] + share * sum.gradient[i];
    m_parameters[i] -= rate * m_velocity[i];
  }
}

template <typename Real>
struct GradientWorker<Real>::State {
  PooledInputs pooled;
  NetworkOptions sizes;
  Matrix<Real> inputs, hidden, hidden_error, output;  // a column a sample
  std::vector<Real> room;

  /// What is wrong where a loss is no finite number: a sample's values, or the weights.
  [[noreturn]] void explain(std::span<const SampleId> ids, const Batch& batch) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!inputs.col(static_cast<Eigen::Index>(i)).allFinite()) {
        throw Error(
            fmt::format("sample {} has values that are no finite numbers: the reference network cannot learn from it. Fix the "
                        "dataset, or pass --accelerator emulated:RATE",
                        ids[i]));
      }
    }
    throw Error(fmt::format(
        "the reference network's loss is no finite number at step {} (learning rate {}): it diverged, as the samples' values are far from "
        "the -3 to 3 of normalised ones. Normalise the dataset, or pass --accelerator emulated:RATE",
        batch.step, sizes.learning_rate));
  }

  void add_some(const Layers<const Real>& weights, std::span<const std::uint32_t> labels, GradientSum<Real>& sum) {
    const auto count = static_cast<Eigen::Index>(labels.size());
    const auto in = inputs.leftCols(count);
    auto active = hidden.leftCols(count);
    auto error = hidden_error.leftCols(count);
    auto out = output.leftCols(count);
    active.noalias() = weights.hidden * in;
    active = (active.colwise() + weights.hidden_bias).cwiseMax(Real{0});
    out.noalias() = weights.output * active;
    out.colwise() += weights.output_bias;
    for (Eigen::Index i = 0; i < count; ++i) {  // softmax; then `out` is the loss's derivative
      auto column = out.col(i);
      const auto label = static_cast<Eigen::Index>(labels[static_cast<std::size_t>(i)]);
      column.array() -= column.maxCoeff();
      const auto of_label = static_cast<double>(column(label));
      column = column.array().exp();
      const Real all = column.sum();
      sum.loss += std::log(static_cast<double>(all)) - of_label;
      column /= all;
      column(label) -= Real{1};
    }
    Layers<Real> gradient(sum.gradient.data(), sizes);
    gradient.output.noalias() += out * active.transpose();
    error.noalias() = weights.output.transpose() * out;
    error = (active.array() > Real{0}).select(error, Real{0});
    gradient.hidden.noalias() += error * in.transpose();
    // Column by column: the order of a row's sum would depend on where the gradient lies in memory.
    for (Eigen::Index i = 0; i < count; ++i) {
      gradient.output_bias += out.col(i);
      gradient.hidden_bias += error.col(i);
    }
  }
};

template <typename Real>
GradientWorker<Real>::GradientWorker(const PooledInputs& inputs, const NetworkOptions& network)
    : m_state(std::make_unique<State>(State{inputs, network, {}, {}, {}, {}, {}})) {
  m_state->inputs.resize(network.inputs, samples_at_once);
  m_state->hidden.resize(network.hidden, samples_at_once);
  m_state->hidden_error.resize(network.hidden, samples_at_once);
  m_state->output.resize(network.classes, samples_at_once);
}

template <typename Real>
GradientWorker<Real>::~GradientWorker() = default;

template <typename Real>
void GradientWorker<Real>::add(const ReferenceNetwork<Real>& network, const Batch& batch, const std::byte* memory, GradientSum<Real>& sum) {
  State& state = *m_state;
  if (batch.count == 0) return;
  if (!state.pooled.fits(batch.tensor) || batch.tensor.shape[0] < batch.count)
    throw Error("the reference network was made for samples of another shape");
  const std::span labels(reinterpret_cast<const std::uint32_t*>(memory + batch.labels_offset), batch.count);
  const std::span ids(reinterpret_cast<const SampleId*>(memory + batch.ids_offset), batch.count);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < state.sizes.classes) continue;
    throw Error(fmt::format("sample {} has the label {}, and the reference network learns {} classes, 0 to {}", ids[i], labels[i],
                            state.sizes.classes, state.sizes.classes - 1));
  }
  const Layers<const Real> weights(network.parameters().data(), state.sizes);
  const auto stride = static_cast<std::size_t>(batch.tensor.strides[0]) * dtype_bytes(batch.tensor.dtype);
  const std::byte* const samples = memory + batch.samples_offset;
  for (std::size_t begin = 0; begin < batch.count; begin += samples_at_once) {
    const std::size_t count = std::min<std::size_t>(samples_at_once, batch.count - begin);
    for (std::size_t i = 0; i < count; ++i) {
      Real* const into = state.inputs.data() + i * state.sizes.inputs;
      state.pooled.read(samples + (begin + i) * stride, std::span(into, state.sizes.inputs), state.room);
    }
    state.add_some(weights, labels.subspan(begin, count), sum);
    if (!std::isfinite(sum.loss)) state.explain(ids.subspan(begin, count), batch);
  }
  sum.samples += batch.count;
}

template struct GradientSum<float>;
template struct GradientSum<double>;
template class ReferenceNetwork<float>;
template class ReferenceNetwork<double>;
template class GradientWorker<float>;
template class GradientWorker<double>;

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
