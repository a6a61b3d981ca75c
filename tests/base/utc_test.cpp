#include "base/clock.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace dsanalyze;

TEST_CASE("an instant of UTC is written as ISO 8601 and read back as one") {
  const auto at = [](std::int64_t seconds) { return std::chrono::system_clock::time_point(std::chrono::seconds(seconds)); };
  CHECK(utc_text(at(0)) == "1970-01-01T00:00:00Z");
  CHECK(utc_text(at(951'827'696)) == "2000-02-29T12:34:56Z");
  CHECK(utc_text(at(-1)) == "1969-12-31T23:59:59Z");
  for (const std::int64_t seconds : {0L, 951'827'696L, -1L, 4'102'444'800L}) CHECK(parse_utc(utc_text(at(seconds))) == at(seconds));
  CHECK(parse_utc("2016-12-31T23:59:60Z") == parse_utc("2017-01-01T00:00:00Z"));  // a leap second
  for (const char* wrong :
       {"", "2000-02-29", "2000-02-29T12:34:56", "2000-02-29 12:34:56Z", "2001-02-29T12:34:56Z", "2000-13-01T12:34:56Z", "2000-02-29T24:00:00Z",
        "2000-02-29T12:60:00Z", "2000-02-29T12:00:61Z", "2000-02-2\"T12:34:56Z", "2000-02-29T12:34:56Zx"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_utc(wrong).has_value());
  }
}
