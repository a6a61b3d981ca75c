#include "draw_replay.hpp"

#include <fmt/format.h>

#include <bit>

#include "base/error.hpp"

namespace dsanalyze {

DrawReplay::DrawReplay(std::uint32_t samples, std::span<const Case> cases) : m_sets(samples), m_counts(cases.size()) {
  for (const Case& each : cases) m_stores.emplace_back(each.places, each.policy);
}

void DrawReplay::began(std::uint32_t job, std::span<const SampleRange> samples) {
  if (m_sets.remaining(job) > 0) throw Error(fmt::format("job {} begins an epoch while it needs {} samples of another", job, m_sets.remaining(job)));
  if (count_of(samples) == m_sets.samples()) {
    m_sets.add_all(job);
  } else {
    m_sets.add(job, samples_of(samples));
  }
  for (PreparedStore& store : m_stores) store.renew(m_sets);
}

void DrawReplay::ended(std::uint32_t job) {
  m_sets.remove(job);
  for (PreparedStore& store : m_stores) store.forget(job, m_sets);
}

void DrawReplay::drew(std::span<const Drawn> round) {
  ++m_rounds;
  for (const Drawn& draw : round) {
    if ((m_sets.needed_by(draw.sample) & draw.jobs) != draw.jobs || draw.jobs == 0)
      throw Error(fmt::format("sample {} is drawn for a job that does not need it", draw.sample));
    const auto jobs = static_cast<std::uint64_t>(std::popcount(draw.jobs));
    m_drawn += jobs;
    for (JobSet left = draw.jobs; left != 0; left &= left - 1) ++m_drawn_by[static_cast<std::size_t>(std::countr_zero(left))];
    draw.prepared ? ++m_recorded.prepared : m_recorded.from_store += jobs;
    m_sets.take(draw.sample, draw.jobs);
    const JobSet needed_by = m_sets.needed_by(draw.sample);
    for (std::size_t i = 0; i < m_stores.size(); ++i) {
      if (m_stores[i].take(draw.sample, draw.jobs, needed_by)) {
        m_counts[i].from_store += jobs;
      } else {
        ++m_counts[i].prepared;
        m_stores[i].add(draw.sample, 0, draw.jobs, needed_by);
      }
    }
  }
}

}  // namespace dsanalyze
