#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze::test {

/// Long enough for any machine; what is waited for comes, or the test has failed.
constexpr double patience_seconds = 60;
inline Deadline in_good_time() { return system_timing().clock->after(patience_seconds); }

/// Waits for what other threads bring about.
template <typename Condition>
bool comes_true(const Condition& condition) {
  const Deadline end = in_good_time();
  while (!condition()) {
    if (system_timing().clock->now() > end.at) return false;
    system_timing().waiter->sleep_until(system_timing().clock->after(0.001).at);
  }
  return true;
}

/// The system's time, moved on by a test.
class MovedClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds now() const override { return system_timing().clock->now() + m_ahead; }
  void move(double seconds) { m_ahead += to_nanoseconds(seconds); }

 private:
  std::atomic<Nanoseconds> m_ahead{0};
};

/// Samples 0 to count - 1 of different lengths, made of their own numbers.
class MadeSamples final : public HeldSamples {
 public:
  explicit MadeSamples(SampleId count, std::uint32_t longest = 4000) {
    for (SampleId sample = 0; sample < count; ++sample) {
      RandomStream random(sample);
      std::vector<std::byte>& bytes = m_samples.emplace_back(1 + random.below(longest));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    }
  }
  [[nodiscard]] std::span<const std::byte> find(SampleId sample) const override {
    return sample < m_samples.size() ? std::span<const std::byte>(m_samples[sample]) : std::span<const std::byte>{};
  }
  [[nodiscard]] PeerRequest request(SampleId sample, std::uint32_t rank, std::uint64_t tag = 0) const {
    return {tag, sample, static_cast<std::uint32_t>(m_samples.at(sample).size()), rank};
  }
  [[nodiscard]] bool is_right(const PeerCompletion& completion) const { return std::ranges::equal(completion.bytes, find(completion.sample)); }
  [[nodiscard]] SampleId count() const { return static_cast<SampleId>(m_samples.size()); }

 private:
  std::vector<std::vector<std::byte>> m_samples;
};

/// What a source delivered: copies without their bytes, looked at as they came.
class Deliveries {
 public:
  /// Gives buffers back at once, before it counts what they were for.
  Deliveries(PeerSource& source, const MadeSamples& samples) : m_source(&source) {
    source.deliver_to([this, &samples](std::span<const PeerCompletion> completions) {
      std::vector<std::uint32_t> buffers;
      bool has_wrong_bytes = false;
      for (const PeerCompletion& completion : completions) {
        if (completion.status.ok() && !samples.is_right(completion)) has_wrong_bytes = true;
        if (completion.buffer != UINT32_MAX) buffers.push_back(completion.buffer);
      }
      m_source->release(buffers);
      {
        const std::scoped_lock lock(m_mutex);
        m_has_wrong_bytes = m_has_wrong_bytes || has_wrong_bytes;
        for (PeerCompletion completion : completions) {
          completion.bytes = {};
          m_completions.push_back(completion);
        }
      }
      m_news.notify_all();
    });
  }
  ~Deliveries() { m_source->deliver_to({}); }
  Deliveries(const Deliveries&) = delete;
  Deliveries& operator=(const Deliveries&) = delete;

  /// All so far, once there are so many.
  std::vector<PeerCompletion> await(std::size_t count) {
    std::unique_lock lock(m_mutex);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(static_cast<int>(patience_seconds));
    REQUIRE(m_news.wait_until(lock, end, [&] { return m_completions.size() >= count; }));
    return m_completions;
  }
  [[nodiscard]] bool has_wrong_bytes() {
    const std::scoped_lock lock(m_mutex);
    return m_has_wrong_bytes;
  }
  [[nodiscard]] std::size_t count() {
    const std::scoped_lock lock(m_mutex);
    return m_completions.size();
  }

 private:
  PeerSource* m_source;
  std::mutex m_mutex;
  std::condition_variable m_news;
  std::vector<PeerCompletion> m_completions;
  bool m_has_wrong_bytes = false;
};

inline RankFacts facts_of(std::uint32_t rank, std::uint32_t world) {
  RankFacts facts;
  facts.rank = rank;
  facts.world = world;
  JobKey key;
  key.fill(std::byte{7});
  facts.key = SecretKey(key);
  facts.terms = "the dataset";
  facts.largest_sample = 4000;
  facts.places = 64;
  // No rank is to die of a slow machine; tests of deaths set their own.
  facts.peer_deadline_seconds = patience_seconds;
  facts.setup_seconds = patience_seconds;
  return facts;
}

/// Ranks of one job in one process.
class JobOfRanks {
 public:
  /// What a rank is told, and the addresses that it dials, before it joins.
  using Change = std::function<void(RankFacts&, std::vector<std::string>&)>;
  JobOfRanks(std::uint32_t world, const Change& change) {
    std::vector<Listener> listeners(world);
    std::vector<std::string> addresses;
    addresses.reserve(world);
    for (const Listener& listener : listeners) addresses.push_back(listener.address());
    std::vector<std::future<std::unique_ptr<Ranks>>> joining;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      RankFacts facts = facts_of(rank, world);
      std::vector<std::string> dialed = addresses;
      if (change) change(facts, dialed);
      joining.push_back(std::async(std::launch::async, [facts, addresses = std::move(dialed), &listener = listeners[rank]] {
        return join_ranks(std::move(listener), facts, addresses, system_timing());
      }));
    }
    for (auto& each : joining) m_ranks.push_back(each.get());
  }
  explicit JobOfRanks(std::uint32_t world) : JobOfRanks(world, nullptr) {}
  /// All at once, as ranks end that have met before.
  ~JobOfRanks() {
    std::vector<std::jthread> leaving;
    for (auto& ranks : m_ranks) leaving.emplace_back([&ranks] { ranks.reset(); });
  }
  JobOfRanks(const JobOfRanks&) = delete;
  JobOfRanks& operator=(const JobOfRanks&) = delete;

  Ranks& operator[](std::uint32_t rank) { return *m_ranks[rank]; }
  /// The rank leaves, to the others as dead.
  void end(std::uint32_t rank) { m_ranks[rank].reset(); }
  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(m_ranks.size()); }
  /// On a thread for each rank that is there.
  template <typename Body>
  void each(const Body& body) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      if (m_ranks[rank]) threads.emplace_back([this, rank, &body] { body(rank, *m_ranks[rank]); });
    }
  }

 private:
  std::vector<std::unique_ptr<Ranks>> m_ranks;
};

}  // namespace dsanalyze::test
