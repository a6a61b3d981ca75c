#include <fmt/format.h>

#include <algorithm>

#include "staging_simulation.hpp"

namespace dsanalyze::testing {
namespace {

using staging::Outcome;

/// Takes, looks at what it took twice, releases.
class TakerActor final : public Actor {
 public:
  using Actor::Actor;
  void run() override {
    SimulatedJob& me = simulation.jobs[job];
    if (m_leaving) {
      me.taker->leave();
      me.finished = true;
      simulation.note(StagingStep::leave);
      return;
    }
    if (m_releasing || (!m_held.empty() && (m_full || (!insists() && simulation.draw(2) == 0)))) {
      release(me);
      return;
    }
    const StepResult progress = me.taker->step();
    simulation.note(progress.did);
    const bool between_epochs = progress.word == &simulation.board->changes;
    const bool waits_on = progress.outcome == Outcome::wait && insists() && !between_epochs;
    const bool stuck = (progress.outcome == Outcome::wait && !waits_on) || progress.outcome == Outcome::ended;
    if (progress.outcome == Outcome::wait && (m_held.empty() || waits_on)) Simulation::sleep_at(*this, progress);
    m_full = progress.outcome == Outcome::busy || (stuck && !m_held.empty());  // a trainer gives back what it has without waiting for more
    if (progress.outcome == Outcome::ready) take(me);
    m_leaving = progress.outcome == Outcome::ended && m_held.empty();
    if (progress.outcome == Outcome::put_out) {
      simulation.problem(fmt::format("job {} was put out although it did nothing wrong", job));
    }
  }
  [[nodiscard]] StagingStep next_step() const override {
    if (m_leaving) return StagingStep::leave;
    if (m_releasing) return StagingStep::wake_producers;
    return m_full ? StagingStep::release : simulation.jobs[job].taker->next_step();
  }

 private:
  [[nodiscard]] bool insists() const { return simulation.schedule.appetite == StagingAppetite::all; }
  void take(SimulatedJob& me) {
    const StagedBatch& batch = me.taker->batch();
    if (!me.first) {
      me.first = me.next = batch.sequence;
      if (batch.sequence != simulation.view->start_of(batch.epoch))
        simulation.problem(fmt::format("job {} came in at batch {} of an epoch", job, batch.index));
    }
    if (batch.sequence != me.next) simulation.problem(fmt::format("job {} got batch {} where {} was next", job, batch.sequence, me.next));
    ++me.next;
    m_held.push_back({batch.sequence, me.taker->found()});
    look_at(m_held.back());
    simulation.result.longest_gap = std::max(simulation.result.longest_gap, simulation.time.now() - simulation.last_take);
    simulation.last_take = simulation.time.now();
  }
  void release(SimulatedJob& me) {
    if (!m_releasing) {
      look_at(m_held.front());
      if (!me.taker->mark_released(m_held.front().sequence)) simulation.problem("a held batch could not be released");
      m_held.pop_front();
      m_full = false;
    }
    const auto did = me.taker->step_release(simulation.time);
    m_releasing = did.has_value();
    if (did) simulation.note(*did);
  }
  struct Held {
    Sequence sequence;
    View::Place place;
  };
  void look_at(const Held& held) {
    if (simulation.slots_of(held.place.slab)[held.place.slot] == content_of_batch(held.sequence)) return;
    simulation.problem(
        fmt::format("job {} reads batch {} in slot {} of place {}: it is not whole", job, held.sequence, held.place.slot, held.place.producer));
  }
  std::deque<Held> m_held;
  bool m_full = false;
  bool m_releasing = false;
  bool m_leaving = false;
};

/// Claims, writes a word of the slot a step, publishes, wakes. Up to two batches are in the making at once.
class FillerActor final : public Actor {
 public:
  using Actor::Actor;
  void run() override {
    Filler& filler = *me().filler;
    if (m_wake_owed) {
      filler.wake(simulation.time);
      m_wake_owed = false;
      simulation.note(StagingStep::wake_jobs);
      return;
    }
    if (!m_making.empty() && (m_making.size() == 2 || m_idle || simulation.draw(3) != 0)) {
      fill(filler, simulation.draw(m_making.size()));
      return;
    }
    const StepResult progress = filler.step();
    simulation.note(progress.did);
    if (progress.outcome == Outcome::wait && m_making.empty()) Simulation::sleep_at(*this, progress);
    m_idle = progress.outcome == Outcome::wait;
    if (progress.outcome == Outcome::ended) done = true;
    if (progress.outcome == Outcome::ready) {
      const StagingClaim& claim = filler.claimed();
      me().slots[claim.slot].fill(0xdeadULL);
      if (!simulation.faulty) check_epoch_before(claim);
      m_making.push_back({claim, 0});
    }
  }
  [[nodiscard]] StagingStep next_step() const override {
    if (m_wake_owed) return StagingStep::wake_jobs;
    return m_making.empty() ? me().filler->next_step() : StagingStep::publish;
  }

 private:
  [[nodiscard]] SimulatedJob& me() const { return job == no_job ? simulation.coordinator : simulation.jobs[job]; }
  struct Making {
    StagingClaim claim;
    std::size_t words;
  };
  void check_epoch_before(const StagingClaim& claim) const {
    const Sequence start = claim.sequence - claim.index;
    const Sequence before = std::max(start - std::min<Sequence>(start, simulation.schedule.facts.batches_per_epoch),
                                     simulation.view->start_of(simulation.schedule.facts.first_epoch));
    for (Sequence sequence = before; sequence < start; ++sequence) {
      if (!simulation.published.contains(sequence))
        simulation.problem(fmt::format("batch {} is begun before batch {} of the epoch before it is published", claim.sequence, sequence));
    }
  }
  void fill(Filler& filler, std::size_t which) {
    Making& making = m_making[which];
    if (making.words < words_of_slot) {
      me().slots[making.claim.slot][making.words] = content_of_batch(making.claim.sequence)[making.words];
      ++making.words;
      return;
    }
    filler.publish(making.claim, {1, 0, simulation.time.now()});
    simulation.published.insert(making.claim.sequence);
    simulation.note(StagingStep::publish);
    ++simulation.result.made;
    m_making.erase(m_making.begin() + static_cast<std::ptrdiff_t>(which));
    m_wake_owed = true;
    m_idle = false;
  }
  std::vector<Making> m_making;
  bool m_wake_owed = false;
  bool m_idle = false;
};

class KeeperActor final : public Actor {
 public:
  using Actor::Actor;
  void run() override {
    StagingRound round;
    const StepResult progress = simulation.keeper->step(round);
    simulation.note(progress.did);
    simulation.departed(round);
    if (progress.outcome == Outcome::ready) {
      if (simulation.view->opened() >= simulation.schedule.facts.first_epoch + simulation.schedule.epochs) simulation.keeper->end();
      simulation.keeper->begin();
      Simulation::sleep_at(*this, progress);
    }
  }
  [[nodiscard]] StagingStep next_step() const override { return simulation.keeper->next_step(); }
};

}  // namespace

std::unique_ptr<Actor> make_taker_actor(Simulation& simulation, std::uint32_t job) { return std::make_unique<TakerActor>(simulation, job); }
std::unique_ptr<Actor> make_filler_actor(Simulation& simulation, std::uint32_t job) { return std::make_unique<FillerActor>(simulation, job); }
std::unique_ptr<Actor> make_keeper_actor(Simulation& simulation) { return std::make_unique<KeeperActor>(simulation, no_job); }

}  // namespace dsanalyze::testing
