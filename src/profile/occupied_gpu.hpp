#pragma once

#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "core/gpu.hpp"

namespace dsanalyze {

/// Keeps a GPU as busy as training does, as long as it exists: what the GPU prepares meanwhile has to share its multiprocessors and its memory. A GPU
/// that is lost is left to who prepares on it. Threads: one.
class OccupiedGpu {
 public:
  /// Throws Error where the GPU has no memory for it.
  OccupiedGpu(const std::shared_ptr<Gpu>& gpu, Timing timing);
  ~OccupiedGpu();
  OccupiedGpu(const OccupiedGpu&) = delete;
  OccupiedGpu& operator=(const OccupiedGpu&) = delete;

 private:
  void run(const std::stop_token& stop);

  Timing m_timing;
  std::unique_ptr<GpuMemory> m_touched;
  std::unique_ptr<GpuMark> m_marks[2];
  std::unique_ptr<GpuStream> m_steps;  // ends before what its work uses
  std::jthread m_thread;
};

}  // namespace dsanalyze
