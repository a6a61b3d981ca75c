#include "dependent_sampler.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace dsanalyze {

DependentSampler::DependentSampler(const State& state) : m_sets(state.samples, state.cells), m_random(state.random) {}

DependentSampler::State DependentSampler::state() const {
  State state{m_sets.samples(), m_random.state(), {}};
  for (std::size_t cell = 0; cell < m_sets.cells().size(); ++cell) {
    const std::span<const SampleId> samples = m_sets.samples_in(cell);
    if (m_sets.cells()[cell] != 0) state.cells.push_back({m_sets.cells()[cell], {samples.begin(), samples.end()}});
  }
  return state;
}

void DependentSampler::sort_jobs(JobSet asking) {
  m_jobs.clear();
  for (JobSet left = asking; left != 0; left &= left - 1) m_jobs.push_back(static_cast<std::uint32_t>(std::countr_zero(left)));
  std::ranges::stable_sort(m_jobs, {}, [this](std::uint32_t job) { return m_sets.remaining(job); });
  m_suffix.assign(m_jobs.size(), 0);
  JobSet suffix = 0;
  for (std::size_t s = m_jobs.size(); s-- > 0;) m_suffix[s] = suffix |= set_of(m_jobs[s]);
}

void DependentSampler::count_levels() {
  m_candidates.clear();
  m_shared.assign(m_jobs.size(), 0);
  const std::span<const JobSet> cells = m_sets.cells();
  for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
    if ((cells[cell] & m_suffix.back()) == 0) continue;
    std::size_t level = m_jobs.size() - 1;
    while (level > 0 && (cells[cell] & set_of(m_jobs[level - 1])) != 0) --level;
    m_candidates.push_back({level, cell});
    m_shared[level] += m_sets.samples_in(cell).size();
  }
  for (std::size_t s = 1; s < m_shared.size(); ++s) m_shared[s] += m_shared[s - 1];
}

/// A sample that all jobs from `up_to` on need, and not all from `above` - 1 on.
SampleId DependentSampler::shared_sample(std::size_t above, std::size_t up_to, std::uint64_t among) {
  std::uint64_t place = below(among);
  for (const auto& [level, cell] : m_candidates) {
    if (level < above || level > up_to) continue;
    const std::span<const SampleId> samples = m_sets.samples_in(cell);
    if (place < samples.size()) return samples[place];
    place -= samples.size();
  }
  throw std::logic_error("the cells of a round hold fewer samples than were counted");
}

/// A sample that the job needs, and not all that follow it.
SampleId DependentSampler::lone_sample(std::size_t job, std::uint64_t among) {
  std::uint64_t place = below(among);
  const std::span<const JobSet> cells = m_sets.cells();
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if ((cells[cell] & set_of(m_jobs[job])) == 0 || (cells[cell] & m_suffix[job]) == m_suffix[job]) continue;
    const std::span<const SampleId> samples = m_sets.samples_in(cell);
    if (place < samples.size()) return samples[place];
    place -= samples.size();
  }
  throw std::logic_error("the cells of a round hold fewer samples than were counted");
}

/// The jobs from `first` up to `end` get the sample. Another lone draw may have met the same one.
void DependentSampler::give(SampleId sample, std::size_t first, std::size_t end) {
  JobSet jobs = 0;
  for (std::size_t job = first; job < end; ++job) jobs |= set_of(m_jobs[job]);
  const auto same = std::ranges::find(m_draws, sample, &Draw::sample);
  if (same != m_draws.end()) {
    same->jobs |= jobs;
  } else {
    m_draws.push_back({sample, jobs});
  }
}

std::span<const DependentSampler::Draw> DependentSampler::draw(JobSet asking) {
  m_draws.clear();
  if (asking == 0) return m_draws;
  sort_jobs(asking);
  count_levels();
  // Jobs before `next` have theirs; the samples that all jobs from `excluded` - 1 on need are taken off the sets of the others.
  std::size_t excluded = 0;
  for (std::size_t next = 0; next < m_jobs.size();) {
    const std::uint64_t gone = excluded > 0 ? m_shared[excluded - 1] : 0;
    const std::uint64_t shared = m_shared[next] - gone;
    const auto size = [&](std::size_t job) { return m_sets.remaining(m_jobs[job]) - gone; };
    std::size_t end = next;
    if (below(size(next)) < shared) {
      ++end;
      while (end < m_jobs.size() && below(size(end)) < size(end - 1)) ++end;
      give(shared_sample(excluded, next, shared), next, end);
    } else {
      ++end;
      give(lone_sample(next, size(next) - shared), next, end);
    }
    excluded = next + 1;
    next = end;
  }
  for (const Draw& each : m_draws) m_sets.take(each.sample, each.jobs);
  return m_draws;
}

}  // namespace dsanalyze
