#include <algorithm>

#include "base/random.hpp"
#include "cache_policy_state.hpp"

namespace dsanalyze {
namespace {

/// The page cache of Linux with its two classic lists (not the multi-generational one), as it treats clean file pages that are read with read(2) and
/// not mapped. Names are the kernel's; "clock" is lruvec->nonresident_age, counted in bytes here.
///
/// - A page that is read for the first time goes to the head of the inactive list and is marked referenced; read again while it is there, it goes to
///   the active list. On the active list a read only marks it: nothing moves (mm/swap.c, folio_mark_accessed).
/// - Reclaim evicts from the tail of the inactive list, referenced or not (mm/vmscan.c, folio_check_references: not mapped, clean), and leaves a
///   shadow entry with the clock's reading. The clock counts evictions and activations (mm/workingset.c, workingset_age_nonresident).
/// - A page that comes back while the clock has moved on by no more than the active list is long was evicted too early: it goes to the active list at
///   once (workingset_refault; anonymous pages play no part here). Shadow entries live as long as the policy; the kernel drops the oldest when memory
///   is short.
/// - Reclaim works in clusters of SWAP_CLUSTER_MAX pages. It takes from the tail of the active list as well, as many bytes for each byte evicted as
///   the active list is longer than the inactive one, when the inactive list is low, and for one cluster after a refault was activated
///   (prepare_scan_control, get_scan_count). What is taken from the active list goes to the head of the inactive one (shrink_active_list).
/// - The inactive list is low when inactive x ratio < active, with ratio = sqrt(10 x size in GiB), at least 1 (inactive_is_low). Both lists fill the
///   cache in the long run, so the capacity stands for the size and the ratio is a constant of the policy.
/// - What reclaim knows of the lists' lengths and of refaults is out of date: a cgroup's counters are added up every two seconds, or when
///   somebody reads them (mm/memcontrol.c, mem_cgroup_flush_stats_ratelimited), and inactive_is_low, prepare_scan_control and the refault test read
///   the sums (lruvec_page_state). So refaults cost the active list one cluster a refresh, not one each; and where an epoch takes no longer than a
///   refresh, the active list grows past the inactive one and then collapses, in turns. Here counters are refreshed after so many bytes asked for.
///   On a server, two seconds of its storage are a small part of its cache: an 128th unless another number is given. A cluster is at most a 16th of
///   that, so that datasets scaled down behave alike.
constexpr Bytes most_cluster_bytes = Bytes{32} << 12;
constexpr Bytes refreshes_a_capacity = 128;
constexpr Bytes clusters_a_refresh = 16;

constexpr std::uint64_t is_active = 1;
constexpr std::uint64_t is_referenced = 2;

constexpr std::uint64_t inactive_ratio(Bytes capacity) {
  const std::uint64_t square = 10 * (capacity >> 30);
  std::uint64_t ratio = 1;
  while ((ratio + 1) * (ratio + 1) <= square) ++ratio;
  return ratio;
}
static_assert(inactive_ratio(Bytes{1} << 29) == 1 && inactive_ratio(Bytes{1} << 30) == 3 && inactive_ratio(Bytes{100} << 30) == 31);

class PageModelLinuxPolicy final : public PolicyOverState<PageModelLinuxPolicy, LinuxEntry> {
 public:
  PageModelLinuxPolicy(CachePolicyHeader& header, std::span<LinuxEntry> entries, Bytes counter_bytes)
      : PolicyOverState(header, entries),
        m_inactive(header.list, entries),
        m_active(header.active, entries),
        m_inactive_ratio(inactive_ratio(header.capacity)),
        m_counter_bytes(counter_bytes != 0 ? counter_bytes : header.capacity / refreshes_a_capacity),
        m_cluster_bytes(std::min(most_cluster_bytes, header.capacity / refreshes_a_capacity / clusters_a_refresh)) {
    std::uint64_t active_items = 0;
    header.active_bytes = 0;
    for (LinuxEntry& entry : entries) {
      if (entry.bytes_plus_one != 0) entry.mark &= is_active | is_referenced;
      if (!holds_active(entry)) continue;
      ++active_items;
      header.active_bytes += entry.bytes_plus_one - 1;
    }
    const bool whole = m_active.whole(active_items, holds_active) && m_inactive.whole(header.items_held - active_items, holds_inactive);
    if (!whole) relink();
    if (header.seen_active > header.capacity || header.seen_inactive > header.capacity) refresh_counters();
  }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    m_header->since_refresh += item.bytes;
    if (m_header->since_refresh >= m_counter_bytes) refresh_counters();
    LinuxEntry& entry = m_entries[item.key];
    if (entry.bytes_plus_one != 0) {
      touch(item.key);
      return CacheDecision::hit;
    }
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (!fits(item.bytes)) reclaim(evicted);
    const bool refault = entry.mark != 0 && m_header->nonresident_age - (entry.mark - 1) <= m_header->seen_active;
    count_in(entry, item.bytes);
    if (refault) {
      activate(item.key);
      entry.mark |= is_referenced;
      m_header->refaulted = 1;
    } else {
      entry.mark = is_referenced;
      m_inactive.add_newest(item.key);
    }
    return CacheDecision::admit;
  }

  /// Unlike what reclaim evicts, it leaves no shadow.
  void forget(std::uint64_t key) override {
    LinuxEntry& entry = m_entries[key];
    if (entry.bytes_plus_one == 0) return;
    take_off(key);
    count_out(entry);
    entry.mark = 0;
  }

  void clear() override {
    empty();
    m_inactive.empty_out();
    m_active.empty_out();
    m_header->active_bytes = 0;
    m_header->nonresident_age = 0;
    m_header->reclaimed = 0;
    m_header->deactivation_due = 0;
    m_header->refaulted = 0;
    m_header->deactivates = 0;
    refresh_counters();
  }

 private:
  static bool holds_active(const LinuxEntry& entry) { return entry.bytes_plus_one != 0 && (entry.mark & is_active) != 0; }
  static bool holds_inactive(const LinuxEntry& entry) { return entry.bytes_plus_one != 0 && (entry.mark & is_active) == 0; }
  [[nodiscard]] Bytes inactive_bytes() const { return m_header->bytes_held - m_header->active_bytes; }
  [[nodiscard]] bool inactive_is_low() const { return m_header->seen_inactive * m_inactive_ratio < m_header->seen_active; }

  void refresh_counters() {
    m_header->since_refresh = 0;
    m_header->seen_active = m_header->active_bytes;
    m_header->seen_inactive = inactive_bytes();
    m_header->seen_refault = m_header->refaulted;
    m_header->refaulted = 0;
  }

  void touch(std::uint64_t key) {
    LinuxEntry& entry = m_entries[key];
    if (entry.mark != is_referenced) {
      entry.mark |= is_referenced;
      return;
    }
    m_inactive.take_out(key);
    activate(key);
  }

  void activate(std::uint64_t key) {
    LinuxEntry& entry = m_entries[key];
    entry.mark = is_active;
    m_active.add_newest(key);
    m_header->active_bytes += entry.bytes_plus_one - 1;
    m_header->nonresident_age += entry.bytes_plus_one - 1;
  }

  void take_off(std::uint64_t key) {
    const LinuxEntry& entry = m_entries[key];
    if (!holds_active(entry)) return m_inactive.take_out(key);
    m_active.take_out(key);
    m_header->active_bytes -= entry.bytes_plus_one - 1;
  }

  /// One more item goes. Requires that something is held.
  void reclaim(std::vector<std::uint64_t>& evicted) {
    if (m_header->reclaimed == 0) {
      m_header->deactivates = m_header->seen_refault != 0 || inactive_is_low() ? 1 : 0;
      m_header->seen_refault = 0;
    }
    if (m_inactive.empty()) deactivate();
    const std::uint64_t key = m_inactive.oldest();
    LinuxEntry& entry = m_entries[key];
    const Bytes bytes = entry.bytes_plus_one - 1;
    if (m_header->deactivates != 0) age_active(bytes);
    take_off(key);
    count_out(entry);
    entry.mark = m_header->nonresident_age + 1;
    m_header->nonresident_age += bytes;
    m_header->reclaimed += bytes;
    if (m_header->reclaimed >= m_cluster_bytes) m_header->reclaimed = 0;
    evicted.push_back(key);
  }

  /// The active list's share of reclaim that evicts so many bytes.
  void age_active(Bytes evicted) {
    const double longer = static_cast<double>(m_header->active_bytes) / static_cast<double>(std::max<Bytes>(inactive_bytes(), 1));
    m_header->deactivation_due += static_cast<Bytes>(longer * static_cast<double>(evicted));
    while (!m_active.empty() && m_header->deactivation_due >= m_entries[m_active.oldest()].bytes_plus_one - 1) {
      m_header->deactivation_due -= m_entries[m_active.oldest()].bytes_plus_one - 1;
      deactivate();
    }
    if (m_active.empty()) m_header->deactivation_due = 0;
  }

  /// The active list's oldest; a read that it had there counts as its first on the inactive list.
  void deactivate() {
    const std::uint64_t key = m_active.oldest();
    take_off(key);
    m_entries[key].mark &= ~is_active;
    m_inactive.add_newest(key);
  }

  void relink() {
    m_inactive.empty_out();
    m_active.empty_out();
    for (std::uint64_t key = 0; key < m_entries.size(); ++key) {
      if (holds_active(m_entries[key])) m_active.add_newest(key);
      if (holds_inactive(m_entries[key])) m_inactive.add_newest(key);
    }
  }

  KeyList<LinuxEntry> m_inactive;
  KeyList<LinuxEntry> m_active;
  std::uint64_t m_inactive_ratio;
  Bytes m_counter_bytes;
  Bytes m_cluster_bytes;
};

}  // namespace

std::unique_ptr<CachePolicy> make_page_model_linux_policy(CachePolicyHeader& header, std::span<LinuxEntry> entries, Bytes counter_bytes) {
  return std::make_unique<PageModelLinuxPolicy>(header, entries, counter_bytes);
}

namespace {

constexpr std::uint64_t eviction_seed = 0x72616e646f6d;

/// Held keys stand in a dense array, so that any of them is as likely to go as any other, in O(1).
class PageModelRandomPolicy final : public PolicyOverState<PageModelRandomPolicy, RandomEntry> {
 public:
  PageModelRandomPolicy(CachePolicyHeader& header, std::span<RandomEntry> entries) : PolicyOverState(header, entries) {
    if (array_is_whole()) return;
    std::uint64_t place = 0;
    for (std::uint64_t key = 0; key < entries.size(); ++key) {
      if (entries[key].bytes_plus_one != 0) put(key, place++);
    }
  }

  CacheDecision decide(const CacheAccess& item, std::vector<std::uint64_t>& evicted) {
    if (m_entries[item.key].bytes_plus_one != 0) return CacheDecision::hit;
    if (item.bytes > m_header->capacity) return CacheDecision::bypass;
    while (!fits(item.bytes)) {
      const std::uint64_t place = RandomStream(mix(eviction_seed, m_header->draws++)).below(m_header->items_held);
      evicted.push_back(m_entries[place].held_key);
      drop(m_entries[place].held_key);
    }
    put(item.key, m_header->items_held);
    count_in(m_entries[item.key], item.bytes);
    return CacheDecision::admit;
  }

  void forget(std::uint64_t key) override {
    if (m_entries[key].bytes_plus_one != 0) drop(key);
  }

  void clear() override { empty(); }

 private:
  void put(std::uint64_t key, std::uint64_t place) {
    m_entries[place].held_key = static_cast<std::uint32_t>(key);
    m_entries[key].place = static_cast<std::uint32_t>(place);
  }

  void drop(std::uint64_t key) {
    put(m_entries[m_header->items_held - 1].held_key, m_entries[key].place);  // the last of the array takes the place that becomes free
    count_out(m_entries[key]);
  }

  [[nodiscard]] bool array_is_whole() const {
    for (std::uint64_t place = 0; place < m_header->items_held; ++place) {
      const std::uint64_t key = m_entries[place].held_key;
      if (key >= m_entries.size() || m_entries[key].bytes_plus_one == 0 || m_entries[key].place != place) return false;
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<CachePolicy> make_page_model_random_policy(CachePolicyHeader& header, std::span<RandomEntry> entries) {
  return std::make_unique<PageModelRandomPolicy>(header, entries);
}

}  // namespace dsanalyze
