#include "remaining_sets.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t no_cell = std::numeric_limits<std::uint32_t>::max();

}  // namespace

RemainingSets::RemainingSets(std::uint32_t samples) : m_cell_of(samples), m_place_of(samples), m_remaining(most_dependent_jobs) {
  if (samples == 0) return;
  const std::uint32_t all = cell_for(0);
  for (SampleId sample = 0; sample < samples; ++sample) append(sample, all);
}

RemainingSets::RemainingSets(std::uint32_t samples, std::span<const Cell> cells)
    : m_cell_of(samples, no_cell), m_place_of(samples), m_remaining(most_dependent_jobs) {
  for (const Cell& cell : cells) {
    if (cell.samples.empty()) continue;
    if (m_cell_number.contains(cell.jobs)) throw UsageError("the samples that jobs still need name one set of jobs twice");
    const std::uint32_t number = cell_for(cell.jobs);
    for (const SampleId sample : cell.samples) {
      if (sample >= samples) throw UsageError(fmt::format("the samples that jobs still need name sample {} of {}", sample, samples));
      if (m_cell_of[sample] != no_cell) throw UsageError(fmt::format("the samples that jobs still need name sample {} twice", sample));
      append(sample, number);
    }
    for (JobSet left = cell.jobs; left != 0; left &= left - 1) m_remaining[static_cast<std::size_t>(std::countr_zero(left))] += cell.samples.size();
  }
  for (SampleId sample = 0; sample < samples; ++sample)
    if (m_cell_of[sample] == no_cell) append(sample, cell_for(0));
}

std::uint32_t RemainingSets::cell_for(JobSet jobs) {
  const auto [at, is_new] = m_cell_number.try_emplace(jobs, 0);
  if (!is_new) return at->second;
  if (m_unused.empty()) {
    m_unused.push_back(static_cast<std::uint32_t>(m_names.size()));
    m_names.push_back(0);
    m_members.emplace_back();
  }
  at->second = m_unused.back();
  m_unused.pop_back();
  m_names[at->second] = jobs;
  return at->second;
}

void RemainingSets::append(SampleId sample, std::uint32_t cell) {
  m_cell_of[sample] = cell;
  m_place_of[sample] = static_cast<std::uint32_t>(m_members[cell].size());
  m_members[cell].push_back(sample);
}

void RemainingSets::move(SampleId sample, std::uint32_t cell) {
  const std::uint32_t from = m_cell_of[sample];
  std::vector<SampleId>& left = m_members[from];
  const std::uint32_t place = m_place_of[sample];
  left[place] = left.back();
  m_place_of[left[place]] = place;
  left.pop_back();
  append(sample, cell);
  if (left.empty()) drop(from);
}

void RemainingSets::rename(std::uint32_t cell, JobSet jobs) {
  m_cell_number.erase(m_names[cell]);
  m_names[cell] = jobs;
  m_cell_number.emplace(jobs, cell);
}

void RemainingSets::drop(std::uint32_t cell) {
  m_cell_number.erase(m_names[cell]);
  m_names[cell] = 0;
  m_members[cell] = {};
  m_unused.push_back(cell);
}

void RemainingSets::add_all(std::uint32_t job) {
  // No cell has the job yet, so each keeps its samples and gets another name.
  for (std::uint32_t cell = 0; cell < m_names.size(); ++cell)
    if (!m_members[cell].empty()) rename(cell, m_names[cell] | set_of(job));
  m_remaining[job] = samples();
}

void RemainingSets::add(std::uint32_t job, std::span<const SampleId> samples) {
  std::vector<bool> added(this->samples());
  for (const SampleId sample : samples) added[sample] = true;
  // Each cell divides into what is added and what is not: in its own order, which is faster than that of the samples.
  const std::size_t before = m_names.size();
  for (std::uint32_t cell = 0; cell < before; ++cell) {
    if (m_members[cell].empty() || (m_names[cell] & set_of(job)) != 0) continue;
    const std::vector<SampleId> whole = std::exchange(m_members[cell], {});
    std::uint32_t other = no_cell;
    for (const SampleId sample : whole) {
      if (added[sample] && other == no_cell) other = cell_for(m_names[cell] | set_of(job));
      append(sample, added[sample] ? other : cell);
    }
    if (m_members[cell].empty()) drop(cell);
  }
  m_remaining[job] = samples.size();
}

void RemainingSets::remove(std::uint32_t job) {
  for (std::uint32_t cell = 0; cell < m_names.size(); ++cell) {
    if ((m_names[cell] & set_of(job)) == 0) continue;
    const JobSet others = m_names[cell] & ~set_of(job);
    const auto same = m_cell_number.find(others);
    if (same == m_cell_number.end()) {
      rename(cell, others);
      continue;
    }
    // The smaller of the two cells moves into the other, which has the name then.
    const std::uint32_t other = same->second;
    const bool takes = m_members[cell].size() >= m_members[other].size();
    const std::vector<SampleId> moved = m_members[takes ? other : cell];
    for (const SampleId sample : moved) move(sample, takes ? cell : other);
    if (takes) rename(cell, others);
  }
  m_remaining[job] = 0;
}

void RemainingSets::take(SampleId sample, JobSet jobs) {
  move(sample, cell_for(needed_by(sample) & ~jobs));
  for (JobSet left = jobs; left != 0; left &= left - 1) --m_remaining[static_cast<std::size_t>(std::countr_zero(left))];
}

}  // namespace dsanalyze
