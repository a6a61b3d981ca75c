#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "loaders/staging/filler.hpp"
#include "loaders/staging/keeper.hpp"
#include "loaders/staging/taker.hpp"
#include "staging_explorer.hpp"

namespace dsanalyze::testing {
using staging::Board;
using staging::ControlPage;
using staging::coordinator_place;
using staging::Filler;
using staging::Keeper;
using staging::no_job;
using staging::Sequence;
using staging::SlabHead;
using staging::StepResult;
using staging::Taker;
using staging::View;

constexpr std::size_t words_of_slot = 3;

using Content = std::array<std::uint64_t, words_of_slot>;

inline Content content_of_batch(Sequence sequence) {
  Content content{};
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = mix(sequence, i, 77);
  return content;
}

class Simulation;

/// One cooperatively scheduled participant.
class Actor {
 public:
  Actor(Simulation& whole, std::uint32_t number) : simulation(whole), job(number) {}
  virtual ~Actor() = default;
  virtual void run() = 0;
  [[nodiscard]] virtual StagingStep next_step() const = 0;

  Simulation& simulation;
  const std::uint32_t job;  ///< number in `jobs`; `no_job`: the coordinator's
  bool done = false;
  bool asleep = false;
  std::optional<StepResult> about_to_wait;
  StagingStep waits_in = StagingStep::look;
  Deadline until;
  const std::atomic<std::uint32_t>* word = nullptr;
};

/// Time that passes with steps, and jumps when all sleep.
class SimulatedTime final : public Clock, public Waiter {
 public:
  [[nodiscard]] Nanoseconds now() const override { return m_now; }
  bool wait(const std::atomic<std::uint32_t>& /*word*/, std::uint32_t /*expected*/, Deadline /*deadline*/) override { return false; }
  void wake(const std::atomic<std::uint32_t>& word, int /*count*/) override {
    for (Actor* const actor : sleepers) {
      if (actor->word == &word) actor->asleep = false;
    }
  }
  void sleep_until(Nanoseconds instant) override { m_now = std::max(m_now, instant); }
  Timing timing() { return {this, this}; }
  std::vector<Actor*> sleepers;

 private:
  Nanoseconds m_now = nanoseconds_per_second;
};

/// The coordinator tells of a place's segments, or that they are gone (nullptr); the job acts on it when it gets to it.
struct Introduced {
  std::uint32_t place = no_job;
  const ControlPage* page = nullptr;
  const SlabHead* slab = nullptr;
};

struct SimulatedJob {
  std::uint32_t place = no_job;
  std::unique_ptr<View> view;
  std::deque<Introduced> mail;
  std::unique_ptr<ControlPage> page;
  std::unique_ptr<SlabHead> slab;
  std::vector<Content> slots;
  std::optional<Taker> taker;
  std::optional<Filler> filler;
  bool lives = true;
  bool hangs = false;
  bool finished = false;
  Nanoseconds stopped_until = 0;
  Nanoseconds died_at = 0;
  std::optional<Sequence> first;
  Sequence next = 0;
};

class Simulation {
 public:
  explicit Simulation(const StagingSchedule& schedule);
  StagingRun run();

  void problem(const std::string& what) {
    if (result.problem.empty()) result.problem = "step " + std::to_string(result.steps) + ": " + what;
  }
  void note(StagingStep step) { ++result.coverage.taken[static_cast<std::size_t>(step)]; }
  /// A step that waits: the actor looks at the word once more when it is scheduled next, as the kernel does.
  static void sleep_at(Actor& actor, const StepResult& progress) {
    actor.about_to_wait = progress;
    actor.waits_in = progress.did;
  }
  std::uint64_t draw(std::uint64_t bound) { return m_random.below(bound); }
  [[nodiscard]] std::vector<Content>& slots_of(const SlabHead* slab);
  [[nodiscard]] SimulatedJob& newest_at(std::uint32_t place);
  void departed(const StagingRound& round);

  const StagingSchedule& schedule;
  StagingRun result;
  SimulatedTime time;
  std::unique_ptr<Board> board = std::make_unique<Board>();
  std::unique_ptr<View> view;
  std::deque<SimulatedJob> jobs;
  SimulatedJob coordinator;
  std::optional<Keeper> keeper;
  Nanoseconds last_take = 0;
  std::set<Sequence> published;
  bool faulty = false;

 private:
  void add_job();
  void tell(SimulatedJob& job, const Introduced& of);
  void deliver();
  void apply(const StagingFault& fault);
  void apply_those_before(const Actor& actor);
  void hang(SimulatedJob& job);
  Actor* choose();
  void dispatch(Actor& actor);
  void check();
  [[nodiscard]] bool gone(const Actor& actor) const;
  [[nodiscard]] bool over() const;

  RandomStream m_random;
  std::vector<std::unique_ptr<Actor>> m_actors;
  std::size_t m_current = 0;
  std::vector<StagingFault> m_awaited;  ///< those that wait for a step
};

std::unique_ptr<Actor> make_taker_actor(Simulation& simulation, std::uint32_t job);
std::unique_ptr<Actor> make_filler_actor(Simulation& simulation, std::uint32_t job);
std::unique_ptr<Actor> make_keeper_actor(Simulation& simulation);

}  // namespace dsanalyze::testing
