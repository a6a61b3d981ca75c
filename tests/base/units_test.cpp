#include "base/text/units.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

#include "base/error.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::says;

namespace {

std::string refusal_by(double (*parse)(std::string_view), std::string_view text) {
  return testing::message_of([&] { parse(text); });
}

}  // namespace

TEST_CASE("sizes are read with decimal and binary units, in any case, with blanks") {
  CHECK(parse_bytes("4096B") == 4096);
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("512 B") == 512);
  CHECK(parse_bytes("1.5kB") == 1500);
  CHECK(parse_bytes("500 MB") == 500'000'000);
  CHECK(parse_bytes(" 4GiB ") == 4ULL << 30);
  CHECK(parse_bytes("4gib") == 4ULL << 30);
  CHECK(parse_bytes("2TiB") == 2ULL << 40);
  CHECK(parse_bytes(".5KiB") == 512);
  CHECK(parse_bytes("1\tPB") == 1'000'000'000'000'000ULL);
}

TEST_CASE("every parser refuses what is no finite number from zero on") {
  using Parser = double (*)(std::string_view);
  constexpr Parser bytes = [](std::string_view text) { return static_cast<double>(parse_bytes(text)); };
  constexpr Parser amount = [](std::string_view text) { return static_cast<double>(parse_byte_amount(text).bytes); };
  for (const Parser parse :
       {bytes, amount, Parser{parse_seconds}, Parser{parse_factor}, Parser{parse_share}, Parser{parse_bytes_per_second}, Parser{parse_number}}) {
    for (const std::string_view text : {"", "  ", "nan", "NaN", "inf", "-inf", "Infinity", "-1", "-0.5MB/s", "x", "--", "+5", "0x10", "1e3", "1e999",
                                        "1,000", "1 2", "4 parsecs"}) {
      CAPTURE(text);
      CHECK_THROWS_AS(parse(text), UsageError);
    }
  }
}

TEST_CASE("a size beyond any machine is refused, not wrapped around") {
  CHECK(parse_bytes("4096PiB") == 1ULL << 62);
  CHECK_THROWS_AS(parse_bytes("4097PiB"), UsageError);
  CHECK_THROWS_AS(parse_bytes("99999999999999999999999999999999B"), UsageError);
  CHECK_THROWS_AS(parse_seconds("9999999999h"), UsageError);
  CHECK_THROWS_AS(parse_number("99999999999999999M"), UsageError);
}

TEST_CASE("an error names the text, what was expected, an example and the known units") {
  const std::string message = refusal_by(parse_bytes_per_second, "4XB/s");
  CHECK(says(message, "\"4XB/s\""));
  CHECK(says(message, "unknown unit \"XB/s\""));
  CHECK(says(message, "MiB/s"));
  CHECK(says(message, "530MB/s"));
  CHECK(says(refusal_by(parse_bytes_per_second, "530"), "unit is missing"));
  CHECK(says(refusal_by(parse_seconds, "-5s"), "must not be negative"));
}

TEST_CASE("an amount is a size or a share") {
  const ByteAmount size = parse_byte_amount("4GiB");
  CHECK(size.kind == ByteAmount::Kind::bytes);
  CHECK(size.of(1) == 4ULL << 30);
  CHECK(size.share_of(8ULL << 30) == doctest::Approx(0.5));
  CHECK(size.share_of(2ULL << 30) == doctest::Approx(2));
  const ByteAmount share = parse_byte_amount("35 %");
  CHECK(share.kind == ByteAmount::Kind::fraction);
  CHECK(share.of(1000) == 350);
  CHECK(share.of(3) == 1);
  CHECK(share.share_of(7) == doctest::Approx(0.35));
  CHECK(parse_byte_amount("100%").of((1ULL << 61) + 1) == (1ULL << 61) + 1);
  CHECK_THROWS_AS(parse_byte_amount("101%"), UsageError);
  CHECK_THROWS_AS(static_cast<void>(share.share_of(0)), std::domain_error);
}

TEST_CASE("a number without a unit is refused with what it may mean, where a size or a share is expected") {
  constexpr auto size = [](std::string_view text) { return static_cast<double>(parse_bytes(text)); };
  constexpr auto amount = [](std::string_view text) { return static_cast<double>(parse_byte_amount(text).bytes); };
  CHECK(refusal_by(amount, "35") == "\"35\" has no unit; write 35% (of the dataset) or 35B");
  CHECK(refusal_by(amount, " 35.5 ") == "\" 35.5 \" has no unit; write 35.5% (of the dataset) or 35.5B");
  CHECK(refusal_by(amount, "0.35") == "\"0.35\" has no unit; write 0.35% or 35% (of the dataset)");
  CHECK(refusal_by(amount, "4096") == "\"4096\" has no unit; write 4096B or 4096MB");
  CHECK(refusal_by(size, "35") == "\"35\" has no unit; write 35B or 35MB");
  CHECK(refusal_by(parse_share, "0.001") == "\"0.001\" has no unit; write 0.001% or 0.1%");
  CHECK(refusal_by(parse_share, "1") == "\"1\" has no unit; write 1% or 100%");
  CHECK(refusal_by(parse_share, "35") == "\"35\" has no unit; write 35%");
  CHECK(refusal_by(parse_share, "101") == "\"101\" has no unit; write a share of at most 100%");
  for (const std::string_view nothing : {"0", "0.0", " 00 "}) {
    CHECK(parse_bytes(nothing) == 0);
    CHECK(parse_byte_amount(nothing).of(100) == 0);
    CHECK(parse_share(nothing) == 0);
  }
}

TEST_CASE("times are read in seconds") {
  CHECK(parse_seconds("90s") == 90);
  CHECK(parse_seconds("5min") == 300);
  CHECK(parse_seconds("250ms") == doctest::Approx(0.25));
  CHECK(parse_seconds("2 h") == 7200);
  CHECK(parse_seconds("40us") == doctest::Approx(40e-6));
  CHECK(parse_seconds("3.5") == 3.5);
}

TEST_CASE("factors, shares and numbers") {
  CHECK(parse_factor("2x") == 2);
  CHECK(parse_factor("1.5 X") == 1.5);
  CHECK(parse_factor("2") == 2);
  CHECK_THROWS_AS(parse_factor("0x"), UsageError);
  CHECK(parse_share("0.1%") == doctest::Approx(0.001));
  CHECK(parse_share("100%") == 1);
  CHECK_THROWS_AS(parse_share("100.5%"), UsageError);
  CHECK(parse_number("9800") == 9800);
  CHECK(parse_number("9.8k") == doctest::Approx(9800));
  CHECK(parse_number("1.2M") == doctest::Approx(1.2e6));
  CHECK_THROWS_AS(parse_number("1.2m"), UsageError);
}

TEST_CASE("rates tell bits from bytes") {
  CHECK(parse_bytes_per_second("530MB/s") == 530e6);
  CHECK(parse_bytes_per_second("200 MiB/s") == 200.0 * 1024 * 1024);
  CHECK(parse_bytes_per_second("40Gbit/s") == 5e9);
  CHECK(parse_bytes_per_second("40gbit/s") == 5e9);
  CHECK(parse_bytes_per_second("40Gbps") == 5e9);
  CHECK(parse_bytes_per_second("100 B/s") == 100);
}

TEST_CASE("a rate that may mean bits or bytes is not guessed") {
  for (const std::string_view text : {"530Mb/s", "530mb/s", "40GBps", "40GBPS", "8b/s"}) {
    CAPTURE(text);
    CHECK(says(refusal_by(parse_bytes_per_second, text), "may mean bits or bytes"));
  }
}

TEST_CASE("a seed is any whole number of 64 bits") {
  CHECK(parse_seed("0") == 0);
  CHECK(parse_seed(" 9223372036854775808 ") == std::uint64_t{1} << 63U);
  CHECK(parse_seed("18446744073709551615") == UINT64_MAX);
  for (const std::string_view text : {"", "-1", "1.5", "18446744073709551616", "8 9"})
    CHECK_THROWS_WITH_AS(parse_seed(text), doctest::Contains("[0, 18446744073709551615]"), UsageError);
}

TEST_CASE("whole numbers keep to their range") {
  CHECK(parse_integer(" 42 ", 1, 100) == 42);
  CHECK(parse_integer("-3", -5, 5) == -3);
  CHECK_THROWS_WITH_AS(parse_integer("0", 1, 4096), "found \"0\", expected a whole number in [1, 4096], for example 8", UsageError);
  CHECK_THROWS_AS(parse_integer("4097", 1, 4096), UsageError);
  for (const std::string_view text : {"", "1.5", "1e3", "ten", "99999999999999999999", "5 6", "0x10"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_integer(text, 0, std::numeric_limits<std::int64_t>::max()), UsageError);
  }
}

TEST_CASE("lists are split at commas and trimmed; an empty item is an error") {
  CHECK(split_list("a, b,c") == std::vector<std::string>{"a", "b", "c"});
  CHECK(split_list(" 25% ") == std::vector<std::string>{"25%"});
  for (const std::string_view text : {"", " ", "a,,b", "a,", ",a"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(split_list(text), UsageError);
  }
}

TEST_CASE("sizes are shown with three digits and never as 1024 of a unit") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes((1ULL << 20) - 1) == "1 MiB");
  CHECK(format_bytes(3'328'599'655ULL) == "3.1 GiB");
  CHECK(format_bytes(43'201'331) == "41.2 MiB");
  CHECK(format_bytes(std::numeric_limits<Bytes>::max()) == "16 EiB");
}

TEST_CASE("rates are shown in decimal units") {
  CHECK(format_bytes_per_second(530e6) == "530 MB/s");
  CHECK(format_bytes_per_second(999.9e6) == "1 GB/s");
  CHECK(format_bytes_per_second(1.25e9) == "1.25 GB/s");
  CHECK(format_bytes_per_second(0) == "0 B/s");
}

TEST_CASE("times are shown as people say them") {
  CHECK(format_seconds(0) == "0 s");
  CHECK(format_seconds(0.0015) == "1.5 ms");
  CHECK(format_seconds(40e-6) == "40 us");
  CHECK(format_seconds(42) == "42 s");
  CHECK(format_seconds(59.96) == "1 min 00 s");
  CHECK(format_seconds(185) == "3 min 05 s");
  CHECK(format_seconds(3599.7) == "1 h 00 min");
  CHECK(format_seconds(7500) == "2 h 05 min");
  CHECK(format_seconds(-1.5) == "-1.5 s");
}

TEST_CASE("numbers keep three digits and separate thousands") {
  CHECK(format_number(9800) == "9,800");
  CHECK(format_number(1'234'567) == "1,234,567");
  CHECK(format_number(12.34) == "12.3");
  CHECK(format_number(999.6) == "1,000");
  CHECK(format_number(0.012345) == "0.0123");
  CHECK(format_number(-1234) == "-1,234");
  CHECK(format_number(0) == "0");
  CHECK(format_number(9.999) == "10");
}

TEST_CASE("shares are shown in percent, small ones with two digits") {
  CHECK(format_share(0.35) == "35 %");
  CHECK(format_share(0.004) == "0.4 %");
  CHECK(format_share(0.0131) == "1.3 %");
  CHECK(format_share(0.355) == "35.5 %");
  CHECK(format_share(1) == "100 %");
  CHECK(format_share(0) == "0 %");
  CHECK(format_share(0.00012) == "0.012 %");
}
