#include "memory_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "base/text/text.hpp"

namespace dsanalyze {

std::uint64_t MemoryWatch::kills() const {
  std::ifstream counters(m_proc / "vmstat");
  std::string name;
  for (std::uint64_t count = 0; counters >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

void MemoryWatch::look(const ProcessTree& tree) {
  const std::map<int, Bytes> uses = tree.memory();
  Bytes all = 0;
  for (const auto& [process, bytes] : uses) {
    const auto [use, is_new] = m_uses.try_emplace(process, Use{"", bytes, bytes});
    use->second.last = bytes;
    all += bytes;
  }
  for (const TreeProcess& process : tree.living())
    if (const auto use = m_uses.find(process.pid); use != m_uses.end()) use->second.command = process.command;
  m_peak = std::max(m_peak, all);
}

std::string MemoryWatch::kills_text() const {
  constexpr std::size_t most_named = 3;
  const std::uint64_t ended = kills() - m_kills;
  if (ended == 0) return "";
  std::string text = fmt::format(
      "; meanwhile the kernel ended {} process{} of this machine, as memory was short (out of memory): those of the training used {} "
      "at the most",
      ended, ended == 1 ? "" : "es", format_bytes(m_peak));
  std::vector<std::pair<int, Use>> grown(m_uses.begin(), m_uses.end());
  std::ranges::sort(grown, [](const auto& one, const auto& other) {
    return one.second.last - std::min(one.second.last, one.second.first) > other.second.last - std::min(other.second.last, other.second.first);
  });
  grown.resize(std::min(grown.size(), most_named));
  for (const auto& [process, use] : grown)
    if (use.last > 2 * use.first)
      text += fmt::format(", PID {} ({}) grew from {} to {}", process, printable(use.command), format_bytes(use.first), format_bytes(use.last));
  return text;
}

}  // namespace dsanalyze
