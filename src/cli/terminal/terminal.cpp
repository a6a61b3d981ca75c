#include "terminal.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/error.hpp"

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

}  // namespace dsanalyze::cli
