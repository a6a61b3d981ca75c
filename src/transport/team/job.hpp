#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "members.hpp"
#include "ranks.hpp"
#include "transport/wire/places.hpp"
#include "transport/wire/wire.hpp"

namespace dsanalyze::transport {

/// Counts of all connections. Threads: any.
struct Counts {
  std::atomic<Bytes> bytes_sent{0};
  std::atomic<std::uint64_t> requests_served{0};
  std::atomic<std::uint64_t> requests_refused{0};
  std::atomic<Bytes> bytes_received{0};
  std::atomic<std::uint64_t> corrupt{0};
  std::atomic<std::uint64_t> nonsense{0};
  std::atomic<std::uint64_t> reopened{0};
};

/// What this rank holds for the others, and who is reading it just now. Threads: any, at once.
class Held {
 public:
  explicit Held(Members& members) : m_members(&members) {}
  /// Then borrow(), and unpin() once nothing that it gave is in use.
  void pin() { m_pins.fetch_add(1); }
  void unpin() {
    if (m_pins.fetch_sub(1) == 1 && m_samples.load() == nullptr) m_members->tell();
  }
  [[nodiscard]] std::span<const std::byte> borrow(SampleId sample) const {
    const HeldSamples* const samples = m_samples.load();
    return samples == nullptr ? std::span<const std::byte>{} : samples->find(sample);
  }
  void set(const HeldSamples* samples) { m_samples.store(samples); }
  [[nodiscard]] bool in_use() const { return m_pins.load() > 0; }

 private:
  Members* m_members;
  std::atomic<const HeldSamples*> m_samples{nullptr};
  std::atomic<std::uint32_t> m_pins{0};
};

/// Takes what was completed to the sink, one group at a time. Threads: any, at once.
class Deliveries {
 public:
  void deliver_to(PeerSource::Sink sink) {
    const std::scoped_lock lock(m_mutex);
    m_sink = std::move(sink);
  }
  void deliver(std::span<const PeerCompletion> completions) {
    const std::scoped_lock lock(m_mutex);
    if (m_sink && !completions.empty()) m_sink(completions);
  }

 private:
  std::mutex m_mutex;
  PeerSource::Sink m_sink;
};

/// What connections have in common. Outlives them.
struct Job {
  Job(const RankFacts& given_facts, Timing timing)
      : facts(given_facts),
        peer_deadline(to_nanoseconds(given_facts.peer_deadline_seconds)),
        members(given_facts.world, given_facts.rank, timing),
        places(given_facts.places, given_facts.largest_sample),
        held(members) {}

  RankFacts facts;
  Nanoseconds peer_deadline;
  Members members;
  Places places;
  Held held;
  Deliveries deliveries;
  Counts counts;
  /// A whole frame of kinds gather, training, mask and decided, each once and in its turn. Called by threads of connections.
  std::function<void(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes)> hear;
  /// A connection with this rank broke: it is to be opened anew. Called by threads of connections.
  std::function<void(std::uint32_t rank, std::uint32_t connection)> reopen;
  /// A rank is dead: all its connections are to be closed. This rank itself: the others go on without it, and it hears no rank any more. Called by
  /// any thread.
  std::function<void(std::uint32_t rank, Death death)> bury;
};

}  // namespace dsanalyze::transport
