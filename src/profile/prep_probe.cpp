#include "prep_probe.hpp"

#include "base/clock.hpp"
#include "base/host/host.hpp"

namespace dsanalyze {
namespace {

constexpr double period_seconds = 0.1;

}  // namespace

PrepProbe::PrepProbe(std::vector<std::vector<std::byte>> samples, const PrepFactory& factory, std::vector<int> cpus, Timing timing)
    : m_samples(std::move(samples)),
      m_prep(factory.make()),
      m_output(static_cast<std::size_t>(factory.tensor(1).sample_bytes())),
      m_cpus(std::move(cpus)),
      m_timing(timing),
      m_thread([this](const std::stop_token& stop) { run(stop); }) {}

double PrepProbe::end() {
  m_thread.request_stop();
  if (m_thread.joinable()) m_thread.join();
  return m_turns > 0 ? m_seconds / static_cast<double>(m_turns * m_samples.size()) : 0;
}

void PrepProbe::run(const std::stop_token& stop) {
  if (!m_cpus.empty()) set_thread_affinity(m_cpus);
  double of_this_turn = 0;
  for (std::size_t at = 0; !stop.stop_requested(); at = (at + 1) % m_samples.size()) {
    const Nanoseconds next = m_timing.clock->after(period_seconds).at;
    const Nanoseconds begun = thread_cpu_time();
    // A sample that cannot be prepared takes its time as well, and the same each time.
    const Status ignored = m_prep->prepare({m_samples[at], static_cast<SampleId>(at), 0, m_timing.clock->now(), m_output});
    static_cast<void>(ignored);
    of_this_turn += to_seconds(thread_cpu_time() - begun);
    if (at + 1 == m_samples.size()) {
      m_seconds += of_this_turn;
      ++m_turns;
      of_this_turn = 0;
    }
    m_timing.waiter->sleep_until(next);
  }
}

}  // namespace dsanalyze
