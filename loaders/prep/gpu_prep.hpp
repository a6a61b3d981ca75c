#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/gpu.hpp"
#include "prep.hpp"

namespace dsanalyze {

/// What was prepared so far.
struct GpuPrepTotals {
  std::uint64_t samples = 0;      ///< on the GPU
  std::uint64_t left_to_cpu = 0;  ///< of the GPU's part, prepared on the CPU after all: the GPU's decoder does not take them
  double crop_seconds = 0;        ///< of the GPU's multiprocessors: crop, resize, flip, normalise
};

/// Prep of JPEG photographs on a GPU, for one loader. Of each batch the first samples are the GPU's: their encoded bytes go to its decoder, and the
/// samples never lie in this process's memory. Samples are as make_image_prep() makes them, but that images are decoded whole, never at a smaller
/// scale, and by another decoder. Threads: any.
class GpuPrep {
 public:
  struct Options {
    ImagePrepOptions image;
    double share = 1;  ///< of each batch's samples, 0 to 1
    std::uint32_t slots = 1;
    std::uint32_t batch_size = 1;
  };
  /// Throws UsageError where the GPU cannot decode, NoMemoryError where it has no room for the batches.
  GpuPrep(std::shared_ptr<Gpu> gpu, const Options& options, Timing timing);

  /// How many samples of a batch of so many are the GPU's: its first ones.
  [[nodiscard]] std::uint32_t of_batch(std::uint32_t samples) const;
  /// Where the batch of a slot lies on the GPU, and has room for all of its samples.
  [[nodiscard]] std::uint64_t address(std::uint32_t slot) const { return m_slots->address() + m_slot_bytes * slot; }
  /// A sample of a batch to another position, whichever of both are on the GPU (those below `on_gpu`) or in the batch's memory in this process.
  struct Move {
    std::uint32_t slot = 0;
    std::byte* host = nullptr;
    std::uint32_t on_gpu = 0;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };
  void move(const Move& move);
  /// So many threads keep the decoder busy.
  static constexpr std::uint32_t threads = 2;
  /// The most samples that a thread gives to the GPU at once.
  static constexpr std::size_t group = 64;
  [[nodiscard]] GpuPrepTotals totals() const;
  [[nodiscard]] const std::string& decoder() const { return m_decoder; }

  /// A sample to prepare; where the GPU does not take it, it is prepared into `cpu.output` and copied from there.
  struct Task {
    PrepTask cpu;
    std::uint32_t slot = 0;
    std::uint32_t position = 0;
  };
  /// What one thread has of it.
  class Worker {
   public:
    explicit Worker(GpuPrep& prep);
    /// Returns when all are there. `statuses` as of Prep::prepare(), one for each task. At most `group` tasks. When it throws, the GPU reads none of
    /// their bytes any more, unless it has not answered for half a minute.
    void prepare(std::span<const Task> tasks, std::span<Status> statuses);

   private:
    struct Photograph {
      std::size_t task = 0;
      GpuJpegDecoder::Size size;
    };
    void prepare_all(std::span<const Task> tasks, std::span<Status> statuses);
    void settle() noexcept;
    void plan(std::span<const Task> tasks);
    bool decode_and_crop(std::span<const Task> tasks);
    [[nodiscard]] GpuCrop crop_of(const Task& task, const Photograph& photograph, std::uint64_t pixels) const;
    void prepare_on_cpu(const Task& task, Status& status);

    GpuPrep& m_prep;
    std::unique_ptr<Prep> m_cpu;
    std::unique_ptr<GpuMemory> m_pixels;
    std::unique_ptr<GpuMemory> m_crops;
    std::vector<GpuCrop> m_crop_tasks;
    std::unique_ptr<GpuMark> m_decoded, m_done;
    std::unique_ptr<GpuJpegDecoder> m_decoder;
    std::unique_ptr<GpuStream> m_stream;  // last: its work ends before what it uses
    std::vector<Photograph> m_photographs;
    std::vector<std::size_t> m_left;  ///< tasks for the CPU
  };

 private:
  std::shared_ptr<Gpu> m_gpu;
  Options m_options;
  Timing m_timing;
  std::unique_ptr<PrepFactory> m_cpu_prep;
  std::size_t m_sample_bytes;
  std::size_t m_slot_bytes;
  GpuCropOutput m_output;
  Bytes m_most_pixel_bytes;  ///< decoded at once by one thread
  std::unique_ptr<GpuMemory> m_slots;
  std::string m_decoder;
  std::mutex m_moving;
  std::unique_ptr<GpuMark> m_moved;
  std::unique_ptr<GpuStream> m_moves;
  std::atomic<std::uint64_t> m_samples{0};
  std::atomic<std::uint64_t> m_left_to_cpu{0};
  std::atomic<std::int64_t> m_crop_nanoseconds{0};
};

}  // namespace dsanalyze
