#include "occupied_gpu.hpp"

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr double occupied_step_seconds = 0.005;
constexpr double longest_occupied_wait = 30;

}  // namespace

OccupiedGpu::OccupiedGpu(const std::shared_ptr<Gpu>& gpu, Timing timing)
    : m_timing(timing),
      m_touched(gpu->allocate(bytes_to_touch(gpu->info()))),
      m_marks{gpu->make_mark(), gpu->make_mark()},
      m_steps(gpu->make_stream()),
      m_thread([this](const std::stop_token& stop) { run(stop); }) {}

OccupiedGpu::~OccupiedGpu() {
  m_thread.request_stop();
  if (m_thread.joinable()) m_thread.join();
}

void OccupiedGpu::finish() {
  m_thread.request_stop();
  m_thread.join();
  if (m_failure) std::rethrow_exception(m_failure);
}

void OccupiedGpu::run(const std::stop_token& stop) {
  try {
    // One step ahead, so that the GPU is never free between two.
    for (std::size_t step = 0; !stop.stop_requested(); ++step) {
      m_steps->occupy(occupied_step_seconds, *m_touched);
      m_marks[step % 2]->set(*m_steps);
      if (step > 0) require_reached(*m_marks[(step + 1) % 2], longest_occupied_wait, m_timing, "an empty step");
    }
  } catch (const std::exception&) {
    m_failure = std::current_exception();
  }
}

}  // namespace dsanalyze
