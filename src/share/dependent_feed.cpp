#include "dependent_feed.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "loaders/batch_assembly.hpp"
#include "loaders/slot_pool.hpp"

namespace dsanalyze {
namespace {

constexpr double claim_again_seconds = 0.02;
constexpr int all_that_wait = 1 << 20;

}  // namespace

struct DependentFeed::Job {
  /// A batch in a slot of the job's, while samples are drawn for it or copied into it.
  struct OpenBatch {
    StagingClaim claim;
    std::size_t size = 0;
    std::vector<SampleId> ids;        ///< drawn so far
    std::vector<std::uint32_t> lost;  ///< positions of samples that were not available
    std::size_t done = 0;
    Nanoseconds since = 0;  ///< when it was claimed
  };

  Job(std::uint32_t given_number, DependentJob given, StagingProducer& given_producer, std::size_t dataset_samples, OnError on_error)
      : number(given_number),
        terms(std::move(given)),
        producer(given_producer),
        samples(terms.subset.empty() ? dataset_samples : terms.subset.size()),
        batches_per_epoch((samples + terms.batch_size - 1) / terms.batch_size),
        assembly(terms.slots, terms.tensor, on_error),
        batches(terms.slots) {
    for (OpenBatch& batch : batches) batch.ids.reserve(terms.batch_size);
  }

  const std::uint32_t number;
  const DependentJob terms;
  StagingProducer& producer;
  const std::size_t samples;  ///< of its epochs
  const std::size_t batches_per_epoch;
  BatchAssembly assembly;
  std::vector<OpenBatch> batches;          ///< by slot
  std::deque<std::uint32_t> room;          ///< slots of the batches that are not all drawn; the first takes part in draws
  std::uint64_t claimed = 0;               ///< batches
  std::uint64_t drawn = 0;                 ///< samples
  std::optional<std::uint64_t> drawing{};  ///< the epoch that it draws, or drew last
  std::vector<SampleId> needed{};          ///< in that epoch, when it ended
  std::uint32_t copying = 0;
  bool gone = false;
  std::jthread claimer;
};

namespace {

DependentGroup group_of(const DependentFeedSpec& spec) {
  const DependentGroup::Settings settings{static_cast<std::uint32_t>(spec.index->size()), spec.seed, spec.store_places, spec.policy};
  return spec.resumed ? DependentGroup(settings, *spec.resumed) : DependentGroup(settings);
}

}  // namespace

DependentFeed::DependentFeed(const DependentFeedSpec& spec, Timing timing)
    : m_spec(spec),
      m_timing(timing),
      m_place_bytes(SlotLayout(spec.sample).bytes),
      m_memory(MemorySegment::create("prepared samples", (std::size_t{spec.store_places} + spec.in_flight) * m_place_bytes)),
      m_group(group_of(spec)),
      m_kept(spec.store_places),
      m_in_flight(spec.in_flight),
      m_held(spec.held) {
  m_memory.populate();
  if (spec.recorder != nullptr) m_group.record_to(*spec.recorder);
  for (std::uint32_t place = spec.store_places + spec.in_flight; place-- > 0;) m_places.push_back(place);
  for (std::uint32_t slot = spec.in_flight; slot-- > 0;) m_slots.push_back(slot);
}

DependentFeed::~DependentFeed() {
  stop();
  for (std::uint32_t number = 0; number < m_jobs.size(); ++number) remove(number);
}

void DependentFeed::begin() {
  {
    const std::scoped_lock lock(m_mutex);
    m_held = false;
  }
  m_changed.notify(*m_timing.waiter, all_that_wait);
}

void DependentFeed::add(std::uint32_t number, DependentJob job, StagingProducer& producer) {
  const auto made = std::make_shared<Job>(number, std::move(job), producer, m_spec.index->size(), m_spec.on_error);
  const std::scoped_lock lock(m_mutex);
  if (m_jobs.at(number) != nullptr) throw Error("a dependent group has a job of this number already");
  m_jobs[number] = made;
  m_drawn[number].reset();
  made->claimer = std::jthread([this, job_of_thread = made.get()] {
    observe(DependentStep::serve, job_of_thread->number);
    try {
      claim_slots(*job_of_thread);
    } catch (const std::exception& error) {
      const std::scoped_lock failing(m_mutex);
      m_failure = error.what();
    }
    observe(DependentStep::retire, job_of_thread->number);
  });
}

void DependentFeed::end(std::uint32_t number) {
  observe(DependentStep::end, number);
  {
    const std::scoped_lock lock(m_mutex);
    const std::shared_ptr<Job>& job = m_jobs.at(number);
    if (job == nullptr || job->gone) return;
    if (!m_drawn[number]) m_drawn[number] = drawn_until_now(*job);
    job->gone = true;
    job->room.clear();
    if (job->terms.comes_again) job->needed = needed_by(number);
    m_group.end(number);
  }
  m_changed.notify(*m_timing.waiter, all_that_wait);
}

void DependentFeed::remove(std::uint32_t number) {
  end(number);
  std::shared_ptr<Job> job;
  {
    const std::scoped_lock lock(m_mutex);
    job = m_jobs.at(number);
  }
  if (job == nullptr) return;
  observe(DependentStep::remove, number);
  if (job->claimer.joinable()) job->claimer.join();
  wait_for_copies(*job);
  const std::scoped_lock lock(m_mutex);
  m_jobs[number].reset();
}

void DependentFeed::wait_for_copies(Job& job) {
  while (true) {
    const std::uint32_t seen = m_copied.ticket();
    {
      const std::scoped_lock lock(m_mutex);
      if (job.copying == 0) return;
    }
    m_copied.wait(*m_timing.waiter, seen, m_timing.clock->after(claim_again_seconds));
  }
}

void DependentFeed::stop() {
  {
    const std::scoped_lock lock(m_mutex);
    m_stopped = true;
  }
  m_changed.notify(*m_timing.waiter, all_that_wait);
}

void DependentFeed::stop_recording() {
  const std::scoped_lock lock(m_mutex);
  m_group.stop_recording();
}

void DependentFeed::freeze() {
  stop();
  std::array<std::shared_ptr<Job>, most_dependent_jobs> jobs;
  {
    const std::scoped_lock lock(m_mutex);
    m_frozen = true;
    jobs = m_jobs;
  }
  for (const std::shared_ptr<Job>& job : jobs) {
    if (job == nullptr) continue;
    if (job->claimer.joinable()) job->claimer.join();
    wait_for_copies(*job);
  }
}

std::vector<SampleId> DependentFeed::needed_by(std::uint32_t number) const {
  std::vector<SampleId> samples;
  const std::span<const JobSet> cells = m_group.sets().cells();
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if ((cells[cell] & set_of(number)) == 0) continue;
    const std::span<const SampleId> of_cell = m_group.sets().samples_in(cell);
    samples.insert(samples.end(), of_cell.begin(), of_cell.end());
  }
  return samples;
}

DependentFeed::Rest DependentFeed::rest(std::uint32_t number, std::uint64_t next) const {
  const std::scoped_lock lock(m_mutex);
  const Job& job = *m_jobs.at(number);
  // What is not in a slot any more was released; what is not whole was not taken.
  const auto is_there = [&](std::uint64_t sequence) {
    return std::ranges::any_of(job.batches, [&](const Job::OpenBatch& batch) { return batch.size > 0 && batch.claim.sequence == sequence; });
  };
  const std::uint64_t end = job.terms.first + job.claimed;
  std::uint64_t least = end;
  while (least > job.terms.first && is_there(least - 1)) --least;
  std::uint64_t most = end;
  for (const Job::OpenBatch& batch : job.batches)
    if (batch.done < batch.size) most = std::min(most, batch.claim.sequence);
  Rest rest{std::clamp(next, least, std::max(least, most))};
  if (rest.next % job.batches_per_epoch == 0) return rest;
  const std::uint64_t epoch = rest.next / job.batches_per_epoch;
  for (const Job::OpenBatch& batch : job.batches) {
    if (batch.size > 0 && batch.claim.sequence >= rest.next && batch.claim.epoch == epoch)
      rest.samples.insert(rest.samples.end(), batch.ids.begin(), batch.ids.end());
  }
  std::vector<SampleId> undrawn;
  if (!job.drawing) undrawn = job.terms.rest;
  if (job.drawing == epoch) undrawn = job.gone ? job.needed : needed_by(number);
  rest.samples.insert(rest.samples.end(), undrawn.begin(), undrawn.end());
  std::ranges::sort(rest.samples);
  return rest;
}

DependentGroup::State DependentFeed::state() const {
  const std::scoped_lock lock(m_mutex);
  return m_group.state();
}

void DependentFeed::claim_slots(Job& job) {
  while (true) {
    {
      const std::scoped_lock lock(m_mutex);
      if (job.gone || m_stopped) return;
    }
    StagingClaim claim;
    observe(DependentStep::claim_slot, job.number);
    const Status status = job.producer.claim(claim, m_timing.clock->after(claim_again_seconds));
    if (status.code == StatusCode::timeout) continue;
    if (!status.ok()) return;
    observe(DependentStep::open_batch, job.number);
    open_batch(job, claim);
    m_changed.notify(*m_timing.waiter, 1);
  }
}

void DependentFeed::open_batch(Job& job, const StagingClaim& claim) {
  const std::scoped_lock lock(m_mutex);
  if (job.gone) return;
  const std::size_t before = std::min<std::size_t>(claim.index * job.terms.batch_size, job.samples);
  Job::OpenBatch& batch = job.batches[claim.slot];
  batch.claim = claim;
  batch.size = std::min<std::size_t>(job.terms.batch_size, job.samples - before);
  batch.ids.clear();
  batch.lost.clear();
  batch.done = 0;
  batch.since = m_timing.clock->now();
  job.room.push_back(claim.slot);
  ++job.claimed;
}

/// Half of what the job can have staged is not drawn, or all that is left is; or it has waited for long.
bool DependentFeed::due(const Job& job) const {
  if (job.room.size() * 2 >= std::min<std::size_t>(job.terms.slots, job.batches_per_epoch)) return true;
  if (job.claimed == job.terms.batches) return true;
  return m_timing.clock->now() - job.batches[job.room.front()].since >= m_spec.patience;
}

JobSet DependentFeed::asking() const {
  if (m_held) return 0;
  JobSet jobs = 0;
  bool any_due = false;
  for (std::uint32_t number = 0; number < m_jobs.size(); ++number) {
    const Job* const job = m_jobs[number].get();
    if (job == nullptr || job->room.empty()) continue;
    jobs |= set_of(number);
    any_due = any_due || due(*job);
  }
  return any_due ? jobs : 0;
}

void DependentFeed::draw(std::vector<Handed>& ready) {
  const JobSet jobs = asking();
  if (jobs == 0) return;
  for (JobSet left = jobs; left != 0; left &= left - 1) {
    const auto number = static_cast<std::uint32_t>(std::countr_zero(left));
    if (m_group.sets().remaining(number) == 0) begin_epoch(number);
  }
  ++m_totals.rounds;
  for (const DependentGroup::Work& work : m_group.draw(jobs)) {
    const VersionPtr version = version_of(work);
    for (JobSet left = work.jobs; left != 0; left &= left - 1) add_to_batch(static_cast<std::uint32_t>(std::countr_zero(left)), version, ready);
  }
  for (JobSet left = jobs; left != 0; left &= left - 1) {
    const auto number = static_cast<std::uint32_t>(std::countr_zero(left));
    const Job& job = *m_jobs[number];
    if (!m_drawn[number] && job.claimed == job.terms.batches && job.room.empty()) m_drawn[number] = drawn_until_now(job);
  }
}

void DependentFeed::begin_epoch(std::uint32_t number) {
  Job& job = *m_jobs[number];
  const std::vector<SampleId>& samples = job.drawing || job.terms.rest.empty() ? job.terms.subset : job.terms.rest;
  job.drawing = job.batches[job.room.front()].claim.epoch;
  samples.empty() ? m_group.begin_epoch(number) : m_group.begin_epoch(number, samples);
}

DependentFeed::VersionPtr DependentFeed::version_of(const DependentGroup::Work& work) {
  if (!work.prepare) {
    m_totals.from_store += static_cast<std::uint64_t>(std::popcount(work.jobs));
    return m_kept[*work.place];
  }
  auto version = std::make_shared<Version>();
  version->sample = work.sample;
  version->generation = work.generation;
  m_queue.push_back(version);
  if (work.place) {
    if (m_kept[*work.place] != nullptr) let_go(*m_kept[*work.place]);
    ++version->holders;
    m_kept[*work.place] = version;
  }
  return version;
}

void DependentFeed::add_to_batch(std::uint32_t number, const VersionPtr& version, std::vector<Handed>& ready) {
  const std::shared_ptr<Job>& job = m_jobs[number];
  const std::uint32_t slot = job->room.front();
  Job::OpenBatch& batch = job->batches[slot];
  Delivery delivery{job, slot, static_cast<std::uint32_t>(batch.ids.size())};
  batch.ids.push_back(version->sample);
  ++m_totals.drawn;
  ++job->drawn;
  if (batch.ids.size() == batch.size) job->room.pop_front();
  if (version->ready) {
    ++version->holders;
    ready.push_back({version, std::move(delivery)});
  } else {
    version->waiting.push_back(std::move(delivery));
  }
}

bool DependentFeed::hand_to_loader(StagingClaim& claim) {
  if (m_queue.empty() || m_slots.empty() || m_places.empty()) return false;
  const VersionPtr version = std::move(m_queue.front());
  m_queue.pop_front();
  version->place = m_places.back();
  m_places.pop_back();
  claim = {m_sequence, 0, m_sequence, m_slots.back(), {data(*version), m_place_bytes}};
  m_slots.pop_back();
  ++m_sequence;
  ++m_totals.prepared;
  m_in_flight[claim.slot] = version;
  return true;
}

Status DependentFeed::claim(StagingClaim& claim, Deadline deadline) {
  std::vector<Handed> ready;
  while (true) {
    observe(DependentStep::draw);
    const std::uint32_t seen = m_changed.ticket();
    {
      const std::scoped_lock lock(m_mutex);
      if (m_stopped) return {StatusCode::end, 0};
      if (m_queue.empty()) draw(ready);
      if (ready.empty() && hand_to_loader(claim)) return {};
    }
    if (!ready.empty()) {
      for (const Handed& each : ready) deliver(*each.version, each.delivery);
      const std::scoped_lock lock(m_mutex);
      for (const Handed& each : ready) let_go(*each.version);
      ready.clear();
      continue;
    }
    if (m_timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    m_changed.wait(*m_timing.waiter, seen, {std::min(deadline.at, m_timing.clock->after(claim_again_seconds).at)});
  }
}

ClaimedSamples::Work DependentFeed::of(const StagingClaim& claim) {
  const Version& version = *m_in_flight[claim.slot];
  return {{&version.sample, 1}, version.generation};
}

void DependentFeed::publish(const StagingClaim& claim, const StagedFacts& facts) {
  observe(DependentStep::prepared);
  VersionPtr version;
  std::vector<Delivery> waiting;
  {
    const std::scoped_lock lock(m_mutex);
    version = std::move(m_in_flight[claim.slot]);
    version->ready = true;
    version->failed = facts.failed > 0;
    waiting = std::move(version->waiting);
    m_slots.push_back(claim.slot);  // the claim is another's from now on
  }
  m_changed.notify(*m_timing.waiter, 1);
  for (const Delivery& delivery : waiting) deliver(*version, delivery);
  {
    const std::scoped_lock lock(m_mutex);
    let_go(*version);
  }
  m_changed.notify(*m_timing.waiter, 1);
}

void DependentFeed::let_go(Version& version) {
  if (--version.holders == 0 && version.place) m_places.push_back(*std::exchange(version.place, std::nullopt));
}

void DependentFeed::deliver(const Version& version, const Delivery& delivery) {
  Job& job = *delivery.job;
  Job::OpenBatch& batch = job.batches[delivery.slot];
  observe(DependentStep::copy, job.number);
  {
    const std::scoped_lock lock(m_mutex);
    if (job.gone || m_frozen) return;
    ++job.copying;
  }
  const std::size_t bytes = m_spec.sample.sample_bytes();
  if (!version.failed) std::memcpy(batch.claim.bytes.data() + delivery.position * bytes, data(version), bytes);
  observe(DependentStep::copied, job.number);
  bool whole = false;
  {
    const std::scoped_lock lock(m_mutex);
    if (version.failed) batch.lost.push_back(delivery.position);
    whole = ++batch.done == batch.size;
  }
  if (whole) observe(DependentStep::finish, job.number);
  if (whole) finish(job, delivery.slot);
  {
    const std::scoped_lock lock(m_mutex);
    --job.copying;
  }
  m_copied.notify(*m_timing.waiter, all_that_wait);
}

void DependentFeed::finish(Job& job, std::uint32_t slot) {
  const Job::OpenBatch& batch = job.batches[slot];
  const StagingClaim claim = batch.claim;
  BatchAssembly::Draw draw;
  draw.token = {slot, claim.sequence};
  draw.slot = claim.bytes.data();
  draw.sequence = claim.sequence;
  draw.step = claim.sequence;
  draw.epoch = claim.epoch;
  job.assembly.begin(slot, draw, batch.ids, *m_spec.index);
  for (const std::uint32_t position : batch.lost) job.assembly.mark_failed(slot, position);
  job.assembly.finish(slot, static_cast<std::uint32_t>(batch.ids.size()), m_timing.clock->now());
  const BatchAssembly::Finished facts = job.assembly.finished(slot);
  job.producer.publish(claim, {facts.good, facts.failed, facts.ready_at});
}

DependentFeed::Drawn DependentFeed::drawn_until_now(const Job& job) const {
  Drawn drawn{job.drawn, m_totals};
  drawn.group.prepared += m_queue.size();
  return drawn;
}

std::optional<DependentFeed::Drawn> DependentFeed::drawn_by(std::uint32_t number) const {
  const std::scoped_lock lock(m_mutex);
  if (m_drawn.at(number)) return m_drawn[number];
  return m_jobs[number] == nullptr ? std::nullopt : std::optional(drawn_until_now(*m_jobs[number]));
}

DependentFeed::Totals DependentFeed::totals() const {
  const std::scoped_lock lock(m_mutex);
  return m_totals;
}

std::string DependentFeed::failure() const {
  const std::scoped_lock lock(m_mutex);
  return m_failure;
}

}  // namespace dsanalyze
