#include <algorithm>

#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

/// Least recently used without a list: each use is written to the end of a log, and the item's entry says where. What stands in the log anywhere else
/// is outdated. The least recently used item is the first of the log that is not. A list's links lie all over the memory and each waits for the one
/// before it; the log is read and written in order, and the entries that it names can be asked for ahead.
class LruPolicy final : public PolicyOverState<LruPolicy, LruEntry> {
 public:
  LruPolicy(CachePolicyHeader& header, std::span<LruEntry> entries, std::span<std::uint32_t> log) : PolicyOverState(header, entries), m_log(log) {
    if (log_is_whole()) return;
    empty_log();
    for (std::uint64_t key = 0; key < entries.size(); ++key) {
      if (entries[key].bytes_plus_one != 0) log_use(key);
    }
  }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    LruEntry& entry = m_entries[item.key];
    if (entry.bytes_plus_one != 0) {
      log_use(item.key);
      return CacheDecision::hit;
    }
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (!fits(item.bytes)) {
      const std::uint64_t key = find_oldest();
      count_out(m_entries[key]);  // its use is outdated by that
      drop_first();
      evicted.push_back(key);
    }
    log_use(item.key);
    count_in(entry, item.bytes);
    return CacheDecision::admit;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) count_out(m_entries[key]);
  }

  void clear() override {
    empty();
    empty_log();
  }

 private:
  [[nodiscard]] std::uint64_t slot_at(std::uint64_t place) const {
    const std::uint64_t slot = m_header->log_begin + place;
    return slot < m_log.size() ? slot : slot - m_log.size();
  }
  [[nodiscard]] bool is_last_use(std::uint64_t slot) const {
    const LruEntry& entry = m_entries[m_log[slot]];
    return entry.bytes_plus_one != 0 && entry.slot == slot;
  }
  /// What is going to be looked at when the log is read from its begin on. Beyond its end that is some other key, and harmless.
  void expect_slot(std::uint64_t place) const { __builtin_prefetch(m_entries.data() + m_log[slot_at(place)], 1); }

  /// The log says so before the entry does: a process killed in between leaves an outdated slot.
  void log_use(std::uint64_t key) {
    if (m_header->log_used == m_log.size()) drop_outdated();
    const std::uint64_t slot = slot_at(m_header->log_used);
    m_log[slot] = static_cast<std::uint32_t>(key);
    ++m_header->log_used;
    m_entries[key].slot = slot;
  }

  /// The least recently used key; its use is the log's first then. Requires that something is held.
  std::uint64_t find_oldest() {
    while (!is_last_use(m_header->log_begin)) drop_first();
    return m_log[m_header->log_begin];
  }

  void drop_first() {
    expect_slot(std::min<std::uint64_t>(read_ahead, m_log.size() - 1));
    m_header->log_begin = slot_at(1);
    --m_header->log_used;
  }

  /// Makes room in a full log, of which at least half is outdated. Where all items are used in rotation, that is its first half; if it is not, the
  /// uses that count are moved together, in their order.
  void drop_outdated() {
    while (m_header->log_used > 0 && !is_last_use(m_header->log_begin)) drop_first();
    if (m_header->log_used <= m_log.size() / 4 * 3) return;
    std::uint64_t kept = 0;
    for (std::uint64_t place = 0; place < m_header->log_used; ++place) {
      expect_slot(std::min<std::uint64_t>(place + read_ahead, m_log.size() - 1));
      const std::uint64_t from = slot_at(place);
      if (!is_last_use(from)) continue;
      const std::uint64_t to = slot_at(kept++);
      m_log[to] = m_log[from];
      m_entries[m_log[to]].slot = to;
    }
    m_header->log_used = kept;
  }

  void empty_log() {
    m_header->log_begin = 0;
    m_header->log_used = 0;
  }

  /// Whether every key that is held has its last use in the log.
  [[nodiscard]] bool log_is_whole() const {
    if (m_header->log_used > m_log.size() || (m_header->log_begin != 0 && m_header->log_begin >= m_log.size())) return false;
    const auto in_log = [this](std::uint64_t slot) {
      return slot < m_log.size() && (slot >= m_header->log_begin ? slot : slot + m_log.size()) - m_header->log_begin < m_header->log_used;
    };
    for (std::uint64_t key = 0; key < m_entries.size(); ++key) {
      const LruEntry& entry = m_entries[key];
      if (entry.bytes_plus_one != 0 && (!in_log(entry.slot) || m_log[entry.slot] != key)) return false;
    }
    // What is outdated may be anything but a key that there is not.
    for (std::uint64_t place = 0; place < m_header->log_used; ++place) {
      if (m_log[slot_at(place)] >= m_entries.size()) return false;
    }
    return true;
  }

  std::span<std::uint32_t> m_log;
};

}  // namespace

std::unique_ptr<CachePolicy> make_lru_policy(CachePolicyHeader& header, std::span<LruEntry> entries, std::span<std::uint32_t> log) {
  return std::make_unique<LruPolicy>(header, entries, log);
}

}  // namespace dsanalyze
