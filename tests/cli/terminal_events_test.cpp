#include "cli/terminal/terminal.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace dsanalyze;
using namespace dsanalyze::cli;

namespace {

struct Screen {
  ManualTiming timing;
  std::string text;
  TerminalEvents events;

  explicit Screen(TerminalEvents::Look look)
      : events(
            look, [this](std::string_view part) { text += part; }, timing) {}
  void after_seconds(double seconds, const Progress& progress) {
    timing.advance(to_nanoseconds(seconds));
    events.progress(progress);
  }
};

}  // namespace

TEST_CASE("a log gets a plain line of progress at most every 5 s") {
  Screen screen({TerminalEvents::Mode::lines});
  for (int second = 1; second <= 12; ++second) screen.after_seconds(1, {"full run", second / 20.0, 20.0 - second});
  CHECK(screen.text == "full run: 25 %, 15 s left\nfull run: 50 %, 10 s left\n");
}

TEST_CASE("a terminal gets a bar rewritten in place, above which lines pass, and which goes away at the end") {
  Screen screen({TerminalEvents::Mode::bar});
  screen.after_seconds(1, {"full run", 0.5, 10});
  CHECK(screen.text == "[##########..........] full run 50 %, 10 s left");
  screen.text.clear();
  screen.events.note("prep: 980 samples/s");
  CHECK(screen.text == "\r\x1b[Kprep: 980 samples/s\n[##########..........] full run 50 %, 10 s left");
  screen.text.clear();
  screen.events.finish();
  CHECK(screen.text == "\r\x1b[K");
}

TEST_CASE("the rate is told where there is one, and the time left from how the fraction grows where nothing else knows it") {
  Screen screen({TerminalEvents::Mode::lines});
  screen.after_seconds(5, {"making samples", 0.1, 45, 98.4});
  CHECK(screen.text == "making samples: 10 %, 98.4 samples/s, 45 s left\n");
  screen.text.clear();
  screen.after_seconds(5, {"reading headers", 0.0, -1});
  screen.after_seconds(5, {"reading headers", 0.25, -1});
  CHECK(screen.text == "reading headers: 0 %\nreading headers: 25 %, 15 s left\n");
  screen.text.clear();
  screen.after_seconds(5, {"another", 0.1, -1});
  CHECK(screen.text == "another: 10 %\n");
  screen.text.clear();
  screen.after_seconds(5, {"listing", -1, -1, 500});
  CHECK(screen.text == "listing: 500 samples/s\n");
}

TEST_CASE("a bar never fills the terminal's line, however wide the window has become, and keeps the rate and the time left longest") {
  int width = 200;
  Screen screen({TerminalEvents::Mode::bar, TerminalEvents::Detail::usual, Colour::off, [&width] { return width; }});
  const auto shown_at = [&](int columns) {
    width = columns;
    screen.after_seconds(1, {"cached run", 0.5, 10, 1234, "3 of at most 12 s"});
    screen.events.finish();
    std::string shown = screen.text.substr(0, screen.text.find('\r'));
    screen.text.clear();
    return shown;
  };
  const std::string figures = "50 %, 1,234 samples/s, 10 s left";
  CHECK(shown_at(200) == "[##########..........] cached run (3 of at most 12 s) " + figures);
  CHECK(shown_at(80) == "[##########..........] cached run " + figures);
  CHECK(shown_at(60) == "cached run " + figures);
  CHECK(shown_at(40) == figures);
  CHECK(shown_at(10) == "50 %, 1,2");
  for (int columns = 1; columns <= 100; ++columns) CHECK(shown_at(columns).size() <= std::max<std::size_t>(columns - 1, 1));
}

TEST_CASE("a bar without figures is cut") {
  Screen screen({TerminalEvents::Mode::bar, TerminalEvents::Detail::usual, Colour::off, [] { return 30; }});
  screen.after_seconds(1, {"an activity with quite a long name"});
  CHECK(screen.text == "an activity with quite a long");
}

TEST_CASE("nothing is shown when silent") {
  Screen screen({TerminalEvents::Mode::silent});
  screen.after_seconds(10, {"full run", 0.5, 10});
  screen.events.note("note");
  screen.events.finding({"code", Finding::Severity::warning, "message"});
  screen.events.finish();
  CHECK(screen.text.empty());
}

TEST_CASE("findings are warning lines, and those for information are shown when verbose") {
  Screen usual({TerminalEvents::Mode::lines});
  usual.events.finding({"code", Finding::Severity::warning, "message"});
  usual.events.finding({"code", Finding::Severity::info, "detail"});
  CHECK(usual.text == "warning: message\n");
  Screen verbose({TerminalEvents::Mode::lines, TerminalEvents::Detail::verbose});
  verbose.events.finding({"code", Finding::Severity::info, "detail"});
  CHECK(verbose.text == "note: detail\n");
}

TEST_CASE("lines that are longer than a terminal is wide are wrapped on it, and whole in a log") {
  const std::string line = "plan: start python3 train.py, measure it for about 3 min, then end it";
  Screen log({TerminalEvents::Mode::lines});
  log.events.note(line);
  CHECK(log.text == line + "\n");
  TerminalEvents::Look narrow{TerminalEvents::Mode::bar};
  narrow.width = [] { return 40; };
  narrow.wraps = true;
  Screen screen(narrow);
  screen.events.note(line + "\nplan: no files");
  CHECK(screen.text == "plan: start python3 train.py, measure\n  it for about 3 min, then end it\nplan: no files\n");
}
