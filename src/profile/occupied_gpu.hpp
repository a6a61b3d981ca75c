#pragma once

#include <exception>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "core/gpu.hpp"

namespace dsanalyze {

/// Keeps a GPU as busy as training does, as long as it exists: what the GPU prepares meanwhile has to share its multiprocessors and its memory.
/// Threads: one.
class OccupiedGpu {
 public:
  /// Throws Error where the GPU has no memory for it.
  OccupiedGpu(const std::shared_ptr<Gpu>& gpu, Timing timing);
  ~OccupiedGpu();
  /// Lets go of the GPU. Throws what ended the work on it before, as then nothing was measured beside it.
  void finish();
  OccupiedGpu(const OccupiedGpu&) = delete;
  OccupiedGpu& operator=(const OccupiedGpu&) = delete;

 private:
  void run(const std::stop_token& stop);

  Timing m_timing;
  std::unique_ptr<GpuMemory> m_touched;
  std::unique_ptr<GpuMark> m_marks[2];
  std::unique_ptr<GpuStream> m_steps;  // ends before what its work uses
  std::exception_ptr m_failure;        // of the thread, once that has ended
  std::jthread m_thread;
};

}  // namespace dsanalyze
