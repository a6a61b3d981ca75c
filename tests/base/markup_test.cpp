#include <doctest/doctest.h>

#include <string>

#include "base/text/text.hpp"

using namespace dsanalyze;
using namespace std::string_literals;

TEST_CASE("text in HTML opens no tag, ends no attribute and hides nothing") {
  CHECK(html_text("</script><b a='1' c=\"2\">&amp;") == "&lt;/script&gt;&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;amp;");
  CHECK(html_text("a\nb\tc\0d\x1b[31m"s) == "a b c\\x00d\\x1b[31m");
  CHECK(html_text("\xff\xc3") == "\\xff\\xc3");
  CHECK(html_text("1,200 ± 30 µs") == "1,200 ± 30 µs");
}

TEST_CASE("marks that turn the direction of writing are shown, not obeyed") {
  CHECK(html_text("a\u202egnp.exe") == "a\\u202egnp.exe");
  CHECK(html_text("a\u2067b") == "a\\u2066+b");
  CHECK(html_text("“quoted” – dash") == "“quoted” – dash");
}

TEST_CASE("text in Markdown makes no cell, markup, HTML, link or mention") {
  CHECK(markdown_text("a|b") == "a\\|b");
  CHECK(markdown_text("`c` *d* _e_ ~f~ [g](h) <img> &lt;") == "\\`c\\` \\*d\\* \\_e\\_ \\~f\\~ \\[g\\](h) &lt;img\\> &amp;lt;");
  CHECK(markdown_text("http://x www.y.z") == "http:\\//x www\\.y.z");
  CHECK(markdown_text("mail a@b, @someone") == "mail a@b, @\u200bsomeone");
  CHECK(markdown_text("one\ntwo\\") == "one two\\\\");
}

TEST_CASE("text in Markdown opens no block") {
  CHECK(markdown_text("# head") == "\\# head");
  CHECK(markdown_text(" # head") == " \\# head");
  CHECK(markdown_text("  12) item") == "  12\\) item");
  CHECK(markdown_text("   ") == "   ");
  CHECK(markdown_text("- item") == "\\- item");
  CHECK(markdown_text("12. item") == "12\\. item");
  CHECK(markdown_text("12.5 %") == "12.5 %");
  CHECK(markdown_text("-0.8 %") == "-0.8 %");
  CHECK(markdown_text("---") == "\\---");
  CHECK(markdown_text("1,200") == "1,200");
  CHECK(markdown_text("") == "");
}

TEST_CASE("JSON in a script element is the same document without a character that ends it") {
  CHECK(script_json(R"({"a":"</script>&<!--"})") == R"({"a":"\u003c/script\u003e\u0026\u003c!--"})");
  CHECK(script_json("\"\u2028\u2029\u2030\"") == "\"\\u2028\\u2029\u2030\"");
}

TEST_CASE("a long text is cut between characters and says how long it was") {
  CHECK(shortened("short", 5) == "short");
  CHECK(shortened(std::string(10'000'000, 'x'), 3) == "xxx… (cut: 9.54 MiB in all)");
  CHECK(shortened("aµb", 2).starts_with("a…"));
}
