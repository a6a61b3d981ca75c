#include "dependent_group.hpp"

namespace dsanalyze {

void DependentGroup::begin_epoch(std::uint32_t job) {
  m_sampler.begin_epoch(job);
  m_store.renew(sets());
}

void DependentGroup::begin_epoch(std::uint32_t job, std::span<const SampleId> samples) {
  m_sampler.begin_epoch(job, samples);
  m_store.renew(sets());
}

void DependentGroup::end(std::uint32_t job) {
  m_sampler.end(job);
  m_store.forget(job, sets());
}

std::span<const DependentGroup::Work> DependentGroup::draw(JobSet asking) {
  m_work.clear();
  for (const DependentSampler::Draw& draw : m_sampler.draw(asking)) {
    const JobSet needed_by = sets().needed_by(draw.sample);
    Work& work = m_work.emplace_back(Work{draw.sample, draw.jobs, 0, false, {}});
    if (const auto kept = m_store.take(draw.sample, draw.jobs, needed_by)) {
      work.generation = kept->generation;
      work.place = kept->place;
      continue;
    }
    work.prepare = true;
    work.generation = m_generations[draw.sample]++;
    work.place = m_store.add(draw.sample, work.generation, draw.jobs, needed_by);
  }
  return m_work;
}

}  // namespace dsanalyze
