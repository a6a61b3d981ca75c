#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/text/units.hpp"

namespace dsanalyze {

/// One access, in the order of the sampler. The key is opaque: an item here, a 4 KiB page for page models.
struct CacheAccess {
  std::uint64_t key = 0;
  Bytes bytes = 0;
  std::uint32_t job = 0;
  float priority = 0;  ///< for cost-aware admission; 0 otherwise
};

enum class CacheDecision : std::uint8_t {
  hit,    ///< held
  admit,  ///< not held; fetch it and keep it: its bytes are accounted for from now on
  bypass  ///< not held; fetch it and drop it
};

enum class CacheKind { none, page, minio, lru, page_model_random, page_model_linux };
constexpr std::array<const char*, 6> names_of(CacheKind /*type*/) {
  return {"none", "page", "minio", "lru", "page-model:random", "page-model:linux"};
}
CacheKind parse_cache_kind(const std::string& text);
std::string cache_kind_name(CacheKind kind);
/// The loader holds samples itself, up to a size of its own: every kind but none and page.
constexpr bool holds_samples(CacheKind kind) { return kind != CacheKind::none && kind != CacheKind::page; }

/// What MinIO admits: whatever comes first and fits, or only samples whose priority (storage seconds saved a byte held) reaches a threshold.
enum class Admission { first, cost_aware };
constexpr std::array<const char*, 2> names_of(Admission /*type*/) { return {"first", "cost-aware"}; }

/// What a cache decides, apart from how it stores: the real cache and the simulator call the same code, so one trace gives both the same hits.
/// State lies in memory that the caller gives (relocatable: no pointers in it), sized by required_bytes().
/// Threads: one caller at a time. No allocation in access() beyond `evicted`'s capacity.
class CachePolicy {
 public:
  virtual ~CachePolicy() = default;
  /// Decides a group of accesses in order. Keys to drop first are appended to `evicted` (before the admission that needs their room).
  /// Requires decisions.size() == accesses.size(), every key < key_count given at construction.
  virtual void access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions, std::vector<std::uint64_t>& evicted) = 0;
  /// An admitted item could not be fetched or stored: its bytes are free again.
  virtual void forget(std::uint64_t key) = 0;
  /// Everything out; counters of held items and bytes are 0.
  virtual void clear() = 0;
  [[nodiscard]] virtual std::uint64_t items_held() const = 0;
  [[nodiscard]] virtual Bytes bytes_held() const = 0;
  [[nodiscard]] virtual Bytes capacity() const = 0;
};

/// Bytes of state that make_cache_policy needs for `key_count` keys.
std::size_t cache_policy_state_bytes(CacheKind kind, std::uint64_t key_count);
/// MinIO: admits what fits until full, never replaces [CoorDL, section 4.1]. A smaller item may still fit after a larger one did not. It admits only
/// accesses whose priority is at least `least_priority`; at 0, whatever comes first. A priority that is negative or no number counts as 0.
/// LRU: replaces the least recently used.
/// page_model_random: replaces items drawn uniformly from all held, always the same ones in the same trace. Of items of one size, with the fraction c
/// held and the share m missed: in sequential order 1 - m = exp(-m/c); in a new uniform order each epoch m = c ln(c + (1 - c) exp(1/c)).
/// page_model_linux: the page cache of Linux, classic lists: inactive and active, second touch, refault distance (its source names the kernel's
/// functions). The kernel reclaims by counters that it adds up every two seconds, the model every `counter_bytes` asked for; 0: an 128th of the
/// capacity, for epochs that take much longer than two seconds. What is taken over keeps its old counters, so give the same number again.
/// Both page models are for emulated storage, and admit every item that is not larger than the whole cache.
/// Only MinIO looks at priorities.
/// `state` must be zeroed before its first use, 64-byte aligned and outlive the policy.
/// A state that a policy of the same kind, capacity, key_count and least_priority was made over, perhaps by another process and at another address,
/// is taken over with all that it holds; entries are believed, counters and links that a killed process left half-written are repaired. Making a
/// policy counts as a call. Throws Error for a state too small, misaligned, or in use by another cache, and for a least_priority below 0 or no
/// number. none and page hold nothing: every access is a bypass (the page cache is the kernel's).
std::unique_ptr<CachePolicy> make_cache_policy(CacheKind kind, Bytes capacity, std::uint64_t key_count, std::span<std::byte> state,
                                               float least_priority = 0, Bytes counter_bytes = 0);

}  // namespace dsanalyze
