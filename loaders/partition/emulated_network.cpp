#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <vector>

#include "base/bounded_queue.hpp"
#include "core/device.hpp"
#include "partition.hpp"

namespace dsanalyze {
namespace {

constexpr double look_for_end_seconds = 0.2;
constexpr std::size_t delivered_at_once = 64;

/// Gives completions on when the link would have carried them: one after another, each for as long as its bytes take.
class EmulatedNetwork final : public PeerSource {
 public:
  EmulatedNetwork(PeerSource& inner, double bytes_per_second, Timing timing)
      : m_inner(inner), m_bytes_per_second(bytes_per_second), m_timing(timing) {
    m_waiting.reserve(inner.capacity());
    m_inner.deliver_to([this](std::span<const PeerCompletion> completions) { take(completions); });
    m_thread = std::jthread([this](const std::stop_token& stop) { deliver(stop); });
  }
  ~EmulatedNetwork() override {
    m_inner.deliver_to({});
    m_thread.request_stop();
    m_arrived.notify(*m_timing.waiter, 1);
    m_thread.join();
  }
  EmulatedNetwork(const EmulatedNetwork&) = delete;
  EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

  void deliver_to(Sink sink) override {
    const std::scoped_lock lock(m_delivering);
    m_sink = std::move(sink);
  }
  Status submit(std::span<const PeerRequest> requests) override { return m_inner.submit(requests); }
  void release(std::span<const std::uint32_t> buffers) override { m_inner.release(buffers); }
  void cancel() override {
    m_inner.cancel();
    {
      const std::scoped_lock lock(m_mutex);
      for (PeerCompletion& completion : m_waiting) completion.done_at = 0;
      std::ranges::make_heap(m_waiting, later);
    }
    m_arrived.notify(*m_timing.waiter, 1);
  }
  [[nodiscard]] std::size_t capacity() const override { return m_inner.capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_inner.free_places(); }
  [[nodiscard]] bool alive(std::uint32_t rank) const override { return m_inner.alive(rank); }
  [[nodiscard]] Bytes received() const override { return m_inner.received(); }

 private:
  static bool later(const PeerCompletion& a, const PeerCompletion& b) { return a.done_at > b.done_at; }

  void take(std::span<const PeerCompletion> completions) {
    const Nanoseconds now = m_timing.clock->now();
    {
      const std::scoped_lock lock(m_mutex);
      for (PeerCompletion completion : completions) {
        const auto service = to_nanoseconds(static_cast<double>(completion.bytes.size()) / m_bytes_per_second);
        const Nanoseconds begun = completion.done_at - completion.took;
        // The link was busy with it since it was asked for, if it was free.
        completion.done_at = std::max(completion.done_at, reserve(m_link, begun, service, now));
        completion.took = completion.done_at - begun;
        m_waiting.push_back(completion);
        std::ranges::push_heap(m_waiting, later);
      }
    }
    m_arrived.notify(*m_timing.waiter, 1);
  }

  void deliver(const std::stop_token& stop) {
    std::array<PeerCompletion, delivered_at_once> due;
    while (!stop.stop_requested()) {
      const std::uint32_t ticket = m_arrived.ticket();
      Deadline next = m_timing.clock->after(look_for_end_seconds);
      std::size_t count = 0;
      {
        const std::scoped_lock lock(m_mutex);
        const Nanoseconds now = m_timing.clock->now();
        while (count < due.size() && !m_waiting.empty() && m_waiting.front().done_at <= now) {
          std::ranges::pop_heap(m_waiting, later);
          due[count++] = m_waiting.back();
          m_waiting.pop_back();
        }
        if (!m_waiting.empty()) next.at = std::min(next.at, m_waiting.front().done_at);
      }
      if (count == 0) {
        m_arrived.wait(*m_timing.waiter, ticket, next);
        continue;
      }
      const std::scoped_lock lock(m_delivering);
      if (m_sink) m_sink(std::span(due).first(count));
    }
  }

  PeerSource& m_inner;
  double m_bytes_per_second;
  Timing m_timing;
  DeviceLane m_link;
  std::mutex m_mutex;
  std::vector<PeerCompletion> m_waiting;  ///< a heap, the next one due in front
  std::mutex m_delivering;
  Sink m_sink;
  Signal m_arrived;
  std::jthread m_thread;
};

}  // namespace

std::unique_ptr<PeerSource> make_emulated_network(PeerSource& peers, double bytes_per_second, Timing timing) {
  return std::make_unique<EmulatedNetwork>(peers, bytes_per_second, timing);
}

}  // namespace dsanalyze
