#include "base/text/text.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>

using namespace dsanalyze;

namespace {

/// What bash makes of the word.
std::string read_by_bash(const std::string& word) {
  // bash -c is given the line as a word of its own, so its quotes are quoted once more.
  std::string line = "bash -c 'eval \"printf %s $1\"' '' ";
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  std::FILE* const pipe = ::popen((line + quoted + "'").c_str(), "r");
  std::string out;
  std::array<char, 256> buffer{};
  for (std::size_t got = 0; pipe != nullptr && (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), got);
  if (pipe != nullptr) ::pclose(pipe);
  return out;
}

bool there_is_bash() { return std::system("bash -c true >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("a word that a shell would read otherwise is quoted, and one that it would not is left alone") {
  CHECK(shell_word("/data/image-net_1k.tar:a,b=c@d%2+") == "/data/image-net_1k.tar:a,b=c@d%2+");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$(reboot)") == "'$(reboot)'");
  CHECK(shell_word("~") == "'~'");
  CHECK(shell_word("a\nb") == "$'a\\012b'");
  CHECK(shell_word("\x1b]0;'\\") == "$'\\033]0;\\'\\\\'");
}

TEST_CASE("bash reads back every byte of a quoted word") {
  if (!there_is_bash()) {
    MESSAGE("skipped: there is no bash");
    return;
  }
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& word : {all, std::string("a'b\"c`d$e"),
                                  std::string("\x01"
                                              "1"),
                                  std::string("plain"), std::string("* ?"), std::string("-x !y #z")})
    CHECK(read_by_bash(shell_word(word)) == word);
}

TEST_CASE("control characters and bytes that are no UTF-8 are shown by their numbers, letters of any language as they are") {
  CHECK(printable("müßig 画像") == "müßig 画像");
  CHECK(printable("a\x1b[2Jb\r\n\x7f") == "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m");
  CHECK(printable("cut \xe7\x94") == "cut \\xe7\\x94");
  CHECK(printable("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80") == "\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
}

TEST_CASE("lines keep their ends, and everything else that a terminal would obey is shown") {
  CHECK(printable_lines("a\nb\x1b[2J\n") == "a\nb\\x1b[2J\n");
  CHECK(printable_lines("").empty());
  CHECK(printable_lines("one\r") == "one\\x0d");
}

TEST_CASE("a line ends neither between a number and its unit nor inside of a number") {
  using Lines = std::vector<std::string>;
  CHECK(wrap("a step takes 42.1 ms here", 17) == Lines{"a step takes", "42.1 ms here"});
  CHECK(wrap("it waits 46.9 % of it", 13) == Lines{"it waits", "46.9 % of it"});
  CHECK(wrap("prep 1,684 ± 31 samples/s [P]", 14) == Lines{"prep", "1,684 ± 31", "samples/s [P]"});
  CHECK(wrap("(p99 wait 53.5 ms)", 16) == Lines{"(p99 wait", "53.5 ms)"});
  CHECK(wrap("in 2 windows", 5) == Lines{"in 2", "windo", "ws"});
  // What is wider than the line is cut beside a sign of punctuation, else anywhere but between digits.
  CHECK(wrap("/data/a/train.py:1095", 18) == Lines{"/data/a/train.py:", "1095"});
  CHECK(wrap("aaaaaaaaaa12345", 12) == Lines{"aaaaaaaaaa", "12345"});
  CHECK(wrap("123456789", 4) == Lines{"1234", "5678", "9"});
  CHECK(wrap("abcdefghij", 4) == Lines{"abcd", "efgh", "ij"});
}
