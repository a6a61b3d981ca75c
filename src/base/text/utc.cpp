#include "utc.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dsanalyze {

std::string utc_text(std::chrono::system_clock::time_point instant) {
  using namespace std::chrono;
  constexpr sys_seconds first = sys_days(year(0) / January / 1);
  constexpr sys_seconds last = sys_days(year(10'000) / January / 1) - seconds(1);
  const sys_seconds at = std::clamp(floor<seconds>(instant), first, last);
  const sys_days day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(at - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), time.hours().count(), time.minutes().count(), time.seconds().count());
}

std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text) {
  constexpr std::string_view form = "0000-00-00T00:00:00Z";
  if (text.size() != form.size()) return std::nullopt;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool fits = form[i] == '0' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    if (!fits) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t count) {
    int value = 0;
    for (const char digit : text.substr(at, count)) value = value * 10 + (digit - '0');
    return value;
  };
  using namespace std::chrono;
  const year_month_day date(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))), day(static_cast<unsigned>(number(8, 2))));
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return sys_days(date) + hours(hour) + minutes(minute) + seconds(second);
}

}  // namespace dsanalyze
