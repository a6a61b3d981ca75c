#include "prepared_store.hpp"

#include <algorithm>
#include <bit>

namespace dsanalyze {

PreparedStore::PreparedStore(std::uint32_t places, StagingPolicy policy) : m_places(places), m_policy(policy) {
  for (std::uint32_t place = places; place-- > 0;) m_free.push_back(place);
}

std::size_t PreparedStore::line_for(JobSet still_to_come) const {
  return m_policy == StagingPolicy::lru ? 0 : static_cast<std::size_t>(std::popcount(still_to_come));
}

void PreparedStore::drop(Entries::iterator entry) {
  m_lines[entry->second.line].erase(entry->second.at);
  m_free.push_back(entry->second.kept.place);
  m_entries.erase(entry);
}

std::optional<PreparedStore::Kept> PreparedStore::take(SampleId sample, JobSet jobs, JobSet needed_by) {
  const auto found = m_entries.find(sample);
  if (found == m_entries.end() || (found->second.had & jobs) != 0) return std::nullopt;
  Entry& entry = found->second;
  entry.had |= jobs;
  const std::size_t line = line_for(needed_by & ~entry.had);
  m_lines[line].splice(m_lines[line].end(), m_lines[entry.line], entry.at);
  entry.line = line;
  return entry.kept;
}

std::optional<std::uint32_t> PreparedStore::add(SampleId sample, std::uint32_t generation, JobSet jobs, JobSet needed_by) {
  if (const auto older = m_entries.find(sample); older != m_entries.end()) drop(older);
  const JobSet still_to_come = needed_by & ~jobs;
  if (m_places == 0 || still_to_come == 0) return std::nullopt;
  const std::size_t line = line_for(still_to_come);
  if (m_free.empty()) {
    const auto first = std::ranges::find_if(m_lines, [](const Line& each) { return !each.empty(); });
    if (first - m_lines.begin() > static_cast<std::ptrdiff_t>(line)) return std::nullopt;
    drop(m_entries.find(first->front()));
  }
  const std::uint32_t place = m_free.back();
  m_free.pop_back();
  m_lines[line].push_back(sample);
  m_entries.emplace(sample, Entry{{place, generation}, jobs, std::prev(m_lines[line].end()), line});
  return place;
}

void PreparedStore::renew(const RemainingSets& sets) {
  for (auto& [sample, entry] : m_entries) {
    const std::size_t line = line_for(sets.needed_by(sample) & ~entry.had);
    if (line == entry.line) continue;
    m_lines[line].splice(m_lines[line].end(), m_lines[entry.line], entry.at);
    entry.line = line;
  }
}

void PreparedStore::forget(std::uint32_t job, const RemainingSets& sets) {
  for (auto& [sample, entry] : m_entries) entry.had &= ~set_of(job);
  renew(sets);
}

}  // namespace dsanalyze
