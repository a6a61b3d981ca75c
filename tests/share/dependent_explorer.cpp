#include "dependent_explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "feed_rig.hpp"
#include "loaders/slot_pool.hpp"
#include "turns.hpp"

namespace dsanalyze::testing {
namespace {

constexpr std::uint64_t most_turns = 60'000;
constexpr Nanoseconds look_again = 50'000;
constexpr std::byte untouched{0xa5};
constexpr std::uint32_t workers = 2;

TensorShape shape_of(std::uint32_t samples) { return TensorShape::images(DType::uint8, Layout::nhwc, samples, 3, 2, 2); }

/// What a job has had, over all its lives.
struct Had {
  std::map<std::uint64_t, std::set<SampleId>> epochs;
  std::set<std::pair<SampleId, std::uint8_t>> versions;
};

class Exploration;

/// A job: its slots as its producer has them, and the thread that takes its batches in order.
class JobOfExploration final : public StagingProducer {
 public:
  JobOfExploration(Exploration& whole, std::uint32_t number, const ExploredJob& kind, std::uint64_t first, std::vector<SampleId> rest);

  Status claim(StagingClaim& claim, Deadline deadline) override;
  void publish(const StagingClaim& claim, const StagedFacts& facts) override;
  void take_all();
  void take(std::uint64_t sequence, std::uint32_t slot);

  Exploration& whole;
  const std::uint32_t number;
  std::uint32_t place = most_dependent_jobs;  ///< its number to the feed, another's once it is removed
  const ExploredJob kind;
  const TensorShape tensor;
  const SlotLayout layout;
  const std::uint64_t samples;
  const std::uint64_t batches_per_epoch;
  const std::uint64_t batches;  ///< in all
  const std::vector<SampleId> rest;
  std::vector<std::byte> memory;
  std::vector<std::uint32_t> free_slots;
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> published;  ///< by sequence: slot, samples
  std::uint64_t claimed;
  std::uint64_t next;  ///< that it takes
  bool came = false;
  bool gone = false;
  bool ended = false;    ///< the feed was told
  bool retired = false;  ///< its thread of the feed has ended
  bool removed = false;
  std::uint64_t steps = 0;  ///< of the feed, for it
};

/// One feed, from its start until all jobs have what they need or it is frozen.
class Exploration {
 public:
  Exploration(const DependentSchedule& given, std::uint64_t seed, std::vector<Had>& had, DependentExplored& result);
  /// Where each job goes on; of one that is gone or has all, nothing.
  std::map<std::uint32_t, DependentFeed::Rest> run(std::map<std::uint32_t, DependentFeed::Rest> from, std::optional<DependentGroup::State>& state,
                                                   std::optional<std::uint64_t> freeze_after);

  void problem(const std::string& what) {
    if (m_result.problem.empty()) m_result.problem = fmt::format("turn {}: {}", turns.turns(), what);
  }

  Turns turns;
  std::vector<Had>& had;

 private:
  friend class JobOfExploration;
  void observe(DependentStep step, std::uint32_t number);
  void look_for_death(JobOfExploration& job, DependentStep step);
  void feed_loader();
  void prepare();
  void direct();
  [[nodiscard]] bool direct_once();
  void add(JobOfExploration& job);
  void await_retired(const JobOfExploration& job);
  void check_untouched(const JobOfExploration& job);
  [[nodiscard]] bool all_done() const;

  const DependentSchedule& m_schedule;
  DependentExplored& m_result;
  std::optional<std::uint64_t> m_freeze_after;
  std::optional<DependentFeed> m_feed;
  std::vector<std::unique_ptr<JobOfExploration>> m_jobs;
  std::vector<ExploredDeath> m_deaths;
  struct InFlight {
    StagingClaim claim;
    SampleId sample = 0;
    std::uint8_t generation = 0;
  };
  std::deque<InFlight> m_to_prepare;
  std::set<const std::byte*> m_places;  ///< in the loader's hands
  std::uint64_t m_director = 0;
  bool m_loader_ended = false;
  bool m_frozen = false;
  std::array<JobOfExploration*, most_dependent_jobs> m_at{};  ///< by place
};

JobOfExploration::JobOfExploration(Exploration& of, std::uint32_t given_number, const ExploredJob& given, std::uint64_t first,
                                   std::vector<SampleId> given_rest)
    : whole(of),
      number(given_number),
      kind(given),
      tensor(shape_of(given.batch_size)),
      layout(tensor),
      samples(given.subset.empty() ? dataset_samples : given.subset.size()),
      batches_per_epoch((samples + given.batch_size - 1) / given.batch_size),
      batches(batches_per_epoch * given.epochs),
      rest(std::move(given_rest)),
      memory(given.slots * layout.bytes),
      claimed(first),
      next(first) {
  for (std::uint32_t slot = 0; slot < given.slots; ++slot) free_slots.push_back(slot);
}

Status JobOfExploration::claim(StagingClaim& claim, Deadline deadline) {
  while (true) {
    if (ended || claimed == batches) return {StatusCode::end, 0};
    if (!free_slots.empty() && !gone) {
      const std::uint32_t slot = free_slots.front();
      free_slots.erase(free_slots.begin());
      claim = {claimed, claimed / batches_per_epoch, claimed % batches_per_epoch, slot, std::span(memory).subspan(slot * layout.bytes, layout.bytes)};
      ++claimed;
      return {};
    }
    if (whole.turns.now() >= deadline.at) return {StatusCode::timeout, 0};
    whole.turns.sleep_until(std::min(deadline.at, whole.turns.now() + look_again));
  }
}

void JobOfExploration::publish(const StagingClaim& claim, const StagedFacts& facts) {
  whole.turns.yield();
  if (whole.m_frozen) whole.problem(fmt::format("a batch of job {} is published by a frozen feed", number));
  if (removed) whole.problem(fmt::format("a batch of job {} is published after its removal", number));
  if (!published.emplace(claim.sequence, std::pair(claim.slot, facts.count)).second)
    whole.problem(fmt::format("batch {} of job {} is published twice", claim.sequence, number));
}

void JobOfExploration::take(std::uint64_t sequence, std::uint32_t slot) {
  const std::byte* const bytes = memory.data() + slot * layout.bytes;
  const std::uint64_t epoch = sequence / batches_per_epoch;
  Had& mine = whole.had[number];
  for (std::uint32_t i = 0; i < published.at(sequence).second; ++i) {
    SampleId id = 0;
    std::memcpy(&id, bytes + layout.ids_at + i * sizeof id, sizeof id);
    const std::byte* const sample = bytes + i * tensor.sample_bytes();
    const auto generation = std::to_integer<std::uint8_t>(sample[1]);
    if (sample[0] != std::byte{static_cast<std::uint8_t>(id)} || sample[2] != sample[0] || sample[3] != sample[1])
      whole.problem(fmt::format("job {} got other content than that of sample {}", number, id));
    if (!mine.epochs[epoch].insert(id).second) whole.problem(fmt::format("job {} got sample {} twice in epoch {}", number, id, epoch));
    if (!mine.versions.emplace(id, generation).second) whole.problem(fmt::format("job {} got version {} of sample {} twice", number, generation, id));
  }
}

void JobOfExploration::take_all() {
  while (!came && !whole.turns.free() && !whole.m_loader_ended) whole.turns.sleep_until(whole.turns.now() + look_again);
  while (!gone && next < batches && !whole.m_loader_ended && !whole.turns.free()) {
    const auto found = published.find(next);
    if (found == published.end()) {
      whole.turns.sleep_until(whole.turns.now() + look_again);
      continue;
    }
    const std::uint32_t slot = found->second.first;
    take(next, slot);
    ++next;
    if (kind.batch_time > 0) whole.turns.sleep_until(whole.turns.now() + kind.batch_time);
    whole.turns.yield();
    if (!gone) free_slots.push_back(slot);
  }
}

Exploration::Exploration(const DependentSchedule& given, std::uint64_t seed, std::vector<Had>& given_had, DependentExplored& result)
    : turns(seed), had(given_had), m_schedule(given), m_result(result), m_deaths(given.deaths) {}

void Exploration::observe(DependentStep step, std::uint32_t number) {
  if (step == DependentStep::serve) turns.enter();
  if (!turns.free()) ++m_result.taken[static_cast<std::size_t>(step)];
  if (step == DependentStep::retire) {
    m_at.at(number)->retired = true;
    turns.leave();
  }
  if (turns.free() || step == DependentStep::retire) return;
  if (turns.turns() > most_turns) {
    problem("it does not come to an end");
    turns.set_free();
    return;
  }
  if (number < most_dependent_jobs && m_at.at(number) != nullptr) look_for_death(*m_at.at(number), step);
  turns.yield();
}

void Exploration::look_for_death(JobOfExploration& job, DependentStep step) {
  ++job.steps;
  for (auto death = m_deaths.begin(); death != m_deaths.end(); ++death) {
    if (death->job != job.number || job.steps <= death->after || job.gone || Turns::self() == m_director) continue;
    if (death->before.value_or(step) != step) continue;
    m_deaths.erase(death);
    ++m_result.killed[static_cast<std::size_t>(step)];
    job.gone = true;
    turns.yield_to(m_director);
    return;
  }
}

/// The loader's feeder.
void Exploration::feed_loader() {
  while (true) {
    StagingClaim claim;
    const Status status = m_feed->claim(claim, {turns.now() + 5'000'000});
    if (status.code == StatusCode::timeout) continue;
    if (!status.ok()) break;
    const ClaimedSamples::Work work = m_feed->of(claim);
    if (!m_places.insert(claim.bytes.data()).second) problem("a place is given to the loader twice");
    if (m_places.size() > m_schedule.in_flight) problem(fmt::format("{} samples are in flight", m_places.size()));
    m_to_prepare.push_back({claim, work.samples[0], static_cast<std::uint8_t>(work.generation)});
    turns.yield();
  }
  m_loader_ended = true;
}

void Exploration::prepare() {
  while (!m_loader_ended || !m_to_prepare.empty()) {
    if (m_to_prepare.empty()) {
      turns.sleep_until(turns.now() + look_again);
      continue;
    }
    const InFlight work = m_to_prepare.front();
    m_to_prepare.pop_front();
    // In two parts, between which what is read too early, or written by another, would show.
    for (std::size_t half = 0; half < 2; ++half) {
      work.claim.bytes[2 * half] = std::byte{static_cast<std::uint8_t>(work.sample)};
      work.claim.bytes[2 * half + 1] = std::byte{work.generation};
      turns.yield();
    }
    m_places.erase(work.claim.bytes.data());
    m_feed->publish(work.claim, {1, 0, 0});
  }
}

void Exploration::add(JobOfExploration& job) {
  DependentJob of_feed{job.kind.batch_size, job.kind.subset, job.tensor, job.kind.slots, job.batches - job.next};
  of_feed.first = job.next;
  of_feed.rest = job.rest;
  of_feed.comes_again = true;
  const std::uint64_t before = turns.entered();
  job.place = static_cast<std::uint32_t>(std::ranges::find(m_at, nullptr) - m_at.begin());
  m_at.at(job.place) = &job;
  m_feed->add(job.place, std::move(of_feed), job);
  while (turns.entered() == before) std::this_thread::yield();
  job.came = true;
}

void Exploration::await_retired(const JobOfExploration& job) {
  while (!job.retired && !turns.free()) turns.sleep_until(turns.now() + look_again);
}

void Exploration::check_untouched(const JobOfExploration& job) {
  if (!std::ranges::all_of(job.memory, [](std::byte byte) { return byte == untouched; }))
    problem(fmt::format("job {} is gone, and its slots are written", job.number));
}

bool Exploration::all_done() const {
  return std::ranges::all_of(m_jobs, [](const auto& job) { return job->removed || (job->came && job->next == job->batches); });
}

/// Lets jobs come, and lets go of those that are gone. False when all is done.
bool Exploration::direct_once() {
  for (const auto& job : m_jobs) {
    if (!job->came && turns.now() >= nanoseconds_per_second + job->kind.comes) add(*job);
    if (!job->gone || job->removed || !job->came) continue;
    if (!job->ended) {
      m_feed->end(job->place);
      job->ended = true;
    }
    if (!job->retired) continue;
    m_feed->remove(job->place);
    m_at.at(job->place) = nullptr;
    job->removed = true;
    std::ranges::fill(job->memory, untouched);
  }
  const bool due = m_freeze_after && turns.turns() >= *m_freeze_after;
  return !due && !all_done();
}

void Exploration::direct() {
  while (!turns.free() && direct_once()) turns.sleep_until(turns.now() + look_again);
  m_feed->stop();
  for (const auto& job : m_jobs)
    if (job->came && !job->removed) await_retired(*job);
  m_feed->freeze();
  m_frozen = true;
}

std::map<std::uint32_t, DependentFeed::Rest> Exploration::run(std::map<std::uint32_t, DependentFeed::Rest> from,
                                                              std::optional<DependentGroup::State>& state,
                                                              std::optional<std::uint64_t> freeze_after) {
  m_freeze_after = freeze_after;
  DependentFeedSpec spec{group_index(), shape_of(1), 3, OnError::skip, m_schedule.store_places, m_schedule.policy, m_schedule.in_flight, 100'000};
  spec.resumed = state;
  spec.observer = [this](DependentStep step, std::uint32_t number) { observe(step, number); };
  m_feed.emplace(spec, turns.timing());
  const bool anew = from.empty();
  for (std::uint32_t number = 0; number < m_schedule.jobs.size(); ++number) {
    const bool there = anew || from.contains(number);
    ExploredJob kind = m_schedule.jobs[number];
    if (!anew) kind.comes = 0;
    if (!there) kind.epochs = 0;  // it has nothing to come
    DependentFeed::Rest& rest = from[number];
    m_jobs.push_back(std::make_unique<JobOfExploration>(*this, number, kind, there ? rest.next : 0, std::move(rest.samples)));
    m_jobs.back()->came = m_jobs.back()->removed = !there;
  }
  {
    std::vector<std::jthread> threads;
    const auto start = [&](auto body) {
      const std::uint64_t before = turns.entered();
      threads.emplace_back([this, body] {
        turns.enter();
        body();
        turns.leave();
      });
      while (turns.entered() == before) std::this_thread::yield();
    };
    start([this] { direct(); });
    start([this] { feed_loader(); });
    for (std::uint32_t i = 0; i < workers; ++i) start([this] { prepare(); });
    for (const auto& job : m_jobs)
      if (!job->removed) start([&job] { job->take_all(); });
    turns.start(threads.size());
  }
  std::map<std::uint32_t, DependentFeed::Rest> left;
  for (const auto& job : m_jobs) {
    if (job->removed && job->kind.epochs > 0) check_untouched(*job);
    if (job->removed || job->gone || job->next == job->batches) continue;
    if (!freeze_after) problem(fmt::format("job {} got {} of {} batches", job->number, job->next, job->batches));
    if (!job->came) {
      left[job->number] = {job->next, job->rest};
      continue;
    }
    left[job->number] = m_feed->rest(job->place, job->next);
    if (left[job->number].next != job->next)
      problem(fmt::format("job {} took {} batches, and the feed says {}", job->number, job->next, left[job->number].next));
    m_result.resumed += left[job->number].samples.empty() ? 0 : 1;
  }
  state = m_feed->state();
  m_result.drawn += m_feed->totals().drawn;
  m_result.prepared += m_feed->totals().prepared;
  m_result.turns += turns.turns();
  if (!m_feed->failure().empty()) problem(m_feed->failure());
  turns.set_free();
  m_feed.reset();
  return left;
}

}  // namespace

void DependentExplored::operator+=(const DependentExplored& other) {
  turns += other.turns;
  drawn += other.drawn;
  prepared += other.prepared;
  resumed += other.resumed;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    taken[i] += other.taken[i];
    killed[i] += other.killed[i];
  }
}

DependentExplored explore(const DependentSchedule& schedule) {
  DependentExplored result;
  std::vector<Had> had(schedule.jobs.size());
  std::optional<DependentGroup::State> state;
  Exploration first(schedule, mix(schedule.seed, 1), had, result);
  const auto left = first.run({}, state, schedule.freeze_after);
  if (schedule.freeze_after && !left.empty()) {
    DependentSchedule rest = schedule;
    rest.deaths.clear();
    Exploration second(rest, mix(schedule.seed, 2), had, result);
    second.run(left, state, {});
  }
  for (std::uint32_t number = 0; number < schedule.jobs.size(); ++number) {
    const ExploredJob& job = schedule.jobs[number];
    const bool may_die = std::ranges::any_of(schedule.deaths, [&](const ExploredDeath& death) { return death.job == number; });
    if (may_die || !result.problem.empty()) continue;
    const std::size_t samples = job.subset.empty() ? dataset_samples : job.subset.size();
    if (had[number].epochs.size() != job.epochs) result.problem = fmt::format("job {} had {} epochs", number, had[number].epochs.size());
    for (const auto& [epoch, ids] : had[number].epochs)
      if (ids.size() != samples) result.problem = fmt::format("job {} had {} samples in epoch {}", number, ids.size(), epoch);
  }
  return result;
}

}  // namespace dsanalyze::testing
