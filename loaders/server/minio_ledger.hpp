#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "loaders/cache/directory.hpp"
#include "protocol.hpp"
#include "server_scope.hpp"

namespace dsanalyze {

/// The decisions and the directory of a MinIO cache. Threads: any. No allocation after construction.
class MinioLedger {
 public:
  explicit MinioLedger(const CacheOptions& options)
      : m_directory(MemorySegment::create("cache directory", CacheDirectory::bytes_for(options.samples))),
        m_policy_state(cache_policy_state_bytes(CacheKind::minio, options.samples) + 64) {
    m_directory.forbid_future_writers();
    void* state = m_policy_state.data();
    std::size_t room = m_policy_state.size();
    std::align(64, room - 64, state, room);
    m_policy = make_cache_policy(CacheKind::minio, options.capacity, options.samples, {static_cast<std::byte*>(state), room}, options.least_priority);
    auto& header = m_directory.header();
    header.capacity = options.capacity;
    header.samples = options.samples;
    header.payload_bytes = std::min(options.capacity, options.dataset_bytes);
    header.free_bytes.store(options.capacity);
    header.least_priority = options.least_priority;
  }

  /// Decides accesses in order. An item that is admitted but not published yet is a bypass, as is one that cannot be: too large, or no sample.
  void decide(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions) {
    const std::scoped_lock lock(m_mutex);
    m_decided.fetch_add(accesses.size(), std::memory_order_relaxed);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const auto& [key, bytes, job, priority] = accesses[i];
      decisions[i] = CacheDecision::bypass;
      if (key >= m_directory.header().samples || bytes > server_protocol::most_item_bytes) continue;
      m_policy->access(accesses.subspan(i, 1), decisions.subspan(i, 1), m_evicted);
      if (decisions[i] == CacheDecision::admit) m_directory.promise(key, static_cast<std::uint32_t>(bytes));
      if (decisions[i] == CacheDecision::hit && !m_directory.find(key)) decisions[i] = CacheDecision::bypass;
    }
    note_free_bytes();
  }
  /// An admitted item does not come.
  void forget(std::uint64_t key) {
    const std::scoped_lock lock(m_mutex);
    if (key >= m_directory.header().samples || m_directory.find(key)) return;
    m_policy->forget(key);
    m_directory.promise(key, 0);
    note_free_bytes();
  }
  /// False when it is more than was promised, or there already.
  [[nodiscard]] bool publish(std::uint64_t key, const CacheDirectory::Place& place) {
    const std::scoped_lock lock(m_mutex);
    if (key >= m_directory.header().samples || m_directory.find(key) || place.length > m_directory.promised(key)) return false;
    m_directory.publish(key, place);
    return true;
  }
  [[nodiscard]] const CacheDirectory& directory() const { return m_directory; }
  /// Accesses decided so far: what was found in the directory without asking here is not among them.
  [[nodiscard]] std::uint64_t decided() const { return m_decided.load(std::memory_order_relaxed); }

 private:
  void note_free_bytes() { m_directory.header().free_bytes.store(m_policy->capacity() - m_policy->bytes_held(), std::memory_order_relaxed); }

  std::mutex m_mutex;
  std::atomic<std::uint64_t> m_decided{0};
  CacheDirectory m_directory;
  std::vector<std::byte> m_policy_state;
  std::unique_ptr<CachePolicy> m_policy;
  std::vector<std::uint64_t> m_evicted;
};

}  // namespace dsanalyze
