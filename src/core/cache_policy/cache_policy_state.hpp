#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cache_policy.hpp"

namespace dsanalyze {

/// Both ends of a list of keys, as links (key + 1, 0 for none).
struct KeyListEnds {
  std::uint32_t newest = 0;
  std::uint32_t oldest = 0;
};

/// A list of keys from the newest to the oldest, linked through its keys' entries (`newer`, `older`): relocatable, O(1) for every change.
template <typename Entry>
class KeyList {
 public:
  KeyList(KeyListEnds& ends, std::span<Entry> entries) : m_ends(&ends), m_entries(entries) {}

  [[nodiscard]] bool empty() const { return m_ends->oldest == 0; }
  /// Requires that it is not empty.
  [[nodiscard]] std::uint64_t oldest() const { return m_ends->oldest - 1; }

  void add_newest(std::uint64_t key) {
    const std::uint32_t link = link_of(key);
    m_entries[key].newer = 0;
    m_entries[key].older = m_ends->newest;
    if (m_ends->newest != 0) at(m_ends->newest).newer = link;
    m_ends->newest = link;
    if (m_ends->oldest == 0) m_ends->oldest = link;
  }
  void take_out(std::uint64_t key) {
    const Entry& entry = m_entries[key];
    (entry.newer == 0 ? m_ends->newest : at(entry.newer).older) = entry.older;
    (entry.older == 0 ? m_ends->oldest : at(entry.older).newer) = entry.newer;
  }
  void empty_out() { *m_ends = {}; }

  /// Whether the links join exactly the `count` keys that `belongs` says are in it.
  template <typename Belongs>
  [[nodiscard]] bool whole(std::uint64_t count, const Belongs& belongs) const {
    std::uint64_t linked = 0;
    std::uint32_t newer = 0;
    std::uint32_t link = m_ends->newest;
    for (; link != 0 && linked < count; ++linked) {
      if (link > m_entries.size() || !belongs(at(link)) || at(link).newer != newer) return false;
      newer = link;
      link = at(link).older;
    }
    return link == 0 && linked == count && newer == m_ends->oldest;
  }

 private:
  static std::uint32_t link_of(std::uint64_t key) { return static_cast<std::uint32_t>(key) + 1; }
  [[nodiscard]] Entry& at(std::uint32_t link) const { return m_entries[link - 1]; }

  KeyListEnds* m_ends;
  std::span<Entry> m_entries;
};

/// First bytes of every policy's state. All zero before the first policy is made over it; relocatable.
struct CachePolicyHeader {
  std::uint64_t initialised = 0;  ///< cache_policy_mark once it is
  std::uint64_t kind = 0;
  std::uint64_t key_count = 0;
  Bytes capacity = 0;
  Bytes bytes_held = 0;
  std::uint64_t items_held = 0;
  KeyListEnds list;  ///< page_model_linux: the inactive list
  float least_priority = 0;
  std::uint32_t reserved = 0;
  std::uint64_t draws = 0;  ///< page_model_random: random numbers used so far
  // page_model_linux alone:
  KeyListEnds active;
  Bytes active_bytes = 0;
  Bytes nonresident_age = 0;      ///< bytes evicted and activated so far: the clock of refault distances
  Bytes reclaimed = 0;            ///< since the last look at whether to deactivate
  Bytes deactivation_due = 0;     ///< bytes of the active list that reclaim still owes a deactivation
  std::uint32_t refaulted = 0;    ///< 1: a refault was activated since the counters were refreshed
  std::uint32_t deactivates = 0;  ///< 1: reclaim takes from the active list too
  // LRU alone, its log of uses:
  std::uint64_t log_begin = 0;  ///< slot of the oldest use that is still in it
  std::uint64_t log_used = 0;   ///< slots from there on that are in use
  // page_model_linux, what reclaim knows: the counters as they were last refreshed.
  Bytes seen_active = 0;
  Bytes seen_inactive = 0;
  std::uint64_t seen_refault = 0;  ///< 1: a refault was activated in the period before, and no cluster has acted on it yet
  Bytes since_refresh = 0;         ///< asked for since then
  std::array<std::uint64_t, 3> reserved_too{};
};
static_assert(sizeof(CachePolicyHeader) == 192);
constexpr std::uint64_t cache_policy_mark = 0x3379636c6f706364;

/// What a priority that is no number, or negative, counts as.
inline float admitted_priority(float priority) { return priority > 0 ? priority : 0; }

/// One entry a key of MinIO: the item's bytes + 1 while it is held, else 0.
struct MinioEntry {
  std::uint64_t bytes_plus_one = 0;
};

/// Behind MinIO's entries, one bit a key: held. What nearly every access asks, in an eighth of a byte, so that the bits of millions of keys stay in
/// the processor's cache. It follows from the entries, and is made anew from them whenever a policy is made.
constexpr std::uint64_t minio_bitmap_words(std::uint64_t key_count) { return (key_count + 63) / 64; }

/// One entry a key of LRU.
struct LruEntry {
  std::uint64_t bytes_plus_one = 0;  ///< 0 while the item is not held
  std::uint64_t slot = 0;            ///< of its last use, in the log
};
static_assert(sizeof(LruEntry) == 16);

/// Behind LRU's entries, the log of uses, a ring of keys. With as many slots again as keys can be held it is cleared of what is outdated only after
/// as many uses as there are keys.
constexpr std::uint64_t lru_log_slots(std::uint64_t key_count) { return 2 * key_count; }

/// One entry a key of page_model_random; beside it, a place of the dense array of held keys: as many of these are in use as items are held.
struct RandomEntry {
  std::uint64_t bytes_plus_one = 0;
  std::uint32_t place = 0;     ///< where this key stands in the array
  std::uint32_t held_key = 0;  ///< the key at the array's place of this entry's number
};
static_assert(sizeof(RandomEntry) == 16);

/// One entry a key of page_model_linux.
struct LinuxEntry {
  std::uint64_t bytes_plus_one = 0;
  std::uint64_t mark = 0;  ///< held: active and referenced bits; else the shadow: nonresident age at its eviction + 1, 0 for none
  std::uint32_t newer = 0;
  std::uint32_t older = 0;
};
static_assert(sizeof(LinuxEntry) == 24);

/// How many accesses ahead of its decision a key's memory is asked for.
constexpr std::size_t read_ahead = 32;

/// What every policy over a state has in common. Policy::decide() decides one access.
template <typename Policy, typename Entry>
class PolicyOverState : public CachePolicy {
 public:
  void access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions, std::vector<std::uint64_t>& evicted) override {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (i + read_ahead < accesses.size()) static_cast<Policy*>(this)->expect(accesses[i + read_ahead].key);
      decisions[i] = static_cast<Policy*>(this)->decide(accesses[i], evicted);
    }
  }
  [[nodiscard]] std::uint64_t items_held() const override { return m_header->items_held; }
  [[nodiscard]] Bytes bytes_held() const override { return m_header->bytes_held; }
  [[nodiscard]] Bytes capacity() const override { return m_header->capacity; }

 protected:
  /// Brings the counters in line with the entries, which a process killed in the middle of a call may have left behind.
  PolicyOverState(CachePolicyHeader& header, std::span<Entry> entries) : m_header(&header), m_entries(entries) {
    header.items_held = 0;
    header.bytes_held = 0;
    for (const Entry& entry : entries) {
      if (entry.bytes_plus_one == 0) continue;
      ++header.items_held;
      header.bytes_held += entry.bytes_plus_one - 1;
    }
  }
  /// Asks for the memory of a key that is looked at soon: on tables larger than the processor's caches, waiting for it is most of a decision's time.
  void expect(std::uint64_t key) const { __builtin_prefetch(&m_entries[key], 1); }
  [[nodiscard]] bool fits(Bytes bytes) const { return bytes <= m_header->capacity - m_header->bytes_held; }
  void count_in(Entry& entry, Bytes bytes) {
    entry.bytes_plus_one = bytes + 1;
    m_header->bytes_held += bytes;
    ++m_header->items_held;
  }
  void count_out(Entry& entry) {
    m_header->bytes_held -= entry.bytes_plus_one - 1;
    --m_header->items_held;
    entry.bytes_plus_one = 0;
  }
  void empty() {
    std::ranges::fill(m_entries, Entry{});
    m_header->bytes_held = 0;
    m_header->items_held = 0;
  }

  CachePolicyHeader* m_header;
  std::span<Entry> m_entries;
};

// The tables have one entry for each of header.key_count keys. The constructors take over what the state holds: entries are believed, counters,
// links, arrays, the bitmap and the log are brought in line with them.
std::unique_ptr<CachePolicy> make_minio_policy(CachePolicyHeader& header, std::span<MinioEntry> entries, std::span<std::uint64_t> bitmap);
std::unique_ptr<CachePolicy> make_lru_policy(CachePolicyHeader& header, std::span<LruEntry> entries, std::span<std::uint32_t> log);
std::unique_ptr<CachePolicy> make_page_model_random_policy(CachePolicyHeader& header, std::span<RandomEntry> entries);
std::unique_ptr<CachePolicy> make_page_model_linux_policy(CachePolicyHeader& header, std::span<LinuxEntry> entries, Bytes counter_bytes);

}  // namespace dsanalyze
