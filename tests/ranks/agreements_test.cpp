#include <doctest/doctest.h>

#include <string>

#include "base/error.hpp"
#include "made_ranks.hpp"
#include "ranks/rank_team.hpp"

namespace dsanalyze {
namespace {

/// Rank 1 of 3, whose agreements are these, one after the other.
struct Answers {
  explicit Answers(std::vector<Agreement> agreements) : answers(std::move(agreements)) {
    facts.rank = 1;
    facts.world = 3;
    facts.agree = [this](std::uint64_t, Deadline deadline) {
      const Agreement answer = answers.at(facts.epochs.size() - 1);
      if (answer.status.code == StatusCode::timeout) time.advance(deadline.at - time.now());
      return answer;
    };
  }
  RankTeam::Patience patience(double seconds) { return {seconds, {}, time.timing()}; }

  std::vector<Agreement> answers;
  ManualTiming time;
  test::MadeFacts facts;
};

Agreement left(std::vector<std::uint32_t> ranks) { return {{}, std::move(ranks)}; }
const Agreement too_late{{StatusCode::timeout, 0}, {}};
const Agreement left_behind{{StatusCode::io, 0}, {}};

/// What tells_result() of rank 1 says went wrong, with these agreements; empty: nothing.
std::string error_of(const std::vector<Agreement>& agreements, const std::string& given_up = "") {
  Answers job(agreements);
  job.facts.given_up = given_up;
  RankTeam team(std::make_unique<test::MadeRanks>(job.facts));
  AliveRanks alive(3);
  try {
    static_cast<void>(team.tells_result(alive, job.patience(0.1)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an agreement that is not reached is asked for again under its number, every fifth of a second, until the patience is over") {
  Answers job(std::vector<Agreement>(10, too_late));
  RankTeam team(std::make_unique<test::MadeRanks>(job.facts));
  AliveRanks alive(3);
  CHECK(team.agree(alive, job.patience(0.7)).code == StatusCode::timeout);
  CHECK(job.facts.deadlines == std::vector<Nanoseconds>{200'000'000, 400'000'000, 600'000'000, 700'000'000});
  CHECK(job.facts.epochs == std::vector<std::uint64_t>(4, 0));
  CHECK(alive.count() == 3);
}

TEST_CASE("without patience nothing is asked, and the answer is a timeout") {
  Answers job({});
  RankTeam team(std::make_unique<test::MadeRanks>(job.facts));
  AliveRanks alive(3);
  const Status status = team.agree(alive, job.patience(0));
  CHECK(status.code == StatusCode::timeout);
  CHECK(status.detail == 0);
  CHECK(job.facts.epochs.empty());
}

TEST_CASE("agreements are numbered from 0, and who is not in one is lost") {
  Answers job({left({0, 1, 2}), too_late, left({1, 2}), left_behind, left({1})});
  RankTeam team(std::make_unique<test::MadeRanks>(job.facts));
  AliveRanks alive(3);
  CHECK(team.agree(alive, job.patience(1)).ok());
  CHECK(alive.count() == 3);
  CHECK(team.agree(alive, job.patience(1)).ok());
  CHECK(alive.count() == 2);
  CHECK_FALSE(alive.alive(0));
  CHECK(team.agree(alive, job.patience(1)).code == StatusCode::io);
  CHECK(alive.count() == 2);
  CHECK(team.agree(alive, job.patience(1)).ok());
  CHECK(alive.count() == 1);
  CHECK(alive.alive(1));
  CHECK(job.facts.epochs == std::vector<std::uint64_t>{0, 1, 1, 2, 2});
}

TEST_CASE("a rank that waits for the result says why it cannot go on") {
  CHECK(error_of({too_late}) == "the ranks did not all come to the report of the result (timeout)");
  CHECK(error_of({left({0, 1, 2}), too_late}) == "the ranks did not all come to the report of the result (timeout)");
  CHECK(error_of({left_behind}, "it did not answer for 1 s") == "rank 1 of 3 cannot go on: it did not answer for 1 s");
  CHECK(error_of({left({0, 1}), left({0, 1}), left_behind}, "it did not answer") == "rank 1 of 3 cannot go on: it did not answer");
  const std::string lost = "rank 0 of 3 was lost while it reported the result, and whether it did is not known";
  CHECK(error_of({left({0, 1, 2}), left({1, 2})}).starts_with(lost));
  CHECK(error_of({left({0, 1, 2}), left({0, 1, 2}), left({1, 2})}).starts_with(lost));
}

TEST_CASE("a rank that another one tells the result for waits for it, and when its patience ends first there is no error") {
  CHECK(error_of({left({0, 1}), left({0, 1}), left({0, 1})}).empty());
  CHECK(error_of({left({0, 1}), left({0, 1}), too_late}).empty());
}

TEST_CASE("the rank that tells the result agrees twice before it does, and once more when it has") {
  Answers job({left({1, 2}), left({1, 2}), left({1, 2})});
  RankTeam team(std::make_unique<test::MadeRanks>(job.facts));
  AliveRanks alive(3);
  CHECK(team.tells_result(alive, job.patience(1)));
  CHECK(job.facts.epochs.size() == 2);
  std::stop_source stop;
  stop.request_stop();
  team.told_result({1, stop.get_token(), job.time.timing()});
  CHECK(job.facts.epochs.size() == 3);
}

}  // namespace dsanalyze
