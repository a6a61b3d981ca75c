#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace dsanalyze::transport {

/// First in, first out. Takes memory as it grows and keeps it: none in the steady state. Threads: one.
template <typename Item>
class Ring {
 public:
  [[nodiscard]] bool empty() const { return m_count == 0; }
  [[nodiscard]] std::size_t size() const { return m_count; }
  Item& front() { return m_items[m_first]; }
  [[nodiscard]] const Item& front() const { return m_items[m_first]; }
  Item& operator[](std::size_t position) { return m_items[(m_first + position) % m_items.size()]; }
  void push(Item item) {
    if (m_count == m_items.size()) grow();
    m_items[(m_first + m_count) % m_items.size()] = std::move(item);
    ++m_count;
  }
  Item pop() {
    Item item = std::exchange(m_items[m_first], Item{});
    m_first = (m_first + 1) % m_items.size();
    --m_count;
    return item;
  }

 private:
  void grow() {
    std::vector<Item> larger(m_items.empty() ? 16 : m_items.size() * 2);
    for (std::size_t i = 0; i < m_count; ++i) larger[i] = std::move((*this)[i]);
    m_items = std::move(larger);
    m_first = 0;
  }

  std::vector<Item> m_items;
  std::size_t m_first = 0;
  std::size_t m_count = 0;
};

}  // namespace dsanalyze::transport
