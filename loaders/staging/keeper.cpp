#include "keeper.hpp"

#include <algorithm>

namespace dsanalyze::staging {
namespace {

constexpr Nanoseconds most_ahead = 600 * nanoseconds_per_second;  // of now: a heartbeat beyond is garbage

}  // namespace

StepResult Keeper::did(StagingStep step, Phase then) {
  m_phase = then;
  return {step, Outcome::again, nullptr, 0, {}};
}

StagingStep Keeper::next_step() const {
  switch (m_phase) {
    case Phase::looking:
      return StagingStep::survey;
    case Phase::closing:
      return StagingStep::close_slab;
    case Phase::uncounting:
      return StagingStep::uncount;
    case Phase::retrying:
      return StagingStep::broadcast_retry;
    case Phase::announcing:
      return StagingStep::announce_change;
    case Phase::writing:
      return StagingStep::write_epoch;
    case Phase::opening:
      return StagingStep::open_epoch;
    case Phase::ending:
      break;
  }
  return StagingStep::end_group;
}

std::uint32_t Keeper::admit() {
  const auto there = std::ranges::find_if(m_jobs, [](const Job& job) { return job.state == Job::State::none; });
  if (there == m_jobs.end()) return no_job;
  // Those that are gone count while their batches are still read: their slots are memory too.
  const auto taken = std::ranges::count_if(m_jobs, [](const Job& job) { return job.state != Job::State::none; });
  if (taken >= m_view.facts().jobs) return no_job;
  *there = {Job::State::present, 0, 0, StagingDeparture::left};
  return static_cast<std::uint32_t>(there - m_jobs.begin());
}

StepResult Keeper::step(StagingRound& round) {
  switch (m_phase) {
    case Phase::looking:
      return look(round);
    case Phase::closing:
      return close_slab();
    case Phase::uncounting:
      return uncount();
    case Phase::retrying:
      m_board.retries.fetch_add(1, std::memory_order_release);
      return did(StagingStep::broadcast_retry, Phase::announcing);
    case Phase::announcing:
      return announce();
    case Phase::writing:
      return consider_epoch();
    case Phase::opening:
      return open();
    case Phase::ending:
      break;
  }
  m_board.ended.store(1, std::memory_order_release);
  return did(StagingStep::end_group, Phase::announcing);
}

StepResult Keeper::look(StagingRound& round) {
  while (m_place < most_jobs && m_jobs[m_place].state == Job::State::none) ++m_place;
  if (m_place == most_jobs) return did(StagingStep::survey, Phase::writing);
  const std::uint32_t place = m_place;
  Job& job = m_jobs[place];
  if (job.state == Job::State::gone) {
    ++m_place;
    if (in_open_epoch(place)) return did(StagingStep::survey, Phase::looking);
    job.state = Job::State::none;
    round.vacated.push_back(place);
    return did(StagingStep::survey, Phase::looking);
  }
  const ControlPage* const page = m_view.page(place);
  const bool lives = m_lives(place);
  // Soundness first: of a dead job too, as what it published is still read.
  job.why = StagingDeparture::garbage;
  if (sound(job, place)) {
    const bool left = page->state.load(std::memory_order_acquire) == PageState::left;
    if (lives && !left) {
      job.released = page->released.load(std::memory_order_acquire);
      ++m_place;
      return did(StagingStep::survey, take_report(place, round) ? Phase::retrying : Phase::looking);
    }
    job.why = left ? StagingDeparture::left : StagingDeparture::died;
  }
  job.state = Job::State::gone;
  round.departed.push_back({place, job.why});
  return did(StagingStep::survey, job.why == StagingDeparture::garbage ? Phase::closing : Phase::uncounting);
}

bool Keeper::sound(const Job& job, std::uint32_t place) const {
  const ControlPage* const page = m_view.page(place);
  const SlabHead* const slab = m_view.slab(place);
  return page != nullptr && sound_page(job, *page) && (slab == nullptr || sound_slab(*slab));
}

bool Keeper::sound_page(const Job& job, const ControlPage& page) const {
  const auto state = page.state.load(std::memory_order_acquire);
  if (page.mark.load(std::memory_order_relaxed) != page_mark || state > PageState::left) return false;
  if (page.heartbeat.load(std::memory_order_relaxed) > m_timing.clock->now() + most_ahead) return false;
  if (state == PageState::joining) return true;
  // The job moves on while this looks: it announces, then releases, so `taking` lies between the two looks at `released`.
  const Sequence released = page.released.load(std::memory_order_acquire);
  const Sequence taking = page.taking.load(std::memory_order_acquire);
  const Sequence later = page.released.load(std::memory_order_acquire);
  const Sequence end = m_view.start_of(m_view.opened());
  return released >= job.released && released <= taking && taking <= later + m_view.facts().held && later <= end;
}

bool Keeper::sound_slab(const SlabHead& slab) const {
  if (slab.mark.load(std::memory_order_relaxed) != slab_mark) return false;
  const Sequence end = m_view.start_of(m_view.opened());
  const auto headers = std::span(slab.slots).first(m_view.facts().slots());
  return std::ranges::all_of(headers, [&](const SlotHeader& header) {
    const std::uint64_t word = header.tag.load(std::memory_order_acquire);
    const Tag tag = Tag::of(word);
    if (tag.state == SlotState::free) return word == 0;
    if (tag.state > SlotState::published || tag.sequence >= end) return false;
    return header.count.load(std::memory_order_relaxed) <= m_view.facts().batch_size;
  });
}

bool Keeper::take_report(std::uint32_t place, StagingRound& round) {
  const ControlPage& page = *m_view.page(place);
  const std::uint32_t reports = page.reports.load(std::memory_order_acquire);
  if (reports == m_jobs[place].reports) return false;
  m_jobs[place].reports = reports;
  const Sequence sequence = page.reported.load(std::memory_order_relaxed);
  const std::uint32_t responsible = m_view.responsible(sequence);
  if (responsible == no_job) return false;
  // A dead one is found by the look at it in this round or the next.
  if (responsible != coordinator_place && !m_lives(responsible)) return false;
  round.late.push_back({place, responsible, sequence});
  return true;
}

OpenEpoch* Keeper::with_bit(std::uint32_t place, std::atomic<JobSet> OpenEpoch::*set) {
  for (OpenEpoch& epoch : m_board.epochs) {
    if ((epoch.*set & bit(place)) != 0) return &epoch;
  }
  return nullptr;
}

bool Keeper::in_open_epoch(std::uint32_t place) const {
  for (std::uint64_t epoch = m_view.oldest_open(); epoch < m_view.opened(); ++epoch) {
    const auto of = m_view.members(epoch);
    if (of && (of->members & bit(place)) != 0 && m_view.slowest().position < m_view.start_of(epoch + 1)) return true;
  }
  return false;
}

StepResult Keeper::close_slab() {
  OpenEpoch* const epoch = with_bit(m_place, &OpenEpoch::readable);
  if (epoch == nullptr) return did(StagingStep::close_slab, Phase::uncounting);
  epoch->readable.fetch_and(~bit(m_place), std::memory_order_acq_rel);
  return did(StagingStep::close_slab, Phase::closing);
}

StepResult Keeper::uncount() {
  OpenEpoch* const epoch = with_bit(m_place, &OpenEpoch::live);
  if (epoch == nullptr) return did(StagingStep::uncount, Phase::announcing);
  epoch->live.fetch_and(~bit(m_place), std::memory_order_acq_rel);
  return did(StagingStep::uncount, Phase::uncounting);
}

StepResult Keeper::announce() {
  m_board.changes.fetch_add(1, std::memory_order_release);
  m_timing.waiter->wake(m_board.changes, all_waiters);
  // Wakes the processes that wait for a word of a job that is gone.
  for (std::uint32_t place = 0; place < most_jobs; ++place) {
    const ControlPage* const page = m_view.page(place);
    const SlabHead* const slab = m_view.slab(place);
    for (std::uint32_t word = 0; page != nullptr && word < release_words; ++word) m_timing.waiter->wake(page->changes[word], all_waiters);
    if (slab != nullptr) m_timing.waiter->wake(slab->changes, all_waiters);
  }
  return did(StagingStep::announce_change, Phase::looking);
}

JobSet Keeper::candidates(std::uint64_t epoch) const {
  JobSet jobs = 0;
  for (std::uint32_t place = 0; place < most_jobs; ++place) {
    const ControlPage* const page = m_view.page(place);
    if (m_jobs[place].state != Job::State::present || page == nullptr) continue;
    if (page->last_epoch.load(std::memory_order_acquire) >= epoch) jobs |= bit(place);
  }
  return jobs;
}

Sequence Keeper::opens_at(std::uint64_t epoch) const {
  const StagingFacts& facts = m_view.facts();
  const Sequence start = m_view.start_of(epoch);
  if (epoch == facts.first_epoch || facts.boundary == StagingBoundary::synchronised) return start;
  // The epoch before the last one makes room for this one: all have released all of it.
  return start - std::min<Sequence>(facts.window(), facts.batches_per_epoch);
}

bool Keeper::due(std::uint64_t epoch, JobSet jobs) const {
  const StagingFacts& facts = m_view.facts();
  if (jobs == 0 || m_opened_in_round || m_board.ended.load(std::memory_order_relaxed) != 0) return false;
  if (epoch == facts.first_epoch) return m_begun || count(jobs) >= facts.jobs;
  return (m_begun || facts.boundary == StagingBoundary::overlapped) && m_view.slowest().position >= opens_at(epoch);
}

StepResult Keeper::consider_epoch() {
  m_place = 0;
  const std::uint64_t epoch = m_view.opened();
  const bool was_last = m_view.facts().epochs != 0 && epoch - m_view.facts().first_epoch >= m_view.facts().epochs;
  if ((m_ending || was_last) && m_board.ended.load(std::memory_order_relaxed) == 0) return did(StagingStep::write_epoch, Phase::ending);
  const JobSet jobs = candidates(epoch);
  if (!due(epoch, jobs)) {
    m_opened_in_round = false;
    m_phase = Phase::looking;
    return {StagingStep::write_epoch, Outcome::ready, nullptr, 0, {m_timing.clock->now() + m_view.facts().look_again}};
  }
  OpenEpoch& entry = m_board.epochs[epoch % 2];
  entry.epoch.store(no_epoch, std::memory_order_release);
  entry.members.store(jobs, std::memory_order_release);
  entry.live.store(jobs, std::memory_order_release);
  entry.readable.store(jobs, std::memory_order_release);
  entry.epoch.store(epoch, std::memory_order_release);
  return did(StagingStep::write_epoch, Phase::opening);
}

StepResult Keeper::open() {
  m_board.opened.fetch_add(1, std::memory_order_release);
  m_begun = false;
  m_opened_in_round = true;
  return did(StagingStep::open_epoch, Phase::announcing);
}

}  // namespace dsanalyze::staging
