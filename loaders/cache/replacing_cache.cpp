#include "replacing_cache.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

/// Small enough that the last block of a sample wastes little (2 % on average), large enough that a chain is short and its links weigh little.
std::size_t choose_block_bytes(const CacheOptions& options) {
  const std::uint64_t mean = options.samples > 0 ? options.dataset_bytes / options.samples : 0;
  return std::clamp<std::size_t>(mean / 24 / 64 * 64, 64, 4096);
}

/// Room for hits that are evicted while they are read. Each is counted as at most eight mean samples: one giant in the dataset does not set the size
/// of all, and when many giants are read at once, something new is not kept.
Bytes evicted_and_read_bytes(const CacheOptions& options) {
  const std::uint64_t mean = options.samples > 0 ? options.dataset_bytes / options.samples + 1 : 0;
  return std::min<Bytes>(options.dataset_bytes, options.samples_in_flight * std::min(options.largest_sample, 8 * mean));
}

}  // namespace

ReplacingCache::ReplacingCache(const CacheOptions& options)
    : m_block_bytes(choose_block_bytes(options)),
      m_policy_state(cache_policy_state_bytes(options.kind, options.samples) + 64),
      m_items(options.samples) {
  void* state = m_policy_state.data();
  std::size_t room = m_policy_state.size();
  std::align(64, room - 64, state, room);
  m_policy = make_cache_policy(options.kind, options.capacity, options.samples, {static_cast<std::byte*>(state), room});
  m_evicted.reserve(options.samples);

  // Every sample may waste part of its last block.
  const Bytes bytes = std::min(options.capacity, options.dataset_bytes) + evicted_and_read_bytes(options);
  const std::size_t blocks = bytes / m_block_bytes + options.samples + options.samples_in_flight + 1;
  if (blocks >= no_block) throw Error("a cache of this kind and size is not supported: more blocks than 32 bits number; ask for a smaller one");
  m_blocks = MemorySegment::create(cache_kind_name(options.kind) + " cache", blocks * m_block_bytes);
  m_next.resize(blocks);
  m_chains.resize(blocks);
  for (std::uint32_t i = 0; i < blocks; ++i) m_next[i] = i + 1 < blocks ? i + 1 : no_block;
  m_free = 0;
  m_free_blocks = blocks;
}

void ReplacingCache::lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) {
  const std::scoped_lock lock(m_mutex);
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const std::uint64_t key = accesses[i].key;
    lookups[i] = {CacheDecision::bypass, key, nullptr, 0, 0};
    if (key >= m_items.size() || accesses[i].bytes > most_item_bytes) continue;
    CacheDecision decision = CacheDecision::bypass;
    m_evicted.clear();
    m_policy->access(accesses.subspan(i, 1), {&decision, 1}, m_evicted);
    for (const std::uint64_t evicted : m_evicted) drop(evicted);
    Item& item = m_items[key];
    lookups[i] = {decision, key, nullptr, item.first_block, item.length};
    if (decision == CacheDecision::admit) item = {no_block, static_cast<std::uint32_t>(accesses[i].bytes), ItemState::awaited};
    if (decision != CacheDecision::hit) continue;
    if (item.state == ItemState::stored) {
      ++m_chains[item.first_block].readers;
    } else {
      lookups[i].decision = CacheDecision::bypass;
    }
  }
}

// Without the mutex: links of a chain are written when it is taken and when it is freed, and a hit's chain is freed with its last release at the
// earliest.
std::span<const std::byte> ReplacingCache::read(const CacheLookup& hit, std::span<std::byte> scratch) const {
  std::size_t done = 0;
  for (std::uint32_t block = hit.first_block; done < hit.length; block = m_next[block]) {
    const std::size_t part = std::min<std::size_t>(m_block_bytes, hit.length - done);
    std::memcpy(scratch.data() + done, m_blocks.data() + block * m_block_bytes, part);
    done += part;
  }
  return scratch.first(hit.length);
}

Status ReplacingCache::store(std::uint64_t key, std::span<const std::byte> bytes) {
  std::uint32_t first = no_block;
  {
    const std::scoped_lock lock(m_mutex);
    if (m_items[key].state != ItemState::awaited) return {};  // evicted before it arrived
    const StatusCode refusal = bytes.size() > m_items[key].length                                       ? StatusCode::corrupt
                               : !take_chain((bytes.size() + m_block_bytes - 1) / m_block_bytes, first) ? StatusCode::busy
                                                                                                        : StatusCode::ok;
    if (refusal != StatusCode::ok) {
      m_policy->forget(key);
      m_items[key] = {};
      return {refusal, 0};
    }
  }
  std::size_t done = 0;
  for (std::uint32_t block = first; done < bytes.size(); block = m_next[block]) {
    const std::size_t part = std::min(m_block_bytes, bytes.size() - done);
    std::memcpy(m_blocks.data() + block * m_block_bytes, bytes.data() + done, part);
    done += part;
  }
  const std::scoped_lock lock(m_mutex);
  if (m_items[key].state != ItemState::awaited) {
    free_chain(first);
    return {};
  }
  m_items[key] = {first, static_cast<std::uint32_t>(bytes.size()), ItemState::stored};
  return {};
}

void ReplacingCache::abandon(std::uint64_t key) {
  const std::scoped_lock lock(m_mutex);
  if (m_items[key].state != ItemState::awaited) return;
  m_policy->forget(key);
  m_items[key] = {};
}

void ReplacingCache::release(std::span<const CacheLookup> hits) {
  const std::scoped_lock lock(m_mutex);
  for (const CacheLookup& hit : hits) {
    Chain& chain = m_chains[hit.first_block];
    --chain.readers;
    if (chain.readers == 0 && chain.evicted != 0) free_chain(hit.first_block);
  }
}

CacheTotals ReplacingCache::totals() const {
  const std::scoped_lock lock(m_mutex);
  return {m_policy->items_held(), m_policy->bytes_held(), m_policy->capacity()};
}

void ReplacingCache::drop(std::uint64_t key) {
  Item& item = m_items[key];
  if (item.state == ItemState::stored) {
    if (m_chains[item.first_block].readers == 0) {
      free_chain(item.first_block);
    } else {
      m_chains[item.first_block].evicted = 1;
    }
  }
  item = {};
}

void ReplacingCache::free_chain(std::uint32_t first) {
  m_chains[first] = {};
  std::uint32_t last = first;
  ++m_free_blocks;
  for (; m_next[last] != no_block; last = m_next[last]) ++m_free_blocks;
  m_next[last] = m_free;
  m_free = first;
}

bool ReplacingCache::take_chain(std::size_t blocks, std::uint32_t& first) {
  if (blocks == 0) blocks = 1;
  if (m_free_blocks < blocks) return false;
  first = m_free;
  std::uint32_t last = first;
  for (std::size_t i = 1; i < blocks; ++i) last = m_next[last];
  m_free = m_next[last];
  m_next[last] = no_block;
  m_free_blocks -= blocks;
  return true;
}

}  // namespace dsanalyze
