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

TEST_CASE("the first and the last character of each length of UTF-8 is shown, and what lies beside it is none") {
  // Unicode, table 3-7. Surrogates, overlong forms and what is beyond U+10FFFF are no characters.
  for (const std::string shown : {" ", "~", "\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xec\xbf\xbf", "\xed\x80\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                                  "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf3\xbf\xbf\xbf", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(shown);
    CHECK(printable(shown) == shown);
    CHECK(printable("a" + shown + "b") == "a" + shown + "b");
  }
  for (const std::string hidden : {"\x1f", "\x7f", "\x80", "\xbf", "\xc1\xbf", "\xc2\x80", "\xc2\x9f", "\xc2\xc0", "\xe0\x9f\xbf", "\xed\xa0\x80",
                                   "\xef\xbf", "\xef\xbf\x7f", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    CAPTURE(hidden);
    CHECK(printable(hidden).starts_with("\\x"));
    CHECK(printable(hidden + "b").ends_with("b"));
  }
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

TEST_CASE("a paragraph stands beside its lead, and goes on below where there is no room beside it") {
  CHECK(paragraph("- ", "one two three", 9) == "- one two\n  three\n");
  CHECK(paragraph("- ", "", 9) == "-\n");
  CHECK(paragraph("lead: ", "abc", 7) == "lead: a\n      b\n      c\n");
  CHECK(paragraph("lead: ", "abc", 6) == paragraph("lead: ", "abc", 7));
  CHECK(paragraph("lead: ", "abc", 2) == paragraph("lead: ", "abc", 7));
}
