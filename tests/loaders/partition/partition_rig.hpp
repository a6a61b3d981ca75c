#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/bounded_queue.hpp"
#include "loaders/partition/partition.hpp"

namespace dsanalyze::testing {

/// Other ranks, as a thread of this process: what they hold, and how they fail.
class FakePeers final : public PeerSource {
 public:
  using Answer = std::function<Status(std::uint32_t rank, SampleId sample, std::vector<std::byte>& bytes)>;
  FakePeers(std::size_t places, Answer answer)
      : m_places(places), m_answer(std::move(answer)), m_asked(places, system_timing()), m_thread([this] { serve(); }) {}
  ~FakePeers() override { m_asked.close(); }
  FakePeers(const FakePeers&) = delete;
  FakePeers& operator=(const FakePeers&) = delete;

  void deliver_to(Sink sink) override {
    const std::scoped_lock lock(m_delivering);
    m_sink = std::move(sink);
  }
  Status submit(std::span<const PeerRequest> requests) override {
    {
      const std::scoped_lock lock(m_mutex);
      if (m_taken + requests.size() > m_places) return {StatusCode::busy, 0};
      m_taken += requests.size();
      for (const PeerRequest& request : requests) m_ranks_asked[request.sample].push_back(request.rank);
    }
    static_cast<void>(m_asked.push(requests, system_timing().clock->after(10)));
    return {};
  }
  void release(std::span<const std::uint32_t> buffers) override {
    const std::scoped_lock lock(m_mutex);
    for (const std::uint32_t buffer : buffers) m_bytes.erase(buffer);
    m_taken -= buffers.size();
  }
  void cancel() override {}
  [[nodiscard]] std::size_t capacity() const override { return m_places; }
  [[nodiscard]] std::size_t free_places() const override {
    const std::scoped_lock lock(m_mutex);
    return m_places - m_taken;
  }
  [[nodiscard]] bool alive(std::uint32_t) const override { return true; }
  [[nodiscard]] Bytes received() const override { return 0; }

  /// Who was asked for it, in order.
  [[nodiscard]] std::vector<std::uint32_t> asked_for(SampleId sample) const {
    const std::scoped_lock lock(m_mutex);
    const auto found = m_ranks_asked.find(sample);
    return found == m_ranks_asked.end() ? std::vector<std::uint32_t>{} : found->second;
  }
  [[nodiscard]] std::size_t unreleased() const {
    const std::scoped_lock lock(m_mutex);
    return m_taken;
  }

 private:
  void serve() {
    PeerRequest request;
    while (!m_asked.closed()) {
      if (m_asked.pop({&request, 1}, system_timing().clock->after(0.05)) == 0) continue;
      std::vector<std::byte> bytes;
      PeerCompletion completion{request.tag, request.sample, request.rank, m_answer(request.rank, request.sample, bytes), {}, UINT32_MAX, 0, 0};
      completion.done_at = system_timing().clock->now();
      {
        const std::scoped_lock lock(m_mutex);
        if (completion.status.ok()) {
          completion.buffer = m_next++;
          const auto& kept = m_bytes[completion.buffer] = std::move(bytes);
          completion.bytes = kept;
        } else {
          --m_taken;
        }
      }
      const std::scoped_lock lock(m_delivering);
      if (m_sink) m_sink({&completion, 1});
    }
  }

  const std::size_t m_places;
  const Answer m_answer;
  mutable std::mutex m_mutex;
  std::mutex m_delivering;
  Sink m_sink;
  std::size_t m_taken = 0;
  std::uint32_t m_next = 0;
  std::map<std::uint32_t, std::vector<std::byte>> m_bytes;
  std::map<SampleId, std::vector<std::uint32_t>> m_ranks_asked;
  BoundedQueue<PeerRequest> m_asked;
  std::jthread m_thread;
};

/// Sample i is asked of each of `holders(i)` in turn; `kept` ones are for this rank's cache.
class FakeRules final : public PartitionRules {
 public:
  using Holders = std::function<std::vector<std::uint32_t>(SampleId)>;
  explicit FakeRules(Holders holders, std::set<SampleId> kept = {}) : m_holders(std::move(holders)), m_kept(std::move(kept)) {}
  [[nodiscard]] std::optional<std::uint32_t> ask(SampleId sample, std::uint32_t attempt) const override {
    const auto holders = m_holders(sample);
    return attempt < holders.size() ? std::optional(holders[attempt]) : std::nullopt;
  }
  [[nodiscard]] bool keeps(SampleId sample) const override { return m_kept.contains(sample); }

 private:
  Holders m_holders;
  std::set<SampleId> m_kept;
};

}  // namespace dsanalyze::testing
