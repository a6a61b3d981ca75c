#pragma once

#include <cstdint>
#include <span>

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
  [[nodiscard]] bool is_newest(std::uint64_t key) const { return m_ends->newest == link_of(key); }

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

}  // namespace dsanalyze
