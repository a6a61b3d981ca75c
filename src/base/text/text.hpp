#pragma once

#include <string>
#include <string_view>

namespace dsanalyze {

// Text from outside (names of files, devices, hosts) may hold anything. Threads: any.

/// The word as a shell reads it, for command lines that a person pastes: as it is where it needs no quotes, else in single quotes; with control
/// characters in it, as $'a\nb' (bash, zsh, ksh), so that it neither ends a line nor moves a terminal's cursor.
std::string shell_word(std::string_view word);

/// The text for a terminal or a log: control characters, among them those of C1 that UTF-8 can write, become "\x1b"; bytes that are not UTF-8 too.
std::string printable(std::string_view text);
/// printable() line by line: ends of lines stay.
std::string printable_lines(std::string_view text);

}  // namespace dsanalyze
