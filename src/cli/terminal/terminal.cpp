#include "terminal.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::cli {
namespace {

int descriptor_of(Stream stream) { return stream == Stream::output ? STDOUT_FILENO : STDERR_FILENO; }

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// errno of what stopped it, or 0.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Waits a little for it. True also where writing will fail.
bool takes_more(int descriptor) {
  constexpr int wait_ms = 100;
  pollfd waiting{descriptor, POLLOUT, 0};
  return ::poll(&waiting, 1, wait_ms) > 0;
}

}  // namespace

Colour colour_of(Stream stream, ColourChoice choice) {
  if (choice != ColourChoice::automatic) return choice == ColourChoice::always ? Colour::on : Colour::off;
  const bool wanted = environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  return wanted && ::isatty(descriptor_of(stream)) == 1 ? Colour::on : Colour::off;
}

int width_of(Stream stream) {
  constexpr int usual = 80;
  constexpr int widest = 10000;
  // As the user prefers it, then as the terminal has it.
  const std::string_view preferred = environment("COLUMNS");
  int columns = 0;
  if (std::from_chars(preferred.data(), preferred.data() + preferred.size(), columns).ptr == preferred.data() + preferred.size() && columns > 0 &&
      columns <= widest)
    return columns;
  winsize size{};
  if (::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return size.ws_col;
}

TerminalEvents::Look event_look(const CommonOptions& options) {
  TerminalEvents::Look look;
  if (options.quiet)
    look.mode = TerminalEvents::Mode::silent;
  else if (::isatty(STDERR_FILENO) == 1 && environment("TERM") != "dumb")
    look.mode = TerminalEvents::Mode::bar;
  look.detail = options.verbose ? TerminalEvents::Detail::verbose : TerminalEvents::Detail::usual;
  look.colour = colour_of(Stream::error, options.colour);
  look.width = [] { return width_of(Stream::error); };
  look.wraps = ::isatty(STDERR_FILENO) == 1 || !environment("COLUMNS").empty();
  return look;
}

void write_output(std::string_view text, const std::stop_token& stop) {
  while (!text.empty()) {
    if (!takes_more(STDOUT_FILENO)) {
      if (stop.stop_requested()) throw Interrupted();
      continue;
    }
    // A pipe that takes more takes this much at once.
    const std::string_view part = text.substr(0, PIPE_BUF);
    if (const int error = write_all(STDOUT_FILENO, part); error != 0)
      throw Error(fmt::format("cannot write the result to stdout: {}", describe_errno(error)));
    text.remove_prefix(part.size());
  }
}

void write_error(std::string_view text) { write_all(STDERR_FILENO, text); }

namespace {

namespace fs = std::filesystem;

bool is_special(const fs::path& path) {
  std::error_code hidden;  // what cannot be looked at is no special file
  const fs::file_status status = fs::status(path, hidden);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// What is written under that name: past links, in the folder as it is really called.
fs::path written_file(const fs::path& path) {
  std::error_code failed;
  const fs::path canonical = fs::weakly_canonical(path, failed);
  return failed ? fs::absolute(path, failed).lexically_normal() : canonical;
}

bool are_same_folder(const fs::path& a, const fs::path& b) {
  std::error_code hidden;
  return fs::equivalent(a, b, hidden);
}

bool are_same(const fs::path& a, const fs::path& b) {
  if (is_special(a) || is_special(b)) return false;
  std::error_code hidden;
  return written_file(a) == written_file(b) || fs::equivalent(a, b, hidden);
}

bool is_input(const fs::path& file, const fs::path& input) {
  std::error_code hidden;
  if (!fs::is_directory(input, hidden)) return are_same(file, input);
  if (is_special(file)) return false;
  if (file.extension() == ".json" && are_same_folder(fs::absolute(file, hidden).parent_path(), input)) return true;
  const fs::path written = written_file(file);
  return written.extension() == ".json" && are_same_folder(written.parent_path(), input);
}

}  // namespace

void check_outputs(std::span<const OutputFile> files, std::span<const fs::path> inputs) {
  for (const OutputFile& file : files)
    for (const fs::path& input : inputs)
      if (!file.path.empty() && !input.empty() && is_input(file.path, input))
        throw UsageError(
            fmt::format("{} names {}, which this command reads ({}): the output would replace it or be read as a result. Give it a file of its own.",
                        file.option, printable(file.path.native()), printable(input.native())));
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].path.empty()) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (files[j].path.empty() || !are_same(files[i].path, files[j].path)) continue;
      throw UsageError(fmt::format("{} and {} name the same file, {}: the one would replace the other. Give each a file of its own.", files[j].option,
                                   files[i].option, printable(files[i].path.native())));
    }
  }
  for (const OutputFile& file : files)
    if (!file.path.empty()) require_writable(file.path);
}

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

/// Each line in lines that fit, the further ones indented.
std::string wrapped(const std::string& text, int width) {
  constexpr std::size_t indent = 2;
  constexpr std::size_t narrowest = 20;
  const std::size_t room = std::max(static_cast<std::size_t>(std::max(width, 0)), narrowest) - indent;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    bool first = true;
    for (const std::string& part : display_width(line) > room + indent ? wrap(line, room) : std::vector{line}) {
      lines.push_back(std::string(first ? 0 : indent, ' ') + part);
      first = false;
    }
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
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
  m_write((m_look.wraps ? wrapped(line, m_look.width()) : line) + "\n");
  draw_bar();
}

void TerminalEvents::draw_bar() {
  if (m_shown) m_write(bar(*m_shown, m_look.width()));
}

void TerminalEvents::clear_bar() {
  if (m_shown) m_write("\r\x1b[K");
}

}  // namespace dsanalyze::cli
