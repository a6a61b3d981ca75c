#pragma once

#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "cli/commands/command.hpp"
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
    bool wraps = false;                              ///< lines that are longer; a log has them whole
  };
  /// `write` takes text for stderr; called under a lock.
  TerminalEvents(Look look, std::function<void(std::string_view)> write, const Clock& clock);

  void progress(const Progress& progress) override;
  void note(const std::string& line) override;
  void finding(const Finding& finding) override;
  /// Takes the bar away, so that a result can be printed.
  void finish();

 private:
  /// From how the fraction grew since it began, where the code that works does not know; negative as long as nothing can be told.
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

enum class Stream { output, error };

/// Colour when asked for, or by default on a terminal that knows it and where NO_COLOR is not set.
Colour colour_of(Stream stream, ColourChoice choice);
/// COLUMNS of the environment, else the columns of the terminal that the stream is; 80 where it is none.
int width_of(Stream stream);
/// How progress is shown on stderr.
TerminalEvents::Look event_look(const CommonOptions& options);

/// Writes all of it. Throws Error when the system refuses (a full disk, a closed pipe); Interrupted when `stop` is requested and stdout takes no
/// more, such as a pipe that is not read.
void write_output(std::string_view text, const std::stop_token& stop);
/// Writes what can be written: there is nowhere left to complain.
void write_error(std::string_view text);

/// A file that a command will write, and the option that named it.
struct OutputFile {
  std::string option;          ///< "--html"
  std::filesystem::path path;  ///< empty: the option was not given
};

/// Before the work: throws UsageError that names both options when two of them mean the same regular file, however it is spelt (links, "..", folders
/// that are links), or when one means an input, and Error when one of them cannot be written. Special files (/dev/null) may be named twice.
/// `inputs`: files that the command reads; a folder stands for every *.json in it, there already or not; what is not there is passed over.
void check_outputs(std::span<const OutputFile> files, std::span<const std::filesystem::path> inputs = {});

}  // namespace dsanalyze::cli
