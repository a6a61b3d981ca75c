#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/text/units.hpp"
#include "core/gpu_crop.hpp"

namespace dsanalyze {

// GPUs as the program uses them: the module dsanalyze-cuda.so has the implementation, so that the program itself needs no driver and no toolkit.
// All functions throw Error, which says what the driver answered and what to do, unless they say otherwise. Work is given to streams and done later,
// in each stream's order; nothing here waits.

/// What the driver says of one GPU.
struct GpuInfo {
  std::string name;
  std::string pci;  ///< place on the bus: "0000:3b:00.0"
  Bytes memory_bytes = 0;
  int compute_major = 0;  ///< compute capability
  int compute_minor = 0;
  int multiprocessors = 0;
  int copy_engines = 0;
};

/// Of the GPU's memory, what steps of a synthetic training read and write.
Bytes bytes_to_touch(const GpuInfo& gpu);

/// Memory of a GPU, until it is destroyed. The GPU's work with it must have ended then.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  [[nodiscard]] virtual std::uint64_t address() const = 0;
  [[nodiscard]] virtual Bytes size() const = 0;
};

/// Memory of this process that the kernel keeps in place, so that a GPU reads it without a copy by a core; until it is destroyed.
class GpuPinned {
 public:
  virtual ~GpuPinned() = default;
};

class GpuStream;

/// A place in a stream's work (an event). It can be set again; a wait for it, or a question about it, is about the last time.
class GpuMark {
 public:
  virtual ~GpuMark() = default;
  /// After all that the stream, which belongs to the same GPU, was given until now.
  virtual void set(GpuStream& stream) = 0;
  /// Whether the work up to there is done.
  [[nodiscard]] virtual bool reached() const = 0;
  /// Of the GPU's clock, between two marks of one GPU that were reached; to half a microsecond.
  [[nodiscard]] virtual double seconds_since(const GpuMark& earlier) const = 0;
};

/// Rows of equal length: `count` of `bytes` each, which begin `stride` bytes apart in memory of this process and lie without gaps on the GPU.
struct GpuRows {
  Bytes bytes = 0;
  Bytes stride = 0;
  std::size_t count = 0;
};

/// Work of one GPU in order. Memory that work was given must stay until a mark after it is reached. Threads: one at a time.
class GpuStream {
 public:
  virtual ~GpuStream() = default;
  virtual void copy_in(std::uint64_t to, const std::byte* from, Bytes bytes) = 0;
  virtual void copy_in(std::uint64_t to, const std::byte* from, const GpuRows& rows) = 0;
  virtual void copy_out(std::byte* to, std::uint64_t from, Bytes bytes) = 0;
  /// From one GPU's memory to another's, or within one.
  virtual void copy_across(std::uint64_t to, std::uint64_t from, Bytes bytes) = 0;
  /// All of the GPU is busy for so long: it reads and writes `touched` again and again.
  virtual void occupy(double seconds, const GpuMemory& touched) = 0;
  /// Makes samples of `count` photographs; the array of them lies on the GPU at `crops`.
  virtual void crop(std::uint64_t crops, std::size_t count, const GpuCropOutput& output) = 0;
  /// What is given from now on begins after that mark, of any GPU.
  virtual void wait_for(const GpuMark& mark) = 0;
};

/// A JPEG image, and where its pixels go on the GPU: red, green and blue of a byte each, in rows of `pitch` bytes.
struct GpuJpeg {
  std::span<const std::byte> encoded;
  std::uint64_t pixels = 0;
  std::size_t pitch = 0;
};

/// Decodes JPEG images into a GPU's memory, by its JPEG engines where it has some, else by its multiprocessors. Threads: one at a time, each with a
/// decoder of its own.
class GpuJpegDecoder {
 public:
  virtual ~GpuJpegDecoder() = default;
  struct Size {
    int width = 0;
    int height = 0;
  };
  /// By its header alone; nullopt for what this decoder leaves to the CPU (progressive, grey, CMYK, damaged, no JPEG).
  virtual std::optional<Size> size_of(std::span<const std::byte> encoded) = 0;
  /// In the stream's order; `encoded` must stay until a mark after it is reached. False where it refuses: then it is not known what was decoded.
  virtual bool decode(std::span<const GpuJpeg> images, GpuStream& stream) = 0;
  /// "7 JPEG engines (nvJPEG 13.0)"
  [[nodiscard]] virtual std::string description() const = 0;
};

/// One GPU. What it gives out keeps it open. Threads: any.
class Gpu {
 public:
  virtual ~Gpu() = default;
  [[nodiscard]] virtual const GpuInfo& info() const = 0;
  /// Throws NoMemoryError where it has not so much.
  virtual std::unique_ptr<GpuMemory> allocate(Bytes bytes) = 0;
  virtual std::unique_ptr<GpuPinned> pin(std::span<const std::byte> memory) = 0;
  virtual std::unique_ptr<GpuStream> make_stream() = 0;
  virtual std::unique_ptr<GpuMark> make_mark() = 0;
  /// Throws UsageError where the decoder's library is not there: says which, and what to do.
  virtual std::unique_ptr<GpuJpegDecoder> make_jpeg_decoder() = 0;
};

/// The GPUs of this machine that CUDA shows to this process. What it opened may outlive it.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  /// At least one.
  [[nodiscard]] virtual std::span<const GpuInfo> gpus() const = 0;
  /// "CUDA 13.0": the newest that the driver supports.
  [[nodiscard]] virtual const std::string& version() const = 0;
  virtual std::shared_ptr<Gpu> open(std::size_t number) = 0;
};

/// Returns whether the mark was reached before the deadline. Looks often at first, then every 50 microseconds.
bool wait_until_reached(const GpuMark& mark, Deadline deadline, Timing timing);
/// The same; throws Error that names `what` the GPU did not end in time.
void require_reached(const GpuMark& mark, double seconds, Timing timing, const char* what);

}  // namespace dsanalyze
