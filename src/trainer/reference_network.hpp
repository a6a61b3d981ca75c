#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "core/batch.hpp"

namespace dsanalyze {

/// What of a sample a small network learns from: means over the cells of a grid. Each dimension is cut into cells of nearly equal length: one of at
/// most 4 (channels) into its elements, others into at most 256 cells if there is one of them, 8 each of two, 6 each of three; so images of either
/// layout become 8 x 8 x channels. Bytes are taken as x / 127.5 - 1, floats as they are, in a batch of any shape and strides. A pure function of the
/// sample.
class PooledInputs {
 public:
  /// Of samples shaped as this tensor's; their number does not matter. Throws Error for samples without a value.
  explicit PooledInputs(const TensorShape& tensor);
  [[nodiscard]] std::uint32_t size() const { return m_size; }
  /// Writes size() values of the sample that begins there. Real is float or double; `room` is the caller's to keep for the next sample.
  template <typename Real>
  void read(const std::byte* sample, std::span<Real> into, std::vector<Real>& room) const;
  /// Whether the batch's samples are shaped like those that this was made for.
  [[nodiscard]] bool fits(const TensorShape& tensor) const;

 private:
  struct Dimension {
    std::int64_t stride = 0;
    std::vector<std::int64_t> begins;  ///< of the cells, and the last one's end
    [[nodiscard]] std::size_t cells() const { return begins.size() - 1; }
  };
  template <typename Element, typename Real>
  void read_elements(const Element* sample, std::span<Real> into, std::vector<Real>& room) const;

  TensorShape m_tensor;
  std::array<Dimension, 3> m_dimensions;  ///< of a sample, the first ones of length 1 where it has fewer
  std::uint32_t m_size = 0;
};

struct NetworkOptions {
  std::uint32_t inputs = 0;
  std::uint32_t hidden = 64;
  std::uint32_t classes = 0;
  double learning_rate = 0.01;  ///< steady from batches of 8 on; of 0.02 those of 8 no longer learn (docs/reference-trainer.md)
  double momentum = 0.9;
  std::uint64_t seed = 1;  ///< of the first weights
  [[nodiscard]] std::uint64_t parameters() const;
};

/// Gradient and loss as sums over samples. Sums of parts of a batch add up to the whole batch's, however it is cut: what data-parallel training
/// relies on [Yang-Cong, Theorem 1]. Real is float or double.
template <typename Real>
struct GradientSum {
  std::vector<Real> gradient;  ///< in the order of ReferenceNetwork::parameters()
  double loss = 0;
  std::uint64_t samples = 0;

  void clear(std::size_t parameters);
  void add(const GradientSum& other);
};

/// A small network that learns from real batches: one hidden layer of rectified linear units, softmax and cross-entropy over the labels; stochastic
/// gradient descent with momentum, v = m v + g, w = w - r v, g being the mean over the samples. Deterministic: the same seed and the same sums give
/// the same weights to the last bit on one machine. Real is float or double. Threads: one, or many that only read.
template <typename Real>
class ReferenceNetwork {
 public:
  /// Weights uniform within sqrt(6 / inputs of the layer) [He et al. 2015], biases 0. Throws Error for a layer without units, or without memory.
  explicit ReferenceNetwork(const NetworkOptions& options);
  [[nodiscard]] const NetworkOptions& options() const { return m_options; }
  /// Weights of the hidden layer (column-major, hidden x inputs), its biases, weights of the output layer (classes x hidden), its biases.
  [[nodiscard]] std::span<Real> parameters() { return m_parameters; }
  [[nodiscard]] std::span<const Real> parameters() const { return m_parameters; }
  /// One step of descent along the mean gradient. Requires samples > 0.
  void descend(const GradientSum<Real>& sum);

 private:
  NetworkOptions m_options;
  ZeroedMemory m_memory;  // aligned, so that the order of vectorised additions does not depend on where it lies
  std::span<Real> m_parameters, m_velocity;
};

/// Forward and backward for one thread, with the memory that it takes. No allocation in the steady state.
template <typename Real>
class GradientWorker {
 public:
  /// Works on networks of these sizes.
  GradientWorker(const PooledInputs& inputs, const NetworkOptions& network);
  ~GradientWorker();
  GradientWorker(const GradientWorker&) = delete;
  GradientWorker& operator=(const GradientWorker&) = delete;
  /// Adds the batch's gradient and loss to `sum`; `memory` is what the batch's offsets count from. Throws Error for a batch of another shape, for a
  /// label that is none of the network's classes and for values or a loss that are no finite numbers: names the sample. `sum` is of no use then.
  void add(const ReferenceNetwork<Real>& network, const Batch& batch, const std::byte* memory, GradientSum<Real>& sum);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
