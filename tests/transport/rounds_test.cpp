#include "transport/team/rounds.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "ranks_fixture.hpp"

namespace dsanalyze {
namespace {

using test::JobOfRanks;

TEST_CASE("A gather gives every rank's bytes in the order of ranks, in jobs of one to five") {
  for (std::uint32_t world = 1; world <= 5; ++world) {
    JobOfRanks job(world);
    job.each([&](std::uint32_t rank, Ranks& ranks) {
      for (std::uint8_t round = 0; round < 20; ++round) {
        const std::array<std::byte, 2> mine = {static_cast<std::byte>(rank), static_cast<std::byte>(round)};
        std::vector<std::byte> all(mine.size() * world);
        CHECK(ranks.collective().gather(mine, all, test::in_good_time()).ok());
        for (std::uint32_t other = 0; other < world; ++other) {
          CHECK(all[std::size_t{2} * other] == static_cast<std::byte>(other));
          CHECK(all[std::size_t{2} * other + 1] == static_cast<std::byte>(round));
        }
      }
      CHECK(ranks.collective().world() == static_cast<int>(world));
      CHECK(ranks.collective().rank() == static_cast<int>(rank));
    });
  }
}

TEST_CASE("A sum is the same to the last bit on all ranks, and long ones arrive") {
  constexpr std::size_t count = 200'000;
  constexpr std::uint32_t world = 4;
  JobOfRanks job(world);
  std::vector<std::vector<double>> values(world);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    RandomStream random(rank);
    for (std::size_t i = 0; i < count; ++i) values[rank].push_back(random.uniform(-1, 1) * (i % 3 == 0 ? 1e12 : 1e-6));
  }
  std::vector<double> expected = values[0];
  for (std::uint32_t rank = 1; rank < world; ++rank) {
    for (std::size_t i = 0; i < count; ++i) expected[i] += values[rank][i];
  }
  job.each([&](std::uint32_t rank, Ranks& ranks) { CHECK(ranks.collective().sum(values[rank], test::in_good_time()).ok()); });
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    CHECK(std::ranges::equal(
        values[rank], expected, {}, [](double value) { return std::bit_cast<std::uint64_t>(value); },
        [](double value) { return std::bit_cast<std::uint64_t>(value); }));
  }
}

TEST_CASE("A barrier lets no rank through before all have come") {
  JobOfRanks job(3);
  std::atomic<int> came{0};
  job.each([&](std::uint32_t, Ranks& ranks) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      CHECK(ranks.collective().barrier(test::in_good_time()).ok());
      CHECK(came >= 3 * round);
    }
  });
}

TEST_CASE("A rank that dies gives the others io, and what it said before counts") {
  JobOfRanks job(3);
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    CHECK(ranks.collective().barrier(test::in_good_time()).ok());
    // It has met the others and is gone before they may have looked.
    if (rank == 2) job.end(2);
  });
  job.each([&](std::uint32_t, Ranks& ranks) { CHECK(ranks.collective().barrier(test::in_good_time()).code == StatusCode::io); });
  // Those that are left find that out, and go on.
  std::array<std::vector<std::uint32_t>, 2> agreed;
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    const Agreement agreement = ranks.agree_alive(0, test::in_good_time());
    CHECK(agreement.status.ok());
    agreed[rank] = agreement.ranks;
    std::vector<std::byte> all(3);
    const std::array<std::byte, 1> mine = {std::byte{9}};
    CHECK(ranks.collective().gather(mine, all, test::in_good_time()).ok());
    CHECK(all == std::vector<std::byte>{std::byte{9}, std::byte{9}, std::byte{0}});
    double value = rank + 1.0;
    CHECK(ranks.collective().sum(std::span(&value, 1), test::in_good_time()).ok());
    CHECK(value == 3);
  });
  CHECK(agreed[0] == std::vector<std::uint32_t>{0, 1});
  CHECK(agreed[1] == agreed[0]);
}

TEST_CASE("What is late for one round is not taken for the next one's") {
  JobOfRanks job(2);
  const std::array<std::byte, 1> first = {std::byte{1}};
  const std::array<std::byte, 1> second = {std::byte{2}};
  std::vector<std::byte> all(2);
  CHECK(job[0].collective().gather(first, all, {0}).code == StatusCode::timeout);
  CHECK(job[1].collective().gather(first, all, test::in_good_time()).ok());  // comes late
  CHECK(job[0].collective().gather(second, all, {0}).code == StatusCode::timeout);
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    std::vector<std::byte> parts(2);
    if (rank == 1) CHECK(ranks.collective().gather(second, parts, test::in_good_time()).ok());
  });
  // Rank 0 is in its third round by now, rank 1 has ended two.
  const Agreement agreement = [&] {
    Agreement mine;
    job.each([&](std::uint32_t rank, Ranks& ranks) {
      Agreement each = ranks.agree_alive(5, test::in_good_time());
      CHECK(each.status.ok());
      if (rank == 0) mine = std::move(each);
    });
    return mine;
  }();
  CHECK(agreement.ranks.size() == 2);
  job.each([](std::uint32_t, Ranks& ranks) { CHECK(ranks.collective().barrier(test::in_good_time()).ok()); });
}

TEST_CASE("A rank that is rounds ahead is not waited for") {
  JobOfRanks job(2);
  for (int round = 0; round < 5; ++round) CHECK(job[0].collective().barrier({0}).code == StatusCode::timeout);
  CHECK(test::comes_true([&] { return job[1].collective().barrier(system_timing().clock->after(0.01)).code == StatusCode::io; }));
}

TEST_CASE("Parts of different sizes are found, and parts that are too large refused") {
  JobOfRanks job(2);
  job.each([](std::uint32_t rank, Ranks& ranks) {
    const std::vector<std::byte> mine(rank + 1);
    std::vector<std::byte> all(2 * mine.size());
    CHECK(ranks.collective().gather(mine, all, test::in_good_time()).code == StatusCode::corrupt);
    CHECK(ranks.collective().gather(mine, std::span(all).first(1), test::in_good_time()).code == StatusCode::unsupported);
  });
}

/// Ranks that talk to one another in memory, and die at a certain word.
class TalkingRanks {
 public:
  explicit TalkingRanks(std::uint32_t world) : m_words(world), m_says_at_most(world, SIZE_MAX), m_is_dead(world) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      RankFacts facts = test::facts_of(rank, world);
      facts.places = 1;
      m_jobs.push_back(std::make_unique<transport::Job>(facts, system_timing()));
      m_jobs.back()->bury = [this, rank](std::uint32_t other, transport::Death death) {
        if (other != rank) {
          const bool comes_through = m_jobs[rank]->members.alive(other) && m_jobs[other]->members.alive(rank);
          if (comes_through && transport::may_live(death) && m_jobs[rank]->members.goes_on()) m_jobs[other]->bury(other, death);  // is told
          return cut(rank, other);
        }
        // It does not go on, and leaves.
        m_jobs[rank]->members.bury(rank, death);
        for (std::uint32_t each = 0; each < m_jobs.size(); ++each) {
          if (each != rank) cut(rank, each);
        }
      };
      m_rounds.push_back(std::make_unique<transport::Rounds>(
          *m_jobs.back(), [this, rank](std::uint32_t to, transport::FrameKind kind, std::uint64_t number, const transport::SharedBytes& bytes) {
            if (m_words[rank]++ == m_says_at_most[rank]) die(rank);
            const bool is_heard = !m_held_back.contains({rank, to}) && !m_is_dead[rank] && !m_is_dead[to] && m_jobs[rank]->members.alive(to) &&
                                  m_jobs[to]->members.alive(rank);
            if (is_heard) m_rounds[to]->hear(rank, {kind, 0, number, 1}, *bytes);
          }));
    }
  }
  void dies_at_word(std::uint32_t rank, std::size_t word) { m_says_at_most[rank] = word; }
  void nobody_dies() { std::ranges::fill(m_says_at_most, SIZE_MAX); }
  /// Each takes the other's end for certain.
  void cut(std::uint32_t one, std::uint32_t other) {
    const std::scoped_lock lock(m_mutex);
    m_jobs[one]->members.bury(other, transport::Death::ended);
    m_jobs[other]->members.bury(one, transport::Death::ended);
  }
  /// Nothing comes through between them any more, nor that one hangs up.
  void silence(std::uint32_t one, std::uint32_t other) {
    const std::scoped_lock lock(m_mutex);
    m_jobs[one]->members.bury(other, transport::Death::silent);
    m_jobs[other]->members.bury(one, transport::Death::silent);
  }
  /// What the one says from now on has not come to the other when the test ends.
  void hold_back(std::uint32_t from, std::uint32_t to) { m_held_back.emplace(from, to); }
  /// It ends, and one of the others alone notices.
  void end(std::uint32_t rank, std::uint32_t noticed_by) {
    m_is_dead[rank] = true;
    m_jobs[noticed_by]->members.bury(rank, transport::Death::ended);
  }
  transport::Rounds& rounds(std::uint32_t rank) { return *m_rounds[rank]; }
  [[nodiscard]] bool is_dead(std::uint32_t rank) const { return m_is_dead[rank]; }
  [[nodiscard]] transport::Death death(std::uint32_t rank, std::uint32_t to) const { return m_jobs[to]->members.death(rank); }
  template <typename Each>
  void each(const Each& body) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < m_rounds.size(); ++rank) {
      if (!m_is_dead[rank]) threads.emplace_back([this, rank, &body] { body(rank, *m_rounds[rank]); });
    }
  }

 private:
  void die(std::uint32_t rank) {
    m_is_dead[rank] = true;
    for (std::uint32_t other = 0; other < m_jobs.size(); ++other) {
      if (other != rank) cut(rank, other);
    }
  }

  std::vector<std::unique_ptr<transport::Job>> m_jobs;
  std::vector<std::unique_ptr<transport::Rounds>> m_rounds;
  std::vector<std::atomic<std::size_t>> m_words;
  std::vector<std::size_t> m_says_at_most;
  std::vector<std::atomic<bool>> m_is_dead;
  std::set<std::pair<std::uint32_t, std::uint32_t>> m_held_back;
  std::mutex m_mutex;  ///< both ends of a pair learn of its end at once
};

/// All that are left agree; and once no rank dies any more, on those that are left.
void check_agreement(TalkingRanks& ranks, std::uint32_t world) {
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    if (epoch == 2) ranks.nobody_dies();
    std::vector<Agreement> outcomes(world);
    ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) { outcomes[rank] = rounds.agree(epoch, test::in_good_time()); });
    std::vector<std::uint32_t> left;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      if (!ranks.is_dead(rank)) left.push_back(rank);
    }
    for (const std::uint32_t rank : left) {
      CAPTURE(rank);
      CAPTURE(epoch);
      CHECK(outcomes[rank].status.ok());
      CHECK(outcomes[rank].ranks == (epoch == 2 ? left : outcomes[left.front()].ranks));
    }
  }
}

TEST_CASE("Ranks that are left agree who is, at whatever word one dies") {
  for (std::uint32_t world = 2; world <= 5; ++world) {
    for (std::size_t word = 0; word < std::size_t{3} * world; ++word) {
      CAPTURE(world);
      CAPTURE(word);
      TalkingRanks ranks(world);
      ranks.dies_at_word(world / 2, word);
      check_agreement(ranks, world);
    }
  }
}

TEST_CASE("Ranks that are left agree who is, at whatever words two or three die") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed);
    const auto world = static_cast<std::uint32_t>(3 + random.below(3));
    TalkingRanks ranks(world);
    for (std::uint32_t deaths = 0; deaths < 2 + random.below(2); ++deaths) {
      ranks.dies_at_word(static_cast<std::uint32_t>(random.below(world)), random.below(std::uint64_t{3} * world));
    }
    check_agreement(ranks, world);
  }
}

TEST_CASE("Of two ranks that take one another for dead, neither goes on beside the others") {
  for (int round = 0; round < 100; ++round) {
    TalkingRanks ranks(4);
    std::vector<Agreement> outcomes(4);
    {
      const std::jthread cut([&] { ranks.silence(0, 3); });
      ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) { outcomes[rank] = rounds.agree(0, test::in_good_time()); });
    }
    // One of them may have had the outcome just before, as one that dies just after it has; the next agreement finds it.
    ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) {
      if (outcomes[rank].status.ok()) outcomes[rank] = rounds.agree(1, test::in_good_time());
    });
    CHECK(outcomes[1].status.ok());
    for (const Agreement& outcome : outcomes) {
      if (outcome.status.ok()) CHECK(outcome.ranks == outcomes[1].ranks);
    }
  }
}

/// Ranks 0 and 3 of four have lost one another, and each has said so to another one of the ranks between: those leave out both.
struct LostPair {
  LostPair() {
    ranks.silence(0, 3);
    ranks.hold_back(0, 1);
    ranks.hold_back(3, 2);
    for (const std::uint32_t rank : {0U, 3U, 1U, 2U}) CHECK(looks(rank) == StatusCode::timeout);
  }
  /// Does what it can do by now.
  StatusCode looks(std::uint32_t rank) { return ranks.rounds(rank).agree(0, {0}).status.code; }

  TalkingRanks ranks{4};
};

TEST_CASE("Ranks that two others are left out for wait until those have ended, however slow they are, and go on") {
  LostPair pair;
  // One half without the lowest: too few while the others may live.
  for (const std::uint32_t rank : {1U, 2U, 1U}) CHECK(pair.looks(rank) == StatusCode::timeout);
  CHECK(pair.looks(3) == StatusCode::io);
  // Three are left by now, and these two are more than half.
  for (const std::uint32_t rank : {2U, 1U}) CHECK(pair.looks(rank) == StatusCode::ok);
  CHECK(pair.looks(0) == StatusCode::io);
}

TEST_CASE("A rank does not wait for the end of others of which it cannot hear, or that have another outcome") {
  for (const bool is_silent : {true, false}) {
    CAPTURE(is_silent);
    LostPair pair;
    if (is_silent) {
      pair.ranks.silence(1, 3);
    } else {
      CHECK(pair.looks(1) == StatusCode::timeout);
      for (const std::uint32_t rank : {0U, 3U}) {
        const auto outcome = transport::write_standing({{rank == 0, true, true, rank == 3}, transport::RankMask(4)});
        CHECK(pair.ranks.rounds(1).hear(rank, {transport::FrameKind::decided, 0, 0, 1}, outcome));
      }
    }
    CHECK(pair.looks(1) == StatusCode::io);
    CHECK(pair.ranks.death(1, 1) == transport::Death::alone);
  }
}

/// Who goes on where nothing comes through between the first `cut` ranks and the others, in whatever order they notice.
std::vector<bool> go_on_after_cut(std::uint32_t world, std::uint32_t cut, std::uint64_t seed) {
  TalkingRanks ranks(world);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t one = 0; one < cut; ++one) {
    for (std::uint32_t other = cut; other < world; ++other) pairs.emplace_back(one, other);
  }
  RandomStream random(seed);
  for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random.below(i)]);
  std::vector<char> goes_on(world);
  {
    const std::jthread cutter([&] {
      for (const auto& [one, other] : pairs) ranks.silence(one, other);
    });
    ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) {
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) goes_on[rank] = rounds.agree(epoch, test::in_good_time()).status.ok();
    });
  }
  // By now all have noticed.
  ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) { goes_on[rank] = rounds.agree(3, test::in_good_time()).status.ok(); });
  return {goes_on.begin(), goes_on.end()};
}

TEST_CASE("Where the network is cut, at most one side goes on, in whatever order and however late they notice") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    CHECK(go_on_after_cut(2, 1, seed) == std::vector<bool>{true, false});
    // Ranks that a side loses one after the other may end it all, or leave the smaller side as the larger rest.
    const auto three = go_on_after_cut(3, 1, seed);
    CHECK_FALSE((three[0] && (three[1] || three[2])));
    const auto four = go_on_after_cut(4, 2, seed);
    CHECK_FALSE(((four[0] || four[1]) && (four[2] || four[3])));
  }
}

TEST_CASE("Where all have noticed that the network is cut, the side that may go on does so whole") {
  const auto cut = [](std::uint32_t world, std::uint32_t first) {
    TalkingRanks ranks(world);
    for (std::uint32_t one = 0; one < first; ++one) {
      for (std::uint32_t other = first; other < world; ++other) ranks.silence(one, other);
    }
    std::vector<Agreement> outcomes(world);
    ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) { outcomes[rank] = rounds.agree(0, test::in_good_time()); });
    return outcomes;
  };
  struct Case {
    std::uint32_t world;
    std::uint32_t first;
    bool goes_first;
  };
  for (const Case& each : {Case{2, 1, true}, {3, 1, false}, {3, 2, true}, {4, 2, true}, {5, 2, false}}) {
    const std::uint32_t world = each.world;
    const std::uint32_t first = each.first;
    const bool goes_first = each.goes_first;
    CAPTURE(world);
    CAPTURE(first);
    const auto outcomes = cut(world, first);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      CAPTURE(rank);
      const bool expected = (rank < first) == goes_first;
      CHECK(outcomes[rank].status.code == (expected ? StatusCode::ok : StatusCode::io));
      if (expected) CHECK(outcomes[rank].ranks.size() == (goes_first ? first : world - first));
    }
  }
}

TEST_CASE("Ranks that end do not count as silent: those that are left go on, though most have ended") {
  TalkingRanks ranks(4);
  for (const std::uint32_t rank : {0U, 1U, 2U}) ranks.cut(rank, 3);
  ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) {
    if (rank == 3) CHECK(rounds.agree(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{3});
  });
}

TEST_CASE("Of what is left when ranks have ended at most one part goes on, too, whatever each part knows of the ends") {
  using transport::may_go_on;
  using transport::RankMask;
  // Every job of two to six, every set that took part, every two parts of it, and whatever ends of others each part knows of.
  for (std::uint32_t world = 2; world <= 6; ++world) {
    const auto mask_of = [world](std::uint32_t bits) {
      RankMask mask(world);
      for (std::uint32_t rank = 0; rank < world; ++rank) mask[rank] = (bits >> rank & 1U) != 0;
      return mask;
    };
    const std::uint32_t all = (1U << world) - 1;
    for (std::uint32_t one = 1; one <= all; ++one) {
      for (std::uint32_t other = 1; other <= all; ++other) {
        if ((one & other) != 0) continue;
        const std::uint32_t rest = all & ~(one | other);
        for (std::uint32_t known = rest;; known = (known - 1) & rest) {
          for (std::uint32_t known_to_other = rest;; known_to_other = (known_to_other - 1) & rest) {
            const bool both =
                may_go_on(mask_of(all), mask_of(known), mask_of(one)) && may_go_on(mask_of(all), mask_of(known_to_other), mask_of(other));
            if (both) CHECK_MESSAGE(false, world, " ranks: ", one, " and ", other, " both go on");
            if (known_to_other == 0) break;
          }
          if (known == 0) break;
        }
      }
    }
  }
  // And somebody does go on where it can be known: the lowest that is left of two, when the lowest of all has ended.
  CHECK(may_go_on({true, true, true}, {true, false, false}, {false, true, false}));
  CHECK_FALSE(may_go_on({true, true, true}, {true, false, false}, {false, false, true}));
  CHECK(may_go_on({true, true, true}, {true, true, false}, {false, false, true}));
}

TEST_CASE("Ranks that leave one out know that it has ended where one of them knows it") {
  for (std::uint32_t noticed_by = 1; noticed_by < 4; ++noticed_by) {
    TalkingRanks ranks(4);
    ranks.end(0, noticed_by);
    ranks.each([](std::uint32_t, transport::Rounds& rounds) { CHECK(rounds.agree(0, test::in_good_time()).ranks.size() == 3); });
    for (std::uint32_t rank = 1; rank < 4; ++rank) CHECK(ranks.death(0, rank) == transport::Death::ended);
  }
}

TEST_CASE("A rank that went on to an agreement is not waited for in the rounds before it") {
  TalkingRanks ranks(3);
  ranks.each([&](std::uint32_t rank, transport::Rounds& rounds) {
    CHECK(rounds.agree(0, test::in_good_time()).ranks.size() == 3);
    std::vector<std::byte> all(3);
    const std::byte mine{1};
    if (rank == 2) {
      // It has what it needs, and the others' next parts will not come.
      static_cast<void>(rounds.agree(1, test::in_good_time()));
    } else {
      CHECK(rounds.gather(std::span(&mine, 1), all, test::in_good_time()).code == StatusCode::io);
      CHECK(rounds.agree(1, test::in_good_time()).ranks.size() == 3);
    }
  });
}

TEST_CASE("An agreement with ranks that say nothing ends at its deadline") {
  TalkingRanks ranks(2);
  ranks.each([](std::uint32_t rank, transport::Rounds& rounds) {
    if (rank == 0) CHECK(rounds.agree(0, system_timing().clock->after(0.01)).status.code == StatusCode::timeout);
  });
}

}  // namespace
}  // namespace dsanalyze
