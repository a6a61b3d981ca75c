#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "report/report.hpp"

namespace dsanalyze::cli {

/// What happens, for the person who waits: a bar rewritten in place on a terminal, plain lines at most every 5 s in a log, nothing when silent.
/// Notes are lines of their own; findings are "warning: ..." lines (those of severity info only when verbose). Threads: any.
class TerminalEvents final : public EventSink {
 public:
  enum class Mode { silent, lines, bar };
  enum class Detail { usual, verbose };
  struct Look {
    Mode mode = Mode::lines;
    Detail detail = Detail::usual;
    Colour colour = Colour::off;
    std::function<int()> width = [] { return 80; };  ///< columns; asked for each bar, as windows change their size
  };
  /// `write` takes text for stderr; called under a lock.
  TerminalEvents(Look look, std::function<void(std::string_view)> write, const Clock& clock);

  void progress(const Progress& progress) override;
  void note(const std::string& line) override;
  void finding(const Finding& finding) override;
  /// Takes the bar away, so that a result can be printed.
  void finish();

 private:
  /// From how the fraction grew since it began, where whoever works does not know; negative as long as nothing can be told.
  double time_left(const Progress& progress, Nanoseconds now);
  void write_line(const std::string& line);
  void draw_bar();
  void clear_bar();

  Look m_look;
  std::function<void(std::string_view)> m_write;
  const Clock& m_clock;
  std::mutex m_mutex;
  Nanoseconds m_last_shown;
  std::optional<Progress> m_shown;  ///< what the bar shows; empty when there is none
  struct Growth {
    Nanoseconds begun = 0;
    double first = 0;
    double last = 0;
  };
  Growth m_growth;  ///< of the fraction, since it last fell
};

}  // namespace dsanalyze::cli
