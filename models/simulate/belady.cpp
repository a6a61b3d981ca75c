#include "belady.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t bit_of(std::uint64_t position) { return std::uint64_t{1} << (position % 64); }
constexpr std::uint64_t highest_bit(std::uint64_t word) { return 63 - static_cast<std::uint64_t>(std::countl_zero(word)); }
constexpr std::uint64_t keys_ahead = 32;

}  // namespace

PositionSet::PositionSet(std::uint64_t size) {
  std::uint64_t words = size;
  do {
    words = std::max<std::uint64_t>((words + 63) / 64, 1);
    m_levels.emplace_back(words);
  } while (words > 1);
}

void PositionSet::insert(std::uint64_t position) {
  for (auto& level : m_levels) {
    std::uint64_t& word = level[position / 64];
    const bool was_empty = word == 0;
    word |= bit_of(position);
    if (!was_empty) return;
    position /= 64;
  }
}

void PositionSet::erase(std::uint64_t position) {
  for (auto& level : m_levels) {
    std::uint64_t& word = level[position / 64];
    word &= ~bit_of(position);
    if (word != 0) return;
    position /= 64;
  }
}

std::uint64_t PositionSet::greatest() const {
  std::uint64_t position = 0;
  for (std::size_t level = m_levels.size(); level-- > 0;) position = position * 64 + highest_bit(m_levels[level][position]);
  return position;
}

KnownFuture::KnownFuture(AccessSource& source, std::uint64_t most) : m_bytes(source.key_count()) {
  most = std::min<std::uint64_t>(most, never);
  std::vector<bool> seen(source.key_count());
  source.rewind();
  AccessBlock block;
  while (source.next(block)) {
    if (block.accesses.size() > most - m_keys.size())
      throw Error(
          fmt::format("Belady's optimum must hold the whole trace in memory, and this one has more than {} accesses: leave it out, or replay fewer "
                      "epochs, jobs or samples",
                      most));
    for (const CacheAccess& access : block.accesses) {
      m_keys.push_back(static_cast<std::uint32_t>(access.key));
      if (seen[access.key]) continue;
      seen[access.key] = true;
      m_bytes[access.key] = access.bytes;
    }
  }
  look_back(source.key_count());
}

void KnownFuture::look_back(std::uint64_t key_count) {
  m_next_use.resize(m_keys.size());
  std::vector<std::uint32_t> next(key_count, never);
  for (std::uint64_t position = m_keys.size(); position-- > 0;) {
    if (position >= keys_ahead) __builtin_prefetch(&next[m_keys[position - keys_ahead]], 1);
    std::uint32_t& of_key = next[m_keys[position]];
    m_next_use[position] = of_key;
    of_key = static_cast<std::uint32_t>(position);
  }
}

void Belady::access(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions) {
  for (std::size_t i = 0; i < accesses.size(); ++i, ++m_position) {
    look_ahead();
    decisions[i] = decide();
  }
}

void Belady::look_ahead() const {
  const std::uint64_t position = m_position + keys_ahead;
  if (position >= m_future->size()) return;
  m_future->expect_bytes(m_future->key_at(position));
  if (m_future->next_use(position) != KnownFuture::never) m_held.expect(m_future->next_use(position));
}

// An item that never comes again need not be kept; of any other, the position at which it does says whose it is.
CacheDecision Belady::decide() {
  const std::uint32_t key = m_future->key_at(m_position);
  const std::uint32_t next = m_future->next_use(m_position);
  const bool hit = m_held.contains(m_position);
  if (hit) drop(m_position);
  if (next == KnownFuture::never || m_future->bytes_of(key) > m_capacity) return hit ? CacheDecision::hit : CacheDecision::bypass;
  m_held.insert(next);
  ++m_items_held;
  m_bytes_held += m_future->bytes_of(key);
  while (m_bytes_held > m_capacity) drop(m_held.greatest());
  if (hit) return CacheDecision::hit;
  return m_held.contains(next) ? CacheDecision::admit : CacheDecision::bypass;
}

void Belady::drop(std::uint64_t position) {
  m_held.erase(position);
  --m_items_held;
  m_bytes_held -= m_future->bytes_of(m_future->key_at(position));
}

}  // namespace dsanalyze
