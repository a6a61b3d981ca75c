#pragma once

#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "cli/commands/command.hpp"
#include "terminal_events.hpp"

namespace dsanalyze::cli {

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
