#include "staging_explorer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "staging_simulation.hpp"

namespace dsanalyze::testing {
namespace {

using staging::PageState;
using staging::SlotHeader;
using staging::SlotState;
using staging::Tag;

constexpr std::uint64_t most_steps = 200'000;
constexpr Nanoseconds step_time = 1000;
constexpr Nanoseconds stopped_for = nanoseconds_per_second;

}  // namespace

Simulation::Simulation(const StagingSchedule& given) : schedule(given), m_random(mix(given.seed, 4711)) {
  schedule.facts.validate();
  faulty = !schedule.faults.empty();
  board->facts = schedule.facts;
  board->opened = schedule.facts.first_epoch;
  view = std::make_unique<View>(*board);
  keeper.emplace(
      *view, *board, [this](std::uint32_t place) { return newest_at(place).lives; }, time.timing());
  m_actors.push_back(make_keeper_actor(*this));
  if (schedule.facts.producers == Producers::coordinator) {
    coordinator.slab = std::make_unique<SlabHead>();
    coordinator.slots.resize(schedule.facts.slots());
    coordinator.place = coordinator_place;
    view->map_slab(coordinator_place, coordinator.slab.get());
    coordinator.filler.emplace(*view, *coordinator.slab, coordinator_place, time.timing());
    m_actors.push_back(make_filler_actor(*this, no_job));
  }
  for (std::uint32_t i = 0; i < schedule.facts.jobs; ++i) add_job();
  last_take = time.now();
}

std::vector<Content>& Simulation::slots_of(const SlabHead* slab) {
  const auto owner = std::ranges::find_if(jobs, [slab](const SimulatedJob& job) { return job.slab.get() == slab; });
  return owner == jobs.end() ? coordinator.slots : owner->slots;
}

SimulatedJob& Simulation::newest_at(std::uint32_t place) {
  return *std::find_if(jobs.rbegin(), jobs.rend(), [place](const SimulatedJob& job) { return job.place == place; });
}

void Simulation::add_job() {
  const std::uint32_t place = keeper->admit();
  if (place == no_job) return;
  const auto number = static_cast<std::uint32_t>(jobs.size());
  SimulatedJob& job = jobs.emplace_back();
  job.place = place;
  job.view = std::make_unique<View>(*board);
  job.page = std::make_unique<ControlPage>();
  if (schedule.facts.producers == Producers::jobs) {
    job.slab = std::make_unique<SlabHead>();
    job.slots.resize(schedule.facts.slots());
  }
  for (View* const knows : {view.get(), job.view.get()}) {
    knows->map_page(place, job.page.get());
    knows->map_slab(place, job.slab.get());
  }
  if (coordinator.slab) tell(job, {coordinator_place, nullptr, coordinator.slab.get()});
  for (SimulatedJob& other : jobs) {
    if (&other == &job) continue;
    tell(other, {place, job.page.get(), job.slab.get()});
    if (view->page(other.place) == other.page.get()) tell(job, {other.place, other.page.get(), other.slab.get()});
  }
  job.taker.emplace(*job.view, *job.page, place, time.timing());
  m_actors.push_back(make_taker_actor(*this, number));
  if (!job.slab) return;
  job.filler.emplace(*job.view, *job.slab, place, time.timing());
  m_actors.push_back(make_filler_actor(*this, number));
}

void Simulation::tell(SimulatedJob& job, const Introduced& of) {
  job.mail.push_back(of);
  if (!faulty) deliver();
}

void Simulation::deliver() {
  for (SimulatedJob& job : jobs) {
    if (job.stopped_until > time.now()) continue;
    while (!job.mail.empty() && (!faulty || schedule.systematic || draw(schedule.delivery) == 0)) {
      const Introduced of = job.mail.front();
      job.mail.pop_front();
      if (of.place != job.place) {
        if (of.place < coordinator_place) job.view->map_page(of.place, of.page);
        job.view->map_slab(of.place, of.slab);
      }
    }
  }
}

void Simulation::hang(SimulatedJob& job) {
  job.hangs = true;
  job.died_at = time.now();
}

void Simulation::apply(const StagingFault& fault) {
  using Kind = StagingFault::Kind;
  if (fault.kind == Kind::join) {
    add_job();
    return;
  }
  if (fault.job >= jobs.size()) return;
  SimulatedJob& job = jobs[fault.job];
  if (!job.lives || job.hangs || (job.finished && fault.kind != Kind::garbage_page)) return;
  switch (fault.kind) {
    case Kind::kill:
      for (const auto& actor : m_actors) {
        if (actor->job != fault.job) continue;
        const bool waits = actor->asleep || actor->about_to_wait;
        ++result.coverage.killed[static_cast<std::size_t>(waits ? actor->waits_in : actor->next_step())];
      }
      job.lives = false;
      job.died_at = time.now();
      break;
    case Kind::stop:
      job.stopped_until = time.now() + stopped_for;
      break;
    case Kind::garbage_page:
      job.page->mark = static_cast<std::uint32_t>(draw(UINT32_MAX));
      job.page->taking = m_random.next();
      job.page->released = m_random.next();
      job.page->state = static_cast<PageState>(draw(UINT32_MAX));
      job.page->reported = m_random.next();
      job.page->reports = static_cast<std::uint32_t>(draw(UINT32_MAX));
      hang(job);
      break;
    case Kind::rewind_page:
      job.page->taking = 0;
      job.page->released = 0;
      hang(job);
      break;
    case Kind::lying_page: {
      const Sequence end = view->start_of(view->opened());
      job.page->released = draw(end + 1);
      job.page->taking = draw(end + 2);
      job.page->reported = draw(end + 1);
      job.page->reports = static_cast<std::uint32_t>(draw(3));
      job.page->state = static_cast<PageState>(draw(3));
      hang(job);
      break;
    }
    case Kind::garbage_slab:
      if (!job.slab) return;
      for (SlotHeader& header : job.slab->slots) header.tag = m_random.next();
      hang(job);
      break;
    case Kind::leave:
      job.taker->leave();
      job.finished = true;
      note(StagingStep::leave);
      break;
    case Kind::join:
      break;
  }
}

void Simulation::departed(const StagingRound& round) {
  result.late += round.late.size();
  for (const std::uint32_t place : round.vacated) {  // a job that still needs something of it will miss it
    view->map_page(place, nullptr);
    view->map_slab(place, nullptr);
    for (SimulatedJob& job : jobs) tell(job, {place, nullptr, nullptr});
  }
  for (const auto& [place, why] : round.departed) {
    const SimulatedJob& job = newest_at(place);
    result.garbage += why == StagingDeparture::garbage ? 1 : 0;
    if (job.died_at != 0) result.longest_takeover = std::max(result.longest_takeover, time.now() - job.died_at);
    if (job.lives && !job.hangs && !job.finished) problem(fmt::format("a working job at place {} was put out", place));
  }
}

void Simulation::apply_those_before(const Actor& actor) {
  if (actor.about_to_wait || actor.asleep) return;
  const auto there =
      std::ranges::find_if(m_awaited, [&](const StagingFault& fault) { return fault.job == actor.job && fault.before == actor.next_step(); });
  if (there == m_awaited.end()) return;
  const StagingFault fault = *there;
  m_awaited.erase(there);
  apply(fault);
}

bool Simulation::gone(const Actor& actor) const {
  if (actor.job == no_job) return actor.done;
  const SimulatedJob& job = jobs[actor.job];
  return actor.done || !job.lives || job.hangs || job.finished;
}

bool Simulation::over() const {
  return std::ranges::all_of(jobs, [](const SimulatedJob& job) { return !job.lives || job.hangs || job.finished; });
}

Actor* Simulation::choose() {
  while (true) {
    std::vector<std::size_t> ready;
    Nanoseconds earliest = INT64_MAX;
    for (std::size_t i = 0; i < m_actors.size(); ++i) {
      Actor& actor = *m_actors[i];
      if (gone(actor)) continue;
      if (actor.asleep && actor.until.at <= time.now()) actor.asleep = false;
      const Nanoseconds stopped_until = actor.job == no_job ? 0 : jobs[actor.job].stopped_until;
      const Nanoseconds runs_at = std::max(stopped_until, actor.asleep ? actor.until.at : 0);
      if (runs_at <= time.now()) ready.push_back(i);
      earliest = std::min(earliest, runs_at);
    }
    if (!ready.empty()) {
      const bool stays = std::ranges::find(ready, m_current) != ready.end();
      if (schedule.systematic) {
        const bool preempted = std::ranges::find(schedule.preemptions, result.steps) != schedule.preemptions.end();
        if (!stays || preempted) {
          const auto later = std::ranges::upper_bound(ready, m_current);
          m_current = later == ready.end() ? ready.front() : *later;
        }
      } else if (!stays || draw(4) >= schedule.seed % 4) {  // some seeds switch at every step, others seldom
        m_current = ready[draw(ready.size())];
      }
      return m_actors[m_current].get();
    }
    const View::Slowest slowest = view->slowest();
    if (!faulty && slowest.place != no_job) problem(fmt::format("all sleep although batch {} is wanted: a wake-up was lost", slowest.position));
    time.sleep_until(earliest);
  }
}

void Simulation::dispatch(Actor& actor) {
  if (actor.about_to_wait) {
    const StepResult wait = *actor.about_to_wait;
    actor.about_to_wait.reset();
    actor.word = wait.word;
    actor.until = wait.until;
    actor.asleep = (wait.word == nullptr || *wait.word == wait.expected) && wait.until.at > time.now();
    return;
  }
  actor.run();
}

void Simulation::check() {
  std::uint32_t staged = 0;
  const auto count_slab = [&](const SlabHead& slab) {
    for (std::uint32_t slot = 0; slot < schedule.facts.slots(); ++slot) {
      const Tag tag = Tag::of(slab.slots[slot].tag);
      if (tag.state == SlotState::filling || (tag.state == SlotState::published && !view->released_by_all(tag.sequence))) ++staged;
    }
  };
  for (SimulatedJob& job : jobs) {
    if (job.slab && !job.hangs && &job == &newest_at(job.place) && !keeper->vacant(job.place)) count_slab(*job.slab);
    if (job.hangs && time.now() > job.died_at + stopped_for) job.lives = false;  // somebody loses patience
  }
  if (coordinator.slab) count_slab(*coordinator.slab);
  result.most_staged = std::max(result.most_staged, staged);
  const std::uint32_t bound = 2 * schedule.facts.jobs + schedule.facts.prefetch;
  if (staged > bound) problem(fmt::format("{} batches are staged, {} are allowed", staged, bound));
}

StagingRun Simulation::run() {
  while (!over() && result.problem.empty()) {
    for (const StagingFault& fault : schedule.faults) {
      if (fault.at != result.steps) continue;
      if (fault.before) {
        m_awaited.push_back(fault);
      } else {
        apply(fault);
      }
    }
    time.sleepers.clear();
    for (const auto& actor : m_actors) time.sleepers.push_back(actor.get());
    if (over()) break;
    deliver();
    Actor& next = *choose();
    apply_those_before(next);
    if (!gone(next)) dispatch(next);
    time.sleep_until(time.now() + step_time);
    if (++result.steps > most_steps) problem("no end: what keeps them from getting on?");
    check();
  }
  const Sequence end = (schedule.facts.first_epoch + schedule.epochs) * schedule.facts.batches_per_epoch;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const SimulatedJob& job = jobs[i];
    const bool left_early =
        std::ranges::any_of(schedule.faults, [&](const StagingFault& fault) { return fault.kind == StagingFault::Kind::leave && fault.job == i; });
    if (!job.finished || left_early || (!job.first && i >= schedule.facts.jobs)) continue;
    if (job.next != end) problem(fmt::format("job {} got batches up to {}, not all {}", i, job.next, end));
  }
  const std::uint64_t of_all = schedule.epochs * schedule.facts.batches_per_epoch - schedule.facts.first_batch;
  if (!faulty && result.made != of_all) {
    problem(fmt::format("{} batches were made, not each of {} once", result.made, of_all));
  }
  return result;
}

void StagingCoverage::operator+=(const StagingCoverage& other) {
  for (std::size_t i = 0; i < taken.size(); ++i) {
    taken[i] += other.taken[i];
    killed[i] += other.killed[i];
  }
}

StagingRun explore(const StagingSchedule& schedule) { return Simulation(schedule).run(); }

}  // namespace dsanalyze::testing
