#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <mutex>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/random.hpp"
#include "fetch_engine.hpp"

namespace dsanalyze {
namespace {

/// Bytes for samples that do not exist: one random block that every completion looks into. Grown before use, never under a reader.
class MadeUpBytes {
 public:
  explicit MadeUpBytes(std::size_t bytes) : m_bytes(bytes) {
    RandomStream random(bytes);
    for (auto& byte : m_bytes) byte = static_cast<std::byte>(random.next());
  }
  [[nodiscard]] std::span<const std::byte> view(std::uint64_t length) const {
    return std::span(m_bytes).first(std::min<std::size_t>(length, m_bytes.size()));
  }
  [[nodiscard]] bool holds(std::uint64_t length) const { return length <= m_bytes.size(); }

 private:
  std::vector<std::byte> m_bytes;
};

/// Completions in the order of their due instants, none given out early. Bounded by `places`.
class DueCompletions {
 public:
  DueCompletions(std::size_t places, Timing timing) : m_places(places), m_timing(timing) { m_heap.reserve(places); }

  bool take_places(std::size_t count) {
    const std::scoped_lock lock(m_mutex);
    if (m_taken + count > m_places) return false;
    m_taken += count;
    return true;
  }
  void give_back(std::size_t count) {
    const std::scoped_lock lock(m_mutex);
    m_taken -= count;
  }
  [[nodiscard]] std::size_t free_places() const {
    const std::scoped_lock lock(m_mutex);
    return m_places - m_taken;
  }
  [[nodiscard]] std::size_t places() const { return m_places; }

  void add(std::span<const FetchCompletion> completions) {
    bool earlier = false;
    {
      const std::scoped_lock lock(m_mutex);
      for (const auto& completion : completions) {
        earlier = earlier || m_heap.empty() || completion.done_at < m_heap.front().done_at;
        m_heap.push_back(completion);
        std::push_heap(m_heap.begin(), m_heap.end(), later);
      }
    }
    if (earlier) m_added.notify(*m_timing.waiter, 1);
  }

  /// What waits is due now, cancelled.
  void cancel() {
    {
      const std::scoped_lock lock(m_mutex);
      for (auto& completion : m_heap) {
        completion.done_at = m_timing.clock->now();
        completion.status = {StatusCode::cancelled, 0};
      }
      std::make_heap(m_heap.begin(), m_heap.end(), later);
    }
    m_added.notify(*m_timing.waiter, 1);
  }

  std::size_t reap(std::span<FetchCompletion> out, Deadline deadline) {
    for (;;) {
      const auto ticket = m_added.ticket();
      const Nanoseconds now = m_timing.clock->now();
      Nanoseconds due = std::numeric_limits<Nanoseconds>::max();
      std::size_t taken = 0;
      {
        const std::scoped_lock lock(m_mutex);
        while (taken < out.size() && !m_heap.empty() && m_heap.front().done_at <= now) {
          std::pop_heap(m_heap.begin(), m_heap.end(), later);
          out[taken++] = m_heap.back();
          m_heap.pop_back();
        }
        if (!m_heap.empty()) due = m_heap.front().done_at;
      }
      if (taken > 0) return taken;
      if (now >= deadline.at) return 0;
      m_added.wait(*m_timing.waiter, ticket, {std::min(due, deadline.at)});
    }
  }

 private:
  static bool later(const FetchCompletion& a, const FetchCompletion& b) { return a.done_at > b.done_at; }

  mutable std::mutex m_mutex;
  std::vector<FetchCompletion> m_heap;
  std::size_t m_places;
  std::size_t m_taken = 0;
  Signal m_added;
  Timing m_timing;
};

/// Synthetic bytes, due when the device says so; a spec without bandwidth is due at once.
class MadeUpEngine final : public FetchEngine {
 public:
  MadeUpEngine(const FetchOptions& options, const StorageDeviceSpec& spec, StorageDeviceState* device, Timing timing)
      : m_timing(timing), m_spec(spec), m_device(device), m_bytes(options.largest_made_up), m_due(options.capacity, timing) {}

  Status submit(std::span<const FetchRequest> requests) override {
    if (requests.size() > largest_group || !m_due.take_places(requests.size())) return {StatusCode::busy, 0};
    std::array<FetchCompletion, largest_group> completions{};
    const Nanoseconds now = m_timing.clock->now();
    Bytes asked = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto& request = requests[i];
      asked += request.extent.length;
      const Nanoseconds due = m_device != nullptr ? storage_request_end(*m_device, m_spec, request.extent.length, now) : now;
      const Status status = m_bytes.holds(request.extent.length) ? Status{} : Status{StatusCode::io, EFBIG};
      completions[i] = {request.tag, request.sample, status, m_bytes.view(request.extent.length), {0}, due, due - now};
    }
    m_requested.fetch_add(asked, std::memory_order_relaxed);
    m_due.add(std::span(completions).first(requests.size()));
    return {};
  }
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override { return m_due.reap(completions, deadline); }
  void release(std::span<const FetchBuffer> buffers) override {
    m_due.give_back(static_cast<std::size_t>(std::ranges::count_if(buffers, [](const FetchBuffer& b) { return b.id != FetchBuffer::none; })));
  }
  void cancel() override { m_due.cancel(); }
  [[nodiscard]] std::size_t capacity() const override { return m_due.places(); }
  [[nodiscard]] std::size_t free_places() const override { return m_due.free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_requested.load(std::memory_order_relaxed); }

 private:
  Timing m_timing;
  StorageDeviceSpec m_spec;
  StorageDeviceState* m_device;
  MadeUpBytes m_bytes;
  DueCompletions m_due;
  std::atomic<Bytes> m_requested{0};
};

/// Real bytes by the engine inside, held back until the emulated device would have delivered them.
class DelayingEngine final : public FetchEngine {
 public:
  DelayingEngine(std::unique_ptr<FetchEngine> inner, const StorageDeviceSpec& spec, StorageDeviceState& device, Timing timing)
      : m_timing(timing), m_inner(std::move(inner)), m_spec(spec), m_device(device), m_due(m_inner->capacity(), timing) {
    m_waiting.reserve(m_inner->capacity());
  }

  Status submit(std::span<const FetchRequest> requests) override {
    if (requests.size() > largest_group || !m_due.take_places(requests.size())) return {StatusCode::busy, 0};
    std::array<FetchRequest, largest_group> numbered{};
    const Nanoseconds now = m_timing.clock->now();
    {
      const std::scoped_lock lock(m_mutex);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        numbered[i] = requests[i];
        numbered[i].tag = place({requests[i].tag, now, storage_request_end(m_device, m_spec, requests[i].extent.length, now)});
      }
    }
    const Status status = m_inner->submit(std::span(numbered).first(requests.size()));
    if (!status.ok()) {
      m_due.give_back(requests.size());
      const std::scoped_lock lock(m_mutex);
      for (const auto& request : std::span(numbered).first(requests.size())) m_free.push_back(request.tag);
    }
    return status;
  }

  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override {
    // Real bytes are there long before an emulated disk would have them: look for arrivals often enough, wait for due ones exactly.
    for (;;) {
      collect(m_timing.clock->now());
      const Deadline soon{std::min(deadline.at, m_timing.clock->now() + to_nanoseconds(look_seconds))};
      const std::size_t taken = m_due.reap(completions, soon);
      if (taken > 0 || m_timing.clock->now() >= deadline.at) return taken;
    }
  }
  void release(std::span<const FetchBuffer> buffers) override {
    m_inner->release(buffers);
    m_due.give_back(buffers.size());
  }
  void cancel() override {
    m_inner->cancel();
    {
      const std::scoped_lock lock(m_mutex);
      for (auto& waiting : m_waiting) waiting.due = 0;
    }
    m_due.cancel();
  }
  [[nodiscard]] std::size_t capacity() const override { return m_inner->capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_due.free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_inner->requested(); }

 private:
  static constexpr double look_seconds = 0.0005;
  struct Waiting {
    std::uint64_t tag = 0;
    Nanoseconds begun = 0;
    Nanoseconds due = 0;
  };

  std::uint64_t place(const Waiting& waiting) {
    if (m_free.empty()) {
      m_waiting.push_back(waiting);
      return m_waiting.size() - 1;
    }
    const std::uint64_t number = m_free.back();
    m_free.pop_back();
    m_waiting[number] = waiting;
    return number;
  }

  void collect(Nanoseconds now) {
    std::array<FetchCompletion, largest_group> arrived{};
    for (;;) {
      const std::size_t count = m_inner->reap(arrived, {now});
      if (count == 0) return;
      {
        const std::scoped_lock lock(m_mutex);
        for (auto& completion : std::span(arrived).first(count)) {
          const std::uint64_t number = completion.tag;
          completion.tag = m_waiting[number].tag;
          completion.done_at = std::max(completion.done_at, m_waiting[number].due);
          completion.took = completion.done_at - m_waiting[number].begun;
          m_free.push_back(number);
        }
      }
      m_due.add(std::span(arrived).first(count));
    }
  }

  Timing m_timing;
  std::unique_ptr<FetchEngine> m_inner;
  StorageDeviceSpec m_spec;
  StorageDeviceState& m_device;
  DueCompletions m_due;
  std::mutex m_mutex;
  std::vector<Waiting> m_waiting;
  std::vector<std::uint64_t> m_free;
};

}  // namespace

std::unique_ptr<FetchEngine> make_emulated_engine(std::unique_ptr<FetchEngine> inner, const FetchOptions& options, const StorageDeviceSpec& spec,
                                                  StorageDeviceState& device, Timing timing) {
  if (inner == nullptr) return std::make_unique<MadeUpEngine>(options, spec, &device, timing);
  return std::make_unique<DelayingEngine>(std::move(inner), spec, device, timing);
}

std::unique_ptr<FetchEngine> make_null_engine(const FetchOptions& options, Timing timing) {
  return std::make_unique<MadeUpEngine>(options, StorageDeviceSpec{}, nullptr, timing);
}

}  // namespace dsanalyze
