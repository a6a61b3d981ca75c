#include "sessions.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

namespace dsanalyze::gate {
namespace {

/// The digits at [from, from + length) of the text, which a pattern has vouched for.
int digits(const std::string& text, std::size_t from, std::size_t length) {
  int value = 0;
  std::from_chars(text.data() + from, text.data() + from + length, value);
  return value;
}

bool has_form(const std::string& text) {
  const std::string form = "0000-00-00T00:00:00Z";
  return text.size() == form.size() && std::ranges::equal(text, form, [](char letter, char expected) {
           return expected == '0' ? letter >= '0' && letter <= '9' : letter == expected;
         });
}

}  // namespace

std::optional<std::int64_t> utc_seconds(const std::string& text) {
  if (!has_form(text)) return std::nullopt;
  const std::chrono::year_month_day day{std::chrono::year(digits(text, 0, 4)), std::chrono::month(static_cast<unsigned>(digits(text, 5, 2))),
                                        std::chrono::day(static_cast<unsigned>(digits(text, 8, 2)))};
  const int hours = digits(text, 11, 2);
  const int minutes = digits(text, 14, 2);
  const int seconds = digits(text, 17, 2);
  if (!day.ok() || hours > 23 || minutes > 59 || seconds > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
}

Sessions sessions_of(std::span<const GateRun> baseline, std::span<const GateRun> current) {
  Sessions sessions;
  sessions.baseline.assign(baseline.size(), 0);
  sessions.current.assign(current.size(), 1);
  sessions.count = 2;
  struct Start {
    std::int64_t at;
    std::size_t* session;
  };
  std::vector<Start> starts;
  const auto add = [&](std::span<const GateRun> runs, std::vector<std::size_t>& numbers) {
    std::pair<std::int64_t, std::int64_t> range{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto at = utc_seconds(runs[i].profile.started_utc);
      if (!at) {
        sessions.times_known = false;
        continue;
      }
      starts.push_back({*at, &numbers[i]});
      range = {std::min(range.first, *at), std::max(range.second, *at)};
    }
    return range;
  };
  const auto of_baseline = add(baseline, sessions.baseline);
  const auto of_current = add(current, sessions.current);
  if (!sessions.times_known) return sessions;
  sessions.one_after_the_other = of_baseline.second < of_current.first || of_current.second < of_baseline.first;
  std::ranges::sort(starts, {}, &Start::at);
  std::size_t number = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0 && starts[i].at - starts[i - 1].at > session_gap_seconds) ++number;
    *starts[i].session = number;
  }
  sessions.count = number + 1;
  return sessions;
}

}  // namespace dsanalyze::gate
