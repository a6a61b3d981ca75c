#include "cache_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/json_reader.hpp"
#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

class NoCachePolicy final : public CachePolicy {
 public:
  void access(std::span<const CacheAccess> /*accesses*/, std::span<CacheDecision> decisions, std::vector<std::uint64_t>& /*evicted*/) override {
    std::fill(decisions.begin(), decisions.end(), CacheDecision::bypass);
  }
  void forget(std::uint64_t /*key*/) override {}
  void clear() override {}
  [[nodiscard]] std::uint64_t items_held() const override { return 0; }
  [[nodiscard]] Bytes bytes_held() const override { return 0; }
  [[nodiscard]] Bytes capacity() const override { return 0; }
};

bool holds_nothing(CacheKind kind) { return kind == CacheKind::none || kind == CacheKind::page; }

std::size_t table_bytes(CacheKind kind, std::uint64_t key_count) {
  const auto keys = static_cast<std::size_t>(key_count);
  switch (kind) {
    case CacheKind::minio:
      return keys * sizeof(MinioEntry) + minio_bitmap_words(key_count) * sizeof(std::uint64_t);
    case CacheKind::lru:
      return keys * sizeof(LruEntry) + lru_log_slots(key_count) * sizeof(std::uint32_t);
    case CacheKind::page_model_random:
      return keys * sizeof(RandomEntry);
    case CacheKind::page_model_linux:
      return keys * sizeof(LinuxEntry);
    default:
      return 0;
  }
}

// A fresh state is made this policy's; one that is already in use must be of the same kind, size, capacity and least priority.
CachePolicyHeader& open_state(CacheKind kind, Bytes capacity, std::uint64_t key_count, std::span<std::byte> state, float least_priority) {
  // Links between keys are 32-bit, 0 for none.
  if (key_count >= std::numeric_limits<std::uint32_t>::max())
    throw Error(fmt::format("a cache of {} keys: more than the 2^32 - 2 that fit", key_count));
  const std::size_t needed = cache_policy_state_bytes(kind, key_count);
  if (state.size() < needed)
    throw Error(fmt::format("the cache's state needs {} bytes for {} keys, but {} are given", needed, key_count, state.size()));
  if (reinterpret_cast<std::uintptr_t>(state.data()) % 64 != 0) throw Error("the cache's state is not aligned to 64 bytes");
  auto& header = *reinterpret_cast<CachePolicyHeader*>(state.data());
  const auto kind_number = static_cast<std::uint64_t>(kind);
  if (header.initialised == 0) {
    header = {};
    header.kind = kind_number;
    header.key_count = key_count;
    header.capacity = capacity;
    header.least_priority = least_priority;
    header.initialised = cache_policy_mark;
  } else if (header.initialised != cache_policy_mark) {
    throw Error("the cache's state holds something else: it must be zeroed before its first use");
  } else if (header.kind != kind_number || header.key_count != key_count || header.capacity != capacity) {
    throw Error(fmt::format("the cache's state belongs to another cache ({} keys, {} bytes), not to this one ({} keys, {} bytes)", header.key_count,
                            header.capacity, key_count, capacity));
  } else if (header.least_priority != least_priority) {
    throw Error(
        fmt::format("the cache's state belongs to a cache that admits from priority {} on, not from {}", header.least_priority, least_priority));
  }
  return header;
}

}  // namespace

CacheKind parse_cache_kind(const std::string& text) {
  if (const std::optional<CacheKind> kind = enum_named<CacheKind>(text)) return *kind;
  const std::optional<std::string> near = nearest_name(text, {enum_names<CacheKind>.begin(), enum_names<CacheKind>.end()});
  throw UsageError(fmt::format("--cache: found '{}', expected none, page, minio, lru, page-model:random or page-model:linux{}", text,
                               near ? fmt::format("; did you mean {}?", *near) : ""));
}

std::string cache_kind_name(CacheKind kind) { return enum_name(kind); }

std::size_t cache_policy_state_bytes(CacheKind kind, std::uint64_t key_count) {
  if (holds_nothing(kind)) return 0;
  return sizeof(CachePolicyHeader) + table_bytes(kind, key_count);
}

std::unique_ptr<CachePolicy> make_cache_policy(CacheKind kind, Bytes capacity, std::uint64_t key_count, std::span<std::byte> state,
                                               float least_priority, Bytes counter_bytes) {
  if (!(least_priority >= 0)) throw Error(fmt::format("the least priority that a cache admits must be 0 or more, not {}", least_priority));
  if (holds_nothing(kind)) return std::make_unique<NoCachePolicy>();
  CachePolicyHeader& header = open_state(kind, capacity, key_count, state, least_priority);
  std::byte* const entries = state.data() + sizeof(CachePolicyHeader);
  const auto count = static_cast<std::size_t>(key_count);
  switch (kind) {
    case CacheKind::lru: {
      auto* const log = reinterpret_cast<std::uint32_t*>(entries + count * sizeof(LruEntry));
      return make_lru_policy(header, {reinterpret_cast<LruEntry*>(entries), count}, {log, static_cast<std::size_t>(lru_log_slots(key_count))});
    }
    case CacheKind::page_model_random:
      return make_page_model_random_policy(header, {reinterpret_cast<RandomEntry*>(entries), count});
    case CacheKind::page_model_linux:
      return make_page_model_linux_policy(header, {reinterpret_cast<LinuxEntry*>(entries), count}, counter_bytes);
    default: {
      auto* const bitmap = reinterpret_cast<std::uint64_t*>(entries + count * sizeof(MinioEntry));
      return make_minio_policy(header, {reinterpret_cast<MinioEntry*>(entries), count},
                               {bitmap, static_cast<std::size_t>(minio_bitmap_words(key_count))});
    }
  }
}

}  // namespace dsanalyze
