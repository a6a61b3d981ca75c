#include "loaders/dataset/readers/dataset_source.hpp"

#include <doctest/doctest.h>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"

using namespace dsanalyze;
using Texts = std::vector<std::string>;

TEST_CASE("ranges of numbers keep their zeros and go either way") {
  CHECK(expand_braces("x-{008..011}.tar") == Texts{"x-008.tar", "x-009.tar", "x-010.tar", "x-011.tar"});
  CHECK(expand_braces("{9..11}") == Texts{"9", "10", "11"});
  CHECK(expand_braces("{2..0}") == Texts{"2", "1", "0"});
  CHECK(expand_braces("{5..5}") == Texts{"5"});
}

TEST_CASE("several ranges and lists multiply, the last one fastest") {
  CHECK(expand_braces("{train,val}/{0..1}.tar") == Texts{"train/0.tar", "train/1.tar", "val/0.tar", "val/1.tar"});
  CHECK(expand_braces("a{b,}c") == Texts{"abc", "ac"});
}

TEST_CASE("braces without a range are letters like any") {
  for (const char* text : {"plain.tar", "{x}.tar", "a{0..}b", "{..}", "{1..2", "}1..2{", "{-1..2}", ""}) {
    CHECK_FALSE(has_brace_range(text));
    CHECK(expand_braces(text) == Texts{text});
  }
  CHECK(expand_braces("{x}-{0..1}") == Texts{"{x}-0", "{x}-1"});
}

TEST_CASE("ranges that stand for too many files are refused before memory is taken for them") {
  for (const char* text : {"{0..99999999999}", "{0..18446744073709551615}", "{0..999}{0..999}{0..999}"}) {
    CHECK(testing::says(testing::error_of([&] { expand_braces(text); }), "more than"));
  }
}
