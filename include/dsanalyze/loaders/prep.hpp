#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/status.hpp"
#include "dsanalyze/core/batch.hpp"
#include "dsanalyze/core/device.hpp"
#include "dsanalyze/core/workload.hpp"

namespace dsanalyze {

/// One sample to prepare into its place of a batch slot.
struct PrepTask {
  std::span<const std::byte> encoded;
  SampleId sample = 0;
  std::uint64_t generation = 0;  ///< prep generation: alone, the epoch
  Nanoseconds ready = 0;         ///< when its bytes were there (emulated prep starts no earlier)
  std::span<std::byte> output;   ///< exactly Prep::output_bytes()
};

/// Turns encoded samples into tensors: the augmentation is a pure function of (group seed, generation, sample), so a batch is bit-identical whichever
/// thread, process or server makes it. One object a worker thread; not shared. Steady state: no allocation of ours (the JPEG library's own pools
/// apart).
class Prep {
 public:
  virtual ~Prep() = default;
  /// Errors: corrupt (truncated, not an image of this format, absurd dimensions), unsupported. The output is undefined then.
  virtual Status prepare(const PrepTask& task) = 0;
  /// Time spent in each operator since construction, as operator_names() of the factory. Read by others without stopping this thread.
  [[nodiscard]] virtual std::vector<Nanoseconds> operator_times() const = 0;
};

/// Makes one Prep per worker. Threads: any.
class PrepFactory {
 public:
  virtual ~PrepFactory() = default;
  virtual std::unique_ptr<Prep> make() const = 0;
  /// Shape of `count` prepared samples; a sample takes tensor(1).sample_bytes().
  [[nodiscard]] virtual TensorShape tensor(std::int64_t count) const = 0;
  [[nodiscard]] virtual std::vector<std::string_view> operator_names() const = 0;
};

struct ImagePrepOptions {
  ImagePrep prep;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::uint64_t seed = 0;  ///< group seed of the augmentation
};

/// JPEG decode (only the crop's rows and columns leave the entropy decoder), antialiased resize, flip, normalise. Baseline, progressive, greyscale,
/// CMYK and YCCK JPEG; anything else is corrupt or unsupported. Operators: decode, resize, normalise.
std::unique_ptr<PrepFactory> make_image_prep(const ImagePrepOptions& options);
/// Writes nothing, takes no time; the slots keep the shape that `tensor_like` gives.
std::unique_ptr<PrepFactory> make_null_prep(const TensorShape& tensor_like);
/// Waits `seconds_per_sample` on the first free of the server's virtual cores instead of working; `cores` is shared by all who prep on that server.
std::unique_ptr<PrepFactory> make_emulated_prep(const TensorShape& tensor_like, double seconds_per_sample, std::span<DeviceLane> cores,
                                                Timing timing);

/// Facts of an encoded image, from its header alone.
struct ImageInfo {
  int width = 0;
  int height = 0;
  int components = 0;
  bool progressive = false;
};
Status read_image_info(std::span<const std::byte> encoded, ImageInfo& info);

}  // namespace dsanalyze
