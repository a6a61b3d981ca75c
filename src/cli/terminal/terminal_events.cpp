#include "terminal_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::cli {
namespace {

constexpr Nanoseconds bar_period = nanoseconds_per_second / 10;
constexpr Nanoseconds line_period = 5 * nanoseconds_per_second;
constexpr int bar_cells = 20;

std::string figures(const Progress& progress) {
  std::string text;
  if (progress.fraction >= 0) text += fmt::format(" {:.0f} %", std::clamp(progress.fraction, 0.0, 1.0) * 100);
  if (progress.samples_per_s >= 0) text += fmt::format("{} {} samples/s", text.empty() ? "" : ",", format_number(progress.samples_per_s));
  if (progress.eta_seconds >= 0) text += (text.empty() ? " " : ", ") + format_seconds(std::ceil(progress.eta_seconds)) + " left";
  return text;
}

std::string with_detail(const Progress& progress) {
  return progress.detail.empty() ? progress.activity : fmt::format("{} ({})", progress.activity, progress.detail);
}

std::string cells(double fraction) {
  const int done = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * bar_cells));
  return fmt::format("[{}{}] ", std::string(static_cast<std::size_t>(done), '#'), std::string(static_cast<std::size_t>(bar_cells - done), '.'));
}

/// What fits the width: the rate and the time left longest, the detail of the activity least long. Activities are plain ASCII.
std::string bar(const Progress& progress, int width) {
  // A line that fills the terminal would wrap, and then could not be rewritten in place.
  const auto room = static_cast<std::size_t>(std::max(width - 1, 1));
  const std::string known = figures(progress);
  const std::string front = progress.fraction >= 0 ? cells(progress.fraction) : "";
  for (const std::string& text : {fmt::format("{}{}{}", front, with_detail(progress), known), fmt::format("{}{}{}", front, progress.activity, known),
                                  progress.activity + known})
    if (text.size() <= room) return text;
  return (known.empty() ? progress.activity : known.substr(1)).substr(0, room);
}

}  // namespace

TerminalEvents::TerminalEvents(Look look, std::function<void(std::string_view)> write, const Clock& clock)
    : m_look(std::move(look)), m_write(std::move(write)), m_clock(clock), m_last_shown(clock.now()) {}

void TerminalEvents::progress(const Progress& reported) {
  if (m_look.mode == Mode::silent) return;
  const std::scoped_lock lock(m_mutex);
  const Nanoseconds now = m_clock.now();
  Progress progress = reported;
  progress.activity = printable(reported.activity);
  progress.detail = printable(reported.detail);
  if (progress.eta_seconds < 0) progress.eta_seconds = time_left(progress, now);
  if (now - m_last_shown < (m_look.mode == Mode::bar ? bar_period : line_period)) return;
  m_last_shown = now;
  if (m_look.mode == Mode::lines) {
    m_write(with_detail(progress) + ":" + figures(progress) + "\n");
    return;
  }
  clear_bar();
  m_shown = progress;
  draw_bar();
}

double TerminalEvents::time_left(const Progress& progress, Nanoseconds now) {
  if (progress.fraction < 0) return -1;
  if (m_growth.begun == 0 || progress.fraction < m_growth.last) m_growth = {now, progress.fraction, progress.fraction};
  m_growth.last = progress.fraction;
  const double grown = progress.fraction - m_growth.first;
  return grown > 0 ? to_seconds(now - m_growth.begun) * (1 - progress.fraction) / grown : -1;
}

void TerminalEvents::note(const std::string& line) {
  if (m_look.mode == Mode::silent) return;
  const std::scoped_lock lock(m_mutex);
  write_line(printable_lines(line));
}

void TerminalEvents::finding(const Finding& finding) {
  if (m_look.mode == Mode::silent) return;
  if (finding.severity == Finding::Severity::info && m_look.detail == Detail::usual) return;
  const std::string word = finding.severity == Finding::Severity::error     ? "error"
                           : finding.severity == Finding::Severity::warning ? "warning"
                                                                            : "note";
  const std::string colour = finding.severity == Finding::Severity::error ? "31" : "33";
  const std::string lead = m_look.colour == Colour::on ? fmt::format("\x1b[{}m{}:\x1b[0m", colour, word) : word + ":";
  const std::scoped_lock lock(m_mutex);
  write_line(fmt::format("{} {}", lead, printable_lines(finding.message)));
}

void TerminalEvents::finish() {
  const std::scoped_lock lock(m_mutex);
  clear_bar();
  m_shown.reset();
}

void TerminalEvents::write_line(const std::string& line) {
  clear_bar();
  m_write(line + "\n");
  draw_bar();
}

void TerminalEvents::draw_bar() {
  if (m_shown) m_write(bar(*m_shown, m_look.width()));
}

void TerminalEvents::clear_bar() {
  if (m_shown) m_write("\r\x1b[K");
}

}  // namespace dsanalyze::cli
