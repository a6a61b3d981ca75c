#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "core/batch.hpp"
#include "core/gpu.hpp"
#include "core/mesh.hpp"
#include "core/records/settings.hpp"
#include "trainer.hpp"

namespace dsanalyze {

struct GpuTrainerOptions {
  BatchLayout layout;             ///< which devices have what of an accelerator's batch; an accelerator of the loader's is a slice of it
  double samples_per_second = 0;  ///< of one slice; a step of n samples occupies its devices for n / this
  StepMode step = StepMode::lockstep;
  TensorShape tensor;    ///< of a whole batch, whose number of samples no batch exceeds
  Bytes slot_bytes = 0;  ///< memory of a batch from memory() on, which is pinned when it is first seen
  /// What a batch's offsets count from; empty: batches are on the GPUs already and nothing is copied.
  std::function<const std::byte*(const Batch&)> memory;
  /// Where a batch whose first samples are on the GPU already has room for the rest; empty: the trainer has room of its own. Of one device alone.
  std::function<std::uint64_t(const Batch&)> gpu_memory;
};

/// Gives the stream the copies that bring a device its part of a batch: into dense memory from `to` on.
void copy_part(GpuStream& stream, std::uint64_t to, const std::byte* samples, const DevicePart& part, const TensorShape& tensor);

/// Trains on real GPUs in steps of a known length: each device's part of a batch is copied from where it lies into memory of the device, while the
/// step before occupies it; two steps are in flight. A batch is given back when its step has ended. Device i uses `gpus[i]`; where one GPU stands for
/// several, their steps share it. In lockstep a step begins when all of its batches have arrived. submit() and reap() as Trainer; both throw Error
/// where a GPU fails. The pinned memory must outlive the trainer.
std::unique_ptr<Trainer> make_gpu_trainer(const GpuTrainerOptions& options, std::span<const std::shared_ptr<Gpu>> gpus, Timing timing);

}  // namespace dsanalyze
