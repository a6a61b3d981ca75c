#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace dsanalyze {

/// Position of a sample in the dataset's index.
using SampleId = std::uint32_t;

enum class DType : std::uint8_t { uint8, float32 };
enum class Layout : std::uint8_t { nchw, nhwc };
constexpr std::array<const char*, 2> names_of(DType /*type*/) { return {"uint8", "float32"}; }
constexpr std::array<const char*, 2> names_of(Layout /*type*/) { return {"nchw", "nhwc"}; }
std::size_t dtype_bytes(DType dtype);

/// A dense tensor as DLPack describes one: row-major shape and strides, in elements.
struct TensorShape {
  DType dtype = DType::float32;
  std::uint8_t dimensions = 0;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> strides{};

  /// N samples of C x H x W; strides follow the layout, shape is always logical {N, C, H, W} order for nchw and {N, H, W, C} for nhwc.
  static TensorShape images(DType dtype, Layout layout, std::int64_t count, std::int64_t channels, std::int64_t height, std::int64_t width);
  /// Row-major, of the given dimensions: 1 to 4, the samples' number first.
  static TensorShape of(DType dtype, std::span<const std::int64_t> dimensions);
  [[nodiscard]] std::size_t sample_bytes() const;
};

/// Gives a slot back. Valid for one use of one slot; a stale token is refused by the pool.
struct ReleaseToken {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;  ///< of the slot: counts its uses
};

/// One prepared batch: plain data with offsets from the start of its slot, so it can cross processes. One slot holds one accelerator's batch.
/// Positions 0..count-1 hold good samples (failed ones are left out; see SampleFailure).
struct Batch {
  std::uint64_t sequence = 0;  ///< counts batches of the run from 0
  std::uint64_t step = 0;      ///< counts global mini-batches of the run from 0
  std::uint32_t slice = 0;     ///< which part of the global mini-batch: accelerator `slice` takes it
  std::uint32_t slices = 1;    ///< parts that this step has (fewer at the end of an epoch that leaves some empty)
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;  ///< prep generation: keys the augmentation
  std::uint32_t count = 0;       ///< samples in the batch, all good
  std::uint32_t failed = 0;      ///< samples of the batch's draw that were not available: left out, or substituted by good ones of the batch
  bool last_of_epoch = false;
  TensorShape tensor;  ///< shape[0] = count
  std::uint64_t samples_offset = 0;
  std::uint64_t ids_offset = 0;     ///< count x SampleId
  std::uint64_t labels_offset = 0;  ///< count x std::uint32_t
  Nanoseconds ready_at = 0;         ///< when its last sample was done
  ReleaseToken token;
  std::uint32_t on_gpu = 0;  ///< so many of its first samples lie on the GPU (BatchSource::gpu_memory()), and not in memory()
};

/// A stream of prepared batches, wherever they are made: by this process's loader, or by a group of jobs. Threads: next() one caller; the rest any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch. end after the last epoch; timeout; busy while as many as may be held at once are unreleased; cancelled after stop(), or when
  /// this job was put out of its group; corrupt or io when no more will come: failure() says why.
  virtual Status next(Batch& batch, Deadline deadline) = 0;
  /// The batch's memory may be written again.
  virtual void release(ReleaseToken token) = 0;
  /// What the offsets in a batch count from, until it is released.
  [[nodiscard]] virtual const std::byte* memory(const Batch& batch) const = 0;
  /// Where its samples lie on the GPU, until it is released; 0 where the source prepares nothing there. Samples from `on_gpu` on are still to be
  /// copied there.
  [[nodiscard]] virtual std::uint64_t gpu_memory(const Batch& /*batch*/) const { return 0; }
  /// No more batches are wanted.
  virtual void stop() = 0;
  [[nodiscard]] virtual std::string failure() const = 0;
};

}  // namespace dsanalyze
