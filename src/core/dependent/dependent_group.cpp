#include "dependent_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

std::vector<SampleRange> needed_by(const RemainingSets& sets, std::uint32_t job) {
  std::vector<SampleId> samples;
  for (std::size_t cell = 0; cell < sets.cells().size(); ++cell)
    if ((sets.cells()[cell] & set_of(job)) != 0) std::ranges::copy(sets.samples_in(cell), std::back_inserter(samples));
  std::ranges::sort(samples);
  return ranges_of(samples);
}

}  // namespace

void DependentGroup::record_to(DrawRecorder& recorder) {
  m_recorder = &recorder;
  for (std::uint32_t job = 0; job < most_dependent_jobs; ++job)
    if (sets().remaining(job) > 0) recorder.began(job, needed_by(sets(), job));
}

DependentGroup::DependentGroup(const Settings& settings, State state)
    : m_sampler({settings.samples, state.random, {}}), m_store(settings.store_places, settings.policy), m_generations(std::move(state.generations)) {
  if (m_generations.size() != settings.samples)
    throw UsageError(fmt::format("a group's state has versions of {} samples, its dataset {}", m_generations.size(), settings.samples));
}

void DependentGroup::begin_epoch(std::uint32_t job) {
  m_sampler.begin_epoch(job);
  m_store.renew(sets());
  const SampleRange all{0, sets().samples()};
  if (m_recorder != nullptr && all.size() > 0) m_recorder->began(job, {&all, 1});
}

void DependentGroup::begin_epoch(std::uint32_t job, std::span<const SampleId> samples) {
  m_sampler.begin_epoch(job, samples);
  m_store.renew(sets());
  if (m_recorder != nullptr && !samples.empty()) m_recorder->began(job, needed_by(sets(), job));
}

void DependentGroup::end(std::uint32_t job) {
  m_sampler.end(job);
  m_store.forget(job, sets());
  if (m_recorder != nullptr) m_recorder->ended(job);
}

std::span<const DependentGroup::Work> DependentGroup::draw(JobSet asking) {
  m_work.clear();
  for (const DependentSampler::Draw& draw : m_sampler.draw(asking)) {
    const JobSet still = sets().needed_by(draw.sample);
    Work& work = m_work.emplace_back(Work{draw.sample, draw.jobs, 0, false, {}});
    if (const auto kept = m_store.take(draw.sample, draw.jobs, still)) {
      work.generation = kept->generation;
      work.place = kept->place;
      continue;
    }
    work.prepare = true;
    work.generation = m_generations[draw.sample]++;
    work.place = m_store.add(draw.sample, work.generation, draw.jobs, still);
  }
  if (m_recorder != nullptr && !m_work.empty()) {
    m_drawn.clear();
    for (const Work& work : m_work) m_drawn.push_back({work.sample, work.jobs, work.prepare});
    m_recorder->drew(m_drawn);
  }
  return m_work;
}

}  // namespace dsanalyze
