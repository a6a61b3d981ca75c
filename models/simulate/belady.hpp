#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/trace/access_trace.hpp"

namespace dsanalyze {

/// A set of positions below a size, with the greatest of them: a bitmap under bitmaps that say which of its words are not empty, 64 to 1. An eighth
/// of a byte a position, a few words a call, whatever is in it.
class PositionSet {
 public:
  explicit PositionSet(std::uint64_t size);

  [[nodiscard]] bool contains(std::uint64_t position) const { return (m_levels[0][position / 64] >> (position % 64) & 1) != 0; }
  void insert(std::uint64_t position);
  /// Asks for the memory of a position that is inserted soon.
  void expect(std::uint64_t position) const { __builtin_prefetch(&m_levels[0][position / 64], 1); }
  /// Requires that it is in it.
  void erase(std::uint64_t position);
  /// Requires that the set is not empty.
  [[nodiscard]] std::uint64_t greatest() const;

 private:
  std::vector<std::vector<std::uint64_t>> m_levels;  // the lowest first; the last is one word
};

/// A whole trace, as far as Belady's rule must know it: whose turn it is at each position, and where that key comes next.
class KnownFuture {
 public:
  static constexpr std::uint32_t never = UINT32_MAX;

  /// Reads the source from its first access to its end. Throws Error when it has more than `most` accesses.
  KnownFuture(AccessSource& source, std::uint64_t most);

  [[nodiscard]] std::uint64_t size() const { return m_keys.size(); }
  [[nodiscard]] std::uint32_t key_at(std::uint64_t position) const { return m_keys[position]; }
  [[nodiscard]] std::uint32_t next_use(std::uint64_t position) const { return m_next_use[position]; }
  /// As its first access said.
  [[nodiscard]] Bytes bytes_of(std::uint32_t key) const { return m_bytes[key]; }
  /// Asks for the memory of a key's bytes that are looked at soon.
  void expect_bytes(std::uint32_t key) const { __builtin_prefetch(&m_bytes[key]); }

 private:
  void look_back(std::uint64_t key_count);

  std::vector<std::uint32_t> m_keys;
  std::vector<std::uint32_t> m_next_use;
  std::vector<Bytes> m_bytes;
};

/// Belady's rule over a trace that is replayed from its first access on.
class Belady {
 public:
  Belady(std::shared_ptr<const KnownFuture> future, Bytes capacity) : m_future(std::move(future)), m_capacity(capacity), m_held(m_future->size()) {}

  void access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions);
  [[nodiscard]] std::uint64_t items_held() const { return m_items_held; }
  [[nodiscard]] Bytes bytes_held() const { return m_bytes_held; }

 private:
  CacheDecision decide();
  void look_ahead() const;
  void drop(std::uint64_t position);

  std::shared_ptr<const KnownFuture> m_future;
  Bytes m_capacity;
  PositionSet m_held;  // where what is held comes next: no two at one position
  Bytes m_bytes_held = 0;
  std::uint64_t m_items_held = 0;
  std::uint64_t m_position = 0;
};

}  // namespace dsanalyze
