#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.hpp"
#include "partition.hpp"

namespace dsanalyze {
namespace {

constexpr double storage_look_seconds = 0.2;  ///< how often the thread that reaps storage looks whether it should end

/// A request. Its place is taken from submit() until the buffer is released, and its number is the buffer's.
struct Place {
  enum class For : std::uint8_t { loader, aside };

  FetchRequest request;
  std::uint32_t attempt = 0;  ///< peers asked so far
  Nanoseconds begun = 0;
  FetchBuffer storage_buffer;
  std::uint32_t peer_buffer = UINT32_MAX;
  For whom = For::loader;
};

class Engine final : public PartitionedEngine {
 public:
  Engine(std::shared_ptr<const DatasetIndex> index, std::unique_ptr<FetchEngine> storage, PeerSource& peers, const PartitionRules& rules,
         Timing timing)
      : m_index(std::move(index)),
        m_storage(std::move(storage)),
        m_peers(peers),
        m_rules(rules),
        m_timing(timing),
        m_places(std::min(m_storage->capacity(), peers.capacity())),
        m_done(m_places.size(), timing),
        m_aside(m_places.size(), timing) {
    for (std::size_t i = m_places.size(); i-- > 0;) m_free.push_back(static_cast<std::uint32_t>(i));
    m_peers.deliver_to([this](std::span<const PeerCompletion> completions) { take_from_peers(completions); });
    m_thread = std::jthread([this](const std::stop_token& stop) { reap_storage(stop); });
  }
  ~Engine() override {
    m_peers.cancel();
    m_peers.deliver_to({});
    m_thread.request_stop();
    m_thread.join();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Status submit(std::span<const FetchRequest> requests) override {
    std::array<std::uint32_t, largest_group> numbers{};
    if (requests.size() > largest_group || !take_places(std::span(numbers).first(requests.size()))) return {StatusCode::busy, 0};
    const Nanoseconds now = m_timing.clock->now();
    for (std::size_t i = 0; i < requests.size(); ++i) m_places[numbers[i]] = {requests[i], 0, now, {}, UINT32_MAX, Place::For::loader};
    ask(std::span(numbers).first(requests.size()));
    return {};
  }

  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override { return m_done.pop(completions, deadline); }

  void release(std::span<const FetchBuffer> buffers) override {
    for (const FetchBuffer& buffer : buffers) {
      Place& place = m_places[buffer.id];
      if (place.peer_buffer != UINT32_MAX) {
        m_peers.release({&place.peer_buffer, 1});
      } else if (place.storage_buffer.id != FetchBuffer::none) {
        m_storage->release({&place.storage_buffer, 1});
      }
      give_back(buffer.id);
    }
  }

  void cancel() override {
    m_cancelled.fetch_add(1);
    m_peers.cancel();
    m_storage->cancel();
  }
  [[nodiscard]] std::size_t capacity() const override { return m_places.size(); }
  [[nodiscard]] std::size_t free_places() const override {
    const std::scoped_lock lock(m_mutex);
    return m_free.size();
  }
  [[nodiscard]] Bytes requested() const override { return m_storage->requested(); }
  [[nodiscard]] std::uint64_t redirected() const override { return m_redirected.load(std::memory_order_relaxed); }

  Status read_aside(std::span<const SampleId> samples, const Take& take, Deadline deadline) override {
    const std::uint64_t cancelled_before = m_cancelled.load();
    std::size_t asked = 0;
    std::size_t answered = 0;
    std::array<FetchCompletion, largest_group> completions;
    while (answered < samples.size()) {
      const bool over = m_cancelled.load() != cancelled_before || m_timing.clock->now() >= deadline.at;
      if (over && answered == asked) return {m_cancelled.load() != cancelled_before ? StatusCode::cancelled : StatusCode::timeout, 0};
      while (!over && asked < samples.size() && read_from_storage(samples[asked])) ++asked;
      const std::size_t count = m_aside.pop(completions, m_timing.clock->after(storage_look_seconds));
      for (const FetchCompletion& completion : std::span(completions).first(count)) {
        if (completion.status.ok()) take(completion.sample, completion.bytes);
        if (completion.buffer.id != FetchBuffer::none) release({&completion.buffer, 1});
      }
      answered += count;
    }
    return {};
  }

 private:
  bool take_places(std::span<std::uint32_t> numbers) {
    const std::scoped_lock lock(m_mutex);
    if (m_free.size() < numbers.size()) return false;
    for (std::uint32_t& number : numbers) {
      number = m_free.back();
      m_free.pop_back();
    }
    return true;
  }
  void give_back(std::uint32_t number) {
    const std::scoped_lock lock(m_mutex);
    m_free.push_back(number);
  }

  bool read_from_storage(SampleId sample) {
    std::uint32_t number = 0;
    if (!take_places({&number, 1})) return false;
    m_places[number] = {{number, sample, (*m_index)[sample].extent()}, 0, m_timing.clock->now(), {}, UINT32_MAX, Place::For::aside};
    read({&number, 1});
    return true;
  }

  /// Whom the rules name, at each place's attempt; storage for the others.
  void ask(std::span<const std::uint32_t> numbers) {
    std::array<PeerRequest, largest_group> of_peers{};
    std::array<std::uint32_t, largest_group> of_storage{};
    std::size_t peer_count = 0;
    std::size_t storage_count = 0;
    for (const std::uint32_t number : numbers) {
      const FetchRequest& request = m_places[number].request;
      const auto rank = request.extent.length <= UINT32_MAX ? m_rules.ask(request.sample, m_places[number].attempt) : std::nullopt;
      if (rank) {
        of_peers[peer_count++] = {number, request.sample, static_cast<std::uint32_t>(request.extent.length), *rank};
      } else {
        of_storage[storage_count++] = number;
      }
    }
    const auto peer_requests = std::span(of_peers).first(peer_count);
    if (peer_count > 0 && !m_peers.submit(peer_requests).ok()) {
      m_redirected.fetch_add(peer_count, std::memory_order_relaxed);
      for (const PeerRequest& request : peer_requests) of_storage[storage_count++] = static_cast<std::uint32_t>(request.tag);
    }
    read(std::span(of_storage).first(storage_count));
  }

  /// Storage has a place for each of this engine's, so that it never refuses.
  void read(std::span<const std::uint32_t> numbers) {
    if (numbers.empty()) return;
    std::array<FetchRequest, largest_group> requests{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      requests[i] = m_places[numbers[i]].request;
      requests[i].tag = numbers[i];
    }
    const Status status = m_storage->submit(std::span(requests).first(numbers.size()));
    if (status.ok()) return;
    for (const std::uint32_t number : numbers) complete(number, status, {}, FetchSource::storage, m_timing.clock->now());
  }

  void take_from_peers(std::span<const PeerCompletion> completions) {
    while (!completions.empty()) {
      const auto group = completions.first(std::min(completions.size(), largest_group));
      completions = completions.subspan(group.size());
      std::array<std::uint32_t, largest_group> again{};
      std::size_t again_count = 0;
      for (const PeerCompletion& completion : group) {
        const auto number = static_cast<std::uint32_t>(completion.tag);
        if (completion.status.ok()) {
          m_places[number].peer_buffer = completion.buffer;
          complete(number, {}, completion.bytes, FetchSource::peer, completion.done_at);
          continue;
        }
        if (completion.buffer != UINT32_MAX) m_peers.release({&completion.buffer, 1});
        if (completion.status.code == StatusCode::cancelled) {
          complete(number, completion.status, {}, FetchSource::peer, completion.done_at);
          continue;
        }
        ++m_places[number].attempt;
        again[again_count++] = number;
      }
      m_redirected.fetch_add(again_count, std::memory_order_relaxed);
      if (again_count > 0) ask(std::span(again).first(again_count));
    }
  }

  void reap_storage(const std::stop_token& stop) {
    std::array<FetchCompletion, largest_group> completions;
    while (!stop.stop_requested()) {
      const std::size_t count = m_storage->reap(completions, m_timing.clock->after(storage_look_seconds));
      for (FetchCompletion& completion : std::span(completions).first(count)) {
        const auto number = static_cast<std::uint32_t>(completion.tag);
        m_places[number].storage_buffer = completion.buffer;
        completion.tag = m_places[number].request.tag;
        completion.buffer = {number};
      }
      const auto reaped = std::span(completions).first(count);
      const auto aside = std::partition(reaped.begin(), reaped.end(), [this](const FetchCompletion& completion) {
        return m_places[completion.buffer.id].whom == Place::For::loader;
      });
      const auto for_loader = static_cast<std::size_t>(aside - reaped.begin());
      deliver(m_done, reaped.first(for_loader));
      deliver(m_aside, reaped.subspan(for_loader));
    }
  }

  /// Both queues have room for every place.
  void deliver(BoundedQueue<FetchCompletion>& queue, std::span<const FetchCompletion> completions) {
    if (!completions.empty()) static_cast<void>(queue.push(completions, m_timing.clock->after(storage_look_seconds)));
  }

  void complete(std::uint32_t number, Status status, std::span<const std::byte> bytes, FetchSource source, Nanoseconds done_at) {
    const Place& place = m_places[number];
    const FetchCompletion completion{place.request.tag, place.request.sample, status, bytes, {number}, done_at, done_at - place.begun, source};
    deliver(place.whom == Place::For::loader ? m_done : m_aside, {&completion, 1});
  }

  std::shared_ptr<const DatasetIndex> m_index;
  std::unique_ptr<FetchEngine> m_storage;
  PeerSource& m_peers;
  const PartitionRules& m_rules;
  Timing m_timing;
  mutable std::mutex m_mutex;
  std::vector<Place> m_places;  ///< each belongs to the holder of its request
  std::vector<std::uint32_t> m_free;
  BoundedQueue<FetchCompletion> m_done;   ///< for the loader
  BoundedQueue<FetchCompletion> m_aside;  ///< for read_aside()
  std::atomic<std::uint64_t> m_redirected{0};
  std::atomic<std::uint64_t> m_cancelled{0};
  std::jthread m_thread;
};

}  // namespace

std::unique_ptr<PartitionedEngine> make_partitioned_engine(std::shared_ptr<const DatasetIndex> index, std::unique_ptr<FetchEngine> storage,
                                                           PeerSource& peers, const PartitionRules& rules, Timing timing) {
  return std::make_unique<Engine>(std::move(index), std::move(storage), peers, rules, timing);
}

namespace {

class PartitionedCache final : public RawCache {
 public:
  PartitionedCache(RawCache& cache, const PartitionRules& rules) : m_cache(cache), m_rules(rules) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<CacheAccess, 256> ranked;
    while (!accesses.empty()) {
      const std::size_t count = std::min(accesses.size(), ranked.size());
      for (std::size_t i = 0; i < count; ++i) {
        ranked[i] = accesses[i];
        ranked[i].priority = m_rules.keeps(static_cast<SampleId>(accesses[i].key)) ? partition_priority : 0;
      }
      m_cache.lookup(std::span(ranked).first(count), lookups.first(count));
      accesses = accesses.subspan(count);
      lookups = lookups.subspan(count);
    }
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> scratch) const override { return m_cache.read(hit, scratch); }
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override { return m_cache.store(key, bytes); }
  void abandon(std::uint64_t key) override { m_cache.abandon(key); }
  void release(std::span<const CacheLookup> hits) override { m_cache.release(hits); }
  [[nodiscard]] CacheTotals totals() const override { return m_cache.totals(); }

 private:
  RawCache& m_cache;
  const PartitionRules& m_rules;
};

}  // namespace

std::unique_ptr<RawCache> make_partitioned_cache(RawCache& cache, const PartitionRules& rules) {
  return std::make_unique<PartitionedCache>(cache, rules);
}

}  // namespace dsanalyze
