#include "runs.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>

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

namespace {

struct Range {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
};
using Ranges = std::map<std::size_t, Range>;

/// When the runs of each session began; all of them say it.
Ranges ranges_by_session(std::span<const GateRun> runs, const std::vector<std::size_t>& sessions) {
  Ranges ranges;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::int64_t at = utc_seconds(runs[i].profile.started_utc).value_or(0);
    Range& range = ranges[sessions[i]];
    range = {std::min(range.first, at), std::max(range.last, at)};
  }
  return ranges;
}

/// Where sessions begin with either side in turn, a drift cancels between them.
bool one_after_the_other(const Ranges& baseline, const Ranges& current) {
  std::size_t shared = 0, baseline_first = 0, current_first = 0;
  for (const auto& [session, before] : baseline) {
    const auto at = current.find(session);
    if (at == current.end()) continue;
    ++shared;
    if (before.last < at->second.first) ++baseline_first;
    if (at->second.last < before.first) ++current_first;
  }
  return 2 * std::max(baseline_first, current_first) > shared;
}

}  // namespace

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
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto at = utc_seconds(runs[i].profile.started_utc);
      if (!at) {
        sessions.times_known = false;
        continue;
      }
      starts.push_back({*at, &numbers[i]});
    }
  };
  add(baseline, sessions.baseline);
  add(current, sessions.current);
  if (!sessions.times_known) return sessions;
  std::ranges::sort(starts, {}, &Start::at);
  std::size_t number = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i > 0 && starts[i].at - starts[i - 1].at > session_gap_seconds) ++number;
    *starts[i].session = number;
  }
  sessions.count = number + 1;
  sessions.one_after_the_other = one_after_the_other(ranges_by_session(baseline, sessions.baseline), ranges_by_session(current, sessions.current));
  return sessions;
}

}  // namespace dsanalyze::gate
