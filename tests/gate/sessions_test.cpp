#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gate/runs.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;

namespace {

std::vector<GateRun> begun_at(const std::vector<std::int64_t>& seconds) {
  std::vector<GateRun> runs;
  for (const std::int64_t at : seconds) {
    runs.push_back({"a run", test::plain_profile()});
    runs.back().profile.started_utc = test::utc_after(at);
  }
  return runs;
}

using Numbers = std::vector<std::size_t>;

bool one_after_the_other(const std::vector<std::int64_t>& baseline, const std::vector<std::int64_t>& current) {
  return sessions_of(begun_at(baseline), begun_at(current)).one_after_the_other;
}

}  // namespace

TEST_CASE("a run that begins within an hour of the one before is of its session, a second later of the next") {
  const Sessions sessions = sessions_of(begun_at({0, 3600, 7201}), begun_at({1800, 7200, 20'000}));
  CHECK(sessions.times_known);
  CHECK(sessions.baseline == Numbers{0, 0, 0});
  CHECK(sessions.current == Numbers{0, 0, 1});
  CHECK(sessions.count == 2);
  const Sessions apart = sessions_of(begun_at({3601}), begun_at({0}));
  CHECK(apart.baseline == Numbers{1});
  CHECK(apart.current == Numbers{0});
  CHECK(apart.count == 2);
}

TEST_CASE("where one run does not say when it began, each side is a session of its own") {
  std::vector<GateRun> current = begun_at({60, 120});
  current[1].profile.started_utc.clear();
  const Sessions sessions = sessions_of(begun_at({0, 20'000}), current);
  CHECK_FALSE(sessions.times_known);
  CHECK(sessions.baseline == Numbers{0, 0});
  CHECK(sessions.current == Numbers{1, 1});
  CHECK(sessions.count == 2);
  CHECK_FALSE(sessions.one_after_the_other);
}

TEST_CASE("one side runs after the other where that is so in most of the sessions that both share") {
  CHECK(one_after_the_other({0, 60}, {120, 180}));
  CHECK(one_after_the_other({120, 180}, {0, 60}));
  CHECK_FALSE(one_after_the_other({0, 120}, {60, 180}));
  CHECK_FALSE(one_after_the_other({0, 60}, {60, 120}));  // begun in the same second
  constexpr std::int64_t day = 86'400;
  CHECK_FALSE(one_after_the_other({0, day + 60}, {60, day}));  // either side first once
  CHECK(one_after_the_other({0, day, 2 * day + 60}, {60, day + 60, 2 * day}));
  CHECK_FALSE(one_after_the_other({0}, {day}));  // no session has both
  CHECK(one_after_the_other({0, 5 * day}, {60, 9 * day}));
}

TEST_CASE("an instant is one of the calendar and of a day, leap seconds included") {
  CHECK(utc_seconds("1970-01-01T00:01:01Z") == 61);
  CHECK(utc_seconds("1970-01-02T01:00:00Z") == 25 * 3600);
  CHECK(utc_seconds("2016-12-31T23:59:59Z").has_value());
  CHECK(utc_seconds("2016-12-31T23:59:60Z") == utc_seconds("2017-01-01T00:00:00Z"));
  for (const char* text : {"2016-12-31T24:00:00Z", "2016-12-31T23:60:00Z", "2016-12-31T23:59:61Z", "2016-12-32T00:00:00Z", "2016-13-01T00:00:00Z",
                           "2016-12-31t00:00:00Z", "2016-12-31T00:00:0/Z", "2016-12-31T00:00:0:Z"}) {
    CAPTURE(text);
    CHECK_FALSE(utc_seconds(text).has_value());
  }
}
