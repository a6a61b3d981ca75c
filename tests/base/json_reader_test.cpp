#include "base/text/json_reader.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::message_of;

namespace {

JsonObject parse(std::string_view text) { return parse_json_object(text, "x.json"); }

std::string parse_message(std::string_view text) {
  return message_of([&] { parse(text); });
}

}  // namespace

TEST_CASE("values are read with their types") {
  JsonObject root = parse(
      R"({"t": "word", "i": -3, "n": 2.5, "whole": 2, "b": true, "v": [1, 2.5], "o": {"x": 1}, "list": [{"y": 1}, {"y": 2}], "free": [1, null]})");
  CHECK(root.text("t") == "word");
  CHECK(root.choice("t", {"other", "word"}) == "word");
  CHECK(root.integer("i", -5, 5) == -3);
  CHECK(root.number("n", 0, 10) == 2.5);
  CHECK(root.number("whole", 0, 10) == 2);
  CHECK(root.boolean("b"));
  CHECK(root.numbers("v", 1, 3, 0, 9) == std::vector<double>{1, 2.5});
  CHECK(root.object("o").integer("x", 0, 1) == 1);
  auto list = root.objects("list");
  REQUIRE(list.size() == 2);
  CHECK(list[0].integer("y", 0, 9) == 1);
  CHECK(list[1].integer("y", 0, 9) == 2);
  CHECK(root.raw("free").size() == 2);
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("optional values may be missing or null, but not of another type") {
  JsonObject root = parse(R"({"null": null, "wrong": [], "i": 4})");
  CHECK_FALSE(root.optional_text("gone"));
  CHECK_FALSE(root.optional_number("null", 0, 1));
  CHECK_FALSE(root.optional_object("gone"));
  CHECK(root.optional_integer("i", 0, 9) == 4);
  CHECK(message_of([&] { root.optional_text("wrong"); }) == "x.json: /wrong: found an array of 0 items, expected a string");
}

TEST_CASE("an error names source, pointer, what was found and what was expected") {
  JsonObject root = parse(R"({"prep": {"crop": {"size": -224}}, "a/b~c": 1, "t": 5, "v": [1, "x"], "list": [{}, {"n": true}], "o": []})");
  JsonObject crop = root.object("prep").object("crop");
  CHECK(message_of([&] { crop.integer("size", 1, 4096); }) == "x.json: /prep/crop/size: found -224, expected an integer in [1, 4096]");
  CHECK(message_of([&] { crop.integer("missing", 1, 4096); }) == "x.json: /prep/crop/missing: missing, expected an integer in [1, 4096]");
  CHECK(message_of([&] { root.text("a/b~c"); }) == "x.json: /a~1b~0c: found 1, expected a string");
  CHECK(message_of([&] { root.choice("t", {"a", "b"}); }) == "x.json: /t: found 5, expected one of a, b");
  CHECK(message_of([&] { root.numbers("v", 2, 2, 0, 9); }) == "x.json: /v/1: found \"x\", expected a number in [0, 9]");
  CHECK(message_of([&] { root.numbers("v", 3, 3, 0, 9); }) == "x.json: /v: found an array of 2 items, expected an array of 3 numbers in [0, 9]");
  auto list = root.objects("list");
  CHECK(message_of([&] { list[1].text("n"); }) == "x.json: /list/1/n: found true, expected a string");
  CHECK(message_of([&] { root.object("o"); }) == "x.json: /o: found an array of 0 items, expected an object");
  CHECK(message_of([&] { crop.fail("size", "odd"); }) == "x.json: /prep/crop/size: odd");
  CHECK(message_of([&] { crop.fail("", "empty"); }) == "x.json: /prep/crop: empty");
  CHECK(message_of([&] { root.fail("", "empty"); }) == "x.json: empty");
}

TEST_CASE("a near choice is suggested") {
  JsonObject root = parse(R"({"cache": "minoi"})");
  CHECK(message_of([&] {
          root.choice("cache", {"none", "minio"});
        }) == "x.json: /cache: found \"minoi\", expected one of none, minio (did you mean \"minio\"?)");
}

TEST_CASE("numbers keep to their type and range") {
  JsonObject root = parse(R"({"float": 3.0, "large": 18446744073709551615, "number": 11})");
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(message_of([&] { root.integer("float", 0, 9); }) == "x.json: /float: found 3.0, expected an integer in [0, 9]");
  CHECK(message_of([&] { root.integer("large", 1, most); }) == "x.json: /large: found 18446744073709551615, expected an integer of at least 1");
  CHECK(message_of([&] { root.number("number", 0, 10); }) == "x.json: /number: found 11, expected a number in [0, 10]");
  CHECK(message_of([&] { root.number("number", 12, std::numeric_limits<double>::infinity()); }) ==
        "x.json: /number: found 11, expected a number of at least 12");
}

TEST_CASE("an unsigned integer may use all 64 bits, and nothing else is one") {
  JsonObject object = parse(R"({"all": 18446744073709551615, "half": 9223372036854775808, "more": 18446744073709551616, "less": -1, "part": 1.5})");
  CHECK(object.unsigned_integer("all") == UINT64_MAX);
  CHECK(object.unsigned_integer("half") == std::uint64_t{1} << 63);
  for (const char* key : {"more", "less", "part", "none"}) CHECK_THROWS_AS(object.unsigned_integer(key), UsageError);
}

TEST_CASE("finish refuses keys that the caller did not read, in this object and in those read from it") {
  JsonObject root = parse(R"({"crop": {"size": 1, "extra": 2}})");
  JsonObject crop = root.object("crop");
  crop.integer("size", 0, 9);
  CHECK(message_of([&] { root.finish(); }) == "x.json: /crop/extra: unknown key; known here: size");
  root.object("crop").ignore("extra");
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("finish suggests the key that was meant") {
  JsonObject root = parse(R"({"bacth_size": 1})");
  root.optional_integer("batch_size", 1, 9);
  root.optional_integer("workers", 1, 9);
  CHECK(message_of([&] { root.finish(); }) == "x.json: /bacth_size: unknown key; did you mean \"batch_size\"?");
}

TEST_CASE("asking whether a key is there is not reading it") {
  JsonObject root = parse(R"({"a": 1})");
  CHECK(root.has("a"));
  CHECK_FALSE(root.has("b"));
  CHECK(message_of([&] { root.finish(); }) == "x.json: /a: found, but it has no meaning here; remove it");
  root.integer("a", 0, 1);
  CHECK(root.has("a"));
  CHECK_NOTHROW(root.finish());
}

TEST_CASE("keys come in the order of the file") { CHECK(parse(R"({"z": 1, "a": 2, "m": 3})").keys() == std::vector<std::string>{"z", "a", "m"}); }

TEST_CASE("text that is not JSON is refused with its place") {
  CHECK(parse_message("{\n  \"a\": x}").starts_with("x.json: line 2, column 8: "));
  CHECK(parse_message("{\"a\": 1} {").starts_with("x.json: line 1, column 10: "));
  CHECK(parse_message("").starts_with("x.json: line 1, column 1: "));
  CHECK(parse_message("{\"a\": NaN}").starts_with("x.json: line 1, column 7: "));
  CHECK(parse_message("{\"a\": 1e999}").find("number overflow") != std::string::npos);
  CHECK(parse_message("{\"a\": \"\xff\"}").starts_with("x.json: line 1, "));
  CHECK(parse_message("{\"a\": 1,}") != "accepted");
  CHECK(parse_message("{\"a\": 1 // c\n}") != "accepted");
  CHECK(parse_message("[1]") == "x.json: line 1, column 1: found array, expected an object");
}

TEST_CASE("a key that is there twice is refused, in inner objects too, but not in sisters") {
  CHECK(parse_message("{\"a\": 1,\n\"b\": 2, \"a\": 3}") == "x.json: line 2, column 11: the key \"a\" is there twice");
  CHECK(parse_message(R"({"o": [{"a": 1, "a": 1}]})").find("twice") != std::string::npos);
  CHECK(parse_message(R"({"o": {"a": 1}, "a": {"a": 2}, "l": [{"a": 1}, {"a": 1}]})") == "accepted");
}

TEST_CASE("deep nesting is refused before it can hurt") {
  const auto nested = [](std::size_t levels) { return "{\"a\": " + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}"; };
  CHECK(parse_message(nested(64)) == "accepted");
  CHECK(parse_message(nested(65)).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(parse_message(std::string(1'000'000, '[')).find("nested deeper than 64 levels") != std::string::npos);
}

TEST_CASE("an object outlives the one that it was read from") {
  std::optional<JsonObject> inner;
  {
    JsonObject root = parse(R"({"o": {"x": "kept"}})");
    inner = root.object("o");
  }
  CHECK(inner->text("x") == "kept");
}

TEST_CASE("a near name is a typing mistake away") {
  const std::vector<std::string> known = {"--cache-size", "--cores", "minio", "lru"};
  CHECK(nearest_name("--cahce-size", known) == "--cache-size");
  CHECK(nearest_name("--core", known) == "--cores");
  CHECK(nearest_name("MinIO", known) == "minio");
  CHECK(nearest_name("mniio", known) == "minio");
  CHECK_FALSE(nearest_name("page", known));
  CHECK_FALSE(nearest_name("x", known));
  CHECK_FALSE(nearest_name("", known));
}
