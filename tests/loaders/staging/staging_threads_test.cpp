#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "loaders/staging/keeper.hpp"
#include "loaders/staging/stepping.hpp"
#include "loaders/staging/taker.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t thread_epochs = 6;

/// All participants as threads over one piece of memory, so that a thread sanitizer sees each access; a batch is plain bytes.
class GroupOfThreads {
 public:
  explicit GroupOfThreads(const StagingFacts& facts) : m_facts(facts), m_view(*prepared(*m_board, facts)), m_mapped(m_view) {
    m_keeper = std::make_unique<staging::Keeper>(
        m_view, *m_board, [](std::uint32_t) { return true; }, system_timing());
    if (facts.producers == Producers::coordinator) add_slab(staging::coordinator_place);
    for (std::uint32_t i = 0; i < facts.jobs; ++i) {
      const std::uint32_t place = m_keeper->admit();
      m_pages.push_back(std::make_unique<staging::ControlPage>());
      m_view.map_page(place, m_pages.back().get());
      if (facts.producers == Producers::jobs) add_slab(place);
    }
  }

  /// Wrong or missing batches.
  std::uint64_t run() {
    std::vector<std::jthread> threads;
    for (const auto& owned : m_slabs) threads.emplace_back([this, &slab = *owned] { produce(slab); });
    std::vector<std::jthread> takers;
    for (std::uint32_t place = 0; place < m_facts.jobs; ++place) takers.emplace_back([this, place] { consume(place); });
    std::atomic<bool> over{false};
    std::jthread keeper([&] { keep(over); });
    takers.clear();
    over = true;
    keeper.join();
    return m_wrong;
  }

 private:
  struct OwnedSlab {
    std::uint32_t place = 0;
    staging::SlabHead head;
    std::vector<std::vector<std::uint64_t>> slots;
  };
  static staging::Board* prepared(staging::Board& board, const StagingFacts& facts) {
    board.facts = facts;
    return &board;
  }
  void add_slab(std::uint32_t place) {
    m_slabs.push_back(std::make_unique<OwnedSlab>());
    m_slabs.back()->place = place;
    m_slabs.back()->slots.assign(m_facts.slots(), std::vector<std::uint64_t>(64));
    m_view.map_slab(place, &m_slabs.back()->head);
  }
  void produce(OwnedSlab& slab) {
    staging::Filler filler(m_view, slab.head, slab.place, system_timing());
    std::shared_ptr<const void> kept;
    while (m_stepping.run(filler, system_timing().clock->after(30), kept).ok()) {
      const StagingClaim claim = filler.claimed();
      for (std::size_t i = 0; i < 64; ++i) slab.slots[claim.slot][i] = mix(claim.sequence, i);
      m_stepping.publish(filler, claim, {1, 0, 0});
    }
  }
  void consume(std::uint32_t place) {
    staging::Taker taker(m_view, *m_pages[place], place, system_timing());
    taker.leave_after(thread_epochs - 1);
    std::uint64_t next = 0;
    std::shared_ptr<const void> kept;
    while (m_stepping.run(taker, system_timing().clock->after(30), kept).ok()) {
      const std::uint64_t sequence = taker.batch().sequence;
      if (sequence != next++) ++m_wrong;
      for (const auto& slab : m_slabs) {
        if (slab->place != taker.found().producer) continue;
        for (std::size_t i = 0; i < 64; ++i) m_wrong += slab->slots[taker.found().slot][i] == mix(sequence, i) ? 0 : 1;
      }
      taker.mark_released(sequence);
      while (taker.step_release(*system_timing().waiter)) continue;
    }
    m_wrong += thread_epochs * m_facts.batches_per_epoch - next;
    taker.leave();
  }
  void keep(const std::atomic<bool>& over) {
    while (!over) {
      StagingRound round;
      const staging::StepResult progress = m_keeper->step(round);
      if (progress.outcome != staging::Outcome::ready) continue;
      if (m_view.opened() == thread_epochs) m_keeper->end();
      system_timing().waiter->sleep_until(progress.until.at);
    }
    m_keeper->end();
    StagingRound last;
    while (m_keeper->step(last).outcome != staging::Outcome::ready) continue;
  }

  const StagingFacts m_facts;
  std::unique_ptr<staging::Board> m_board = std::make_unique<staging::Board>();
  staging::View m_view;
  staging::Mapped m_mapped;
  staging::Stepping m_stepping{system_timing(), {}, [] { return true; }, m_mapped};
  std::unique_ptr<staging::Keeper> m_keeper;
  std::vector<std::unique_ptr<staging::ControlPage>> m_pages;
  std::vector<std::unique_ptr<OwnedSlab>> m_slabs;
  std::atomic<std::uint64_t> m_wrong{0};
};

TEST_CASE("threads that share one staging area each get every batch whole, in order") {
  StagingFacts facts;
  facts.jobs = 4;
  facts.batches_per_epoch = 41;
  facts.prefetch = 4;
  facts.look_again = 2'000'000;
  for (const auto producers : {Producers::jobs, Producers::coordinator}) {
    facts.producers = producers;
    CHECK(GroupOfThreads(facts).run() == 0);
  }
}

}  // namespace
}  // namespace dsanalyze
