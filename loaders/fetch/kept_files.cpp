#include "kept_files.hpp"

#include <sys/resource.h>

#include <algorithm>

#include "kernel_reads.hpp"

namespace dsanalyze {

std::size_t KeptFiles::most_files() {
  constexpr std::size_t most = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<std::size_t>(most, std::max<std::size_t>(limit.rlim_cur / 4, 1));
}

std::size_t KeptFiles::find(std::uint32_t file) const {
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    if (m_entries[i].file == file) return i;
  }
  return nowhere;
}

std::size_t KeptFiles::assign(std::uint32_t file) {
  std::size_t best = nowhere;
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    if (m_entries[i].pins > 0) continue;
    if (m_entries[i].file == none) {
      best = i;
      break;
    }
    if (best == nowhere || m_entries[i].last_use < m_entries[best].last_use) best = i;
  }
  if (best != nowhere) m_entries[best] = {file, 0, ++m_uses};
  return best;
}

void KeptFiles::pin(std::size_t entry) {
  ++m_entries[entry].pins;
  m_entries[entry].last_use = ++m_uses;
}

DropMark::Stretch DropMark::passed(std::uint64_t offset, std::uint64_t span) {
  constexpr std::uint64_t step = std::uint64_t{8} << 20;
  constexpr std::uint64_t largest_folio = std::uint64_t{2} << 20;  // the kernel drops whole folios only: one may lie across the last stretch's end
  if (offset + span < m_dropped) m_dropped = offset / page_bytes * page_bytes;  // the file is read again
  if (offset < m_dropped + span + step) return {};
  const std::uint64_t begin = m_dropped - std::min(m_dropped, largest_folio);
  m_dropped = (offset - span) / page_bytes * page_bytes;
  return {begin, m_dropped - begin};
}

}  // namespace dsanalyze
