#include "loaders/dataset/readers/tar_header.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "loaders/dataset/readers/tar_shard.hpp"
#include "loaders/dataset/tools/tar_writer.hpp"
#include "tar_files.hpp"

using namespace dsanalyze;
using testing::header_block;
using testing::RawHeader;

namespace {

TarBlockKind parse(const std::string& block, TarHeader& header) { return parse_tar_block(std::as_bytes(std::span(block)).first<512>(), header); }

TarHeader parsed(const RawHeader& raw) {
  TarHeader header;
  REQUIRE(parse(header_block(raw), header) == TarBlockKind::header);
  return header;
}

bool parse_records(const std::string& text, PaxRecords& records) { return parse_pax_records(std::as_bytes(std::span(text)), records); }

std::string base256(std::uint64_t number, unsigned char first = 0x80) {
  std::string field(12, '\0');
  field[0] = static_cast<char>(first);
  for (int byte = 0; byte < 8; ++byte) field[static_cast<std::size_t>(11 - byte)] = static_cast<char>(number >> (8 * byte) & 0xff);
  return field;
}

}  // namespace

TEST_CASE("a ustar name is prefix, slash and name; a GNU header has no prefix") {
  CHECK(parsed({.name = "b.jpg", .prefix = "deep/a"}).name == "deep/a/b.jpg");
  CHECK(parsed({.name = "b.jpg"}).name == "b.jpg");
  CHECK(parsed({.name = "b.jpg", .magic = std::string("ustar  \0", 8), .prefix = "times"}).name == "b.jpg");
  CHECK(parsed({.name = "b.jpg", .magic = "", .prefix = "noise"}).name == "b.jpg");
  CHECK(parsed({.name = std::string(100, 'n'), .prefix = std::string(155, 'p')}).name == std::string(155, 'p') + "/" + std::string(100, 'n'));
}

TEST_CASE("sizes are octal, with spaces or without, or base 256 beyond 8 GiB") {
  const auto size_of = [](const std::string& field) { return parsed({.name = "x", .size = field}).size; };
  CHECK(size_of("00000000144 ") == 100);
  CHECK(size_of(std::string("       144 \0", 12)) == 100);
  CHECK(size_of("777777777777") == 0777777777777ULL);
  CHECK(size_of("144") == 100);
  CHECK(size_of(std::string(12, ' ')) == 0);
  CHECK(size_of(base256(9ULL << 30)) == 9ULL << 30);
  CHECK(size_of(base256(0x7fff'ffff'ffff'ffff)) == 0x7fff'ffff'ffff'ffff);
}

TEST_CASE("sizes that are no numbers or beyond any file are garbage") {
  TarHeader header;
  for (const std::string& field : {std::string("00000000189"), std::string("hello"), std::string("-0000000001"), base256(~0ULL), base256(~0ULL, 0xff),
                                   std::string(12, '\xff')}) {
    CHECK(parse(header_block({.name = "x", .size = field}), header) == TarBlockKind::garbage);
  }
}

TEST_CASE("zeros, garbage and headers are told apart; a flipped bit spoils a header") {
  TarHeader header;
  CHECK(parse(std::string(512, '\0'), header) == TarBlockKind::zeros);
  CHECK(parse(std::string(512, 'x'), header) == TarBlockKind::garbage);
  const std::string good = header_block({.name = "x.jpg", .data = "123"});
  for (std::size_t place = 0; place < good.size(); ++place) {
    if (place >= 148 && place < 156) continue;  // the checksum's own field has several ways to say one number
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 1);
    CHECK(parse(bad, header) == TarBlockKind::garbage);
  }
}

TEST_CASE("a checksum over signed bytes, as old programs made it, is right too") {
  CHECK(parsed({.name = "gr\xc3\xbc\xc3\x9f.jpg", .signed_checksum = true}).name == "gr\xc3\xbc\xc3\x9f.jpg");
}

TEST_CASE("the kinds of members are known, V7's folders by their slash") {
  const auto kind_of = [](char letter, const std::string& name = "x") { return parsed({.name = name, .kind = letter}).kind; };
  CHECK(kind_of('0') == TarKind::file);
  CHECK(kind_of('\0') == TarKind::file);
  CHECK(kind_of('7') == TarKind::file);
  CHECK(kind_of('\0', "folder/") == TarKind::folder);
  CHECK(kind_of('0', "cut where a long name has a slash/") == TarKind::file);
  CHECK(kind_of('5') == TarKind::folder);
  CHECK(kind_of('1') == TarKind::hard_link);
  CHECK(kind_of('2') == TarKind::symbolic_link);
  CHECK(kind_of('3') == TarKind::special);
  CHECK(kind_of('L') == TarKind::long_name);
  CHECK(kind_of('K') == TarKind::long_link);
  CHECK(kind_of('x') == TarKind::pax);
  CHECK(kind_of('g') == TarKind::pax_global);
  CHECK(kind_of('S') == TarKind::sparse);
  CHECK(kind_of('V') == TarKind::other);
  CHECK(parsed({.name = "x", .kind = '2', .link = "there"}).link == "there");
}

TEST_CASE("pax records give path, link and size, with any bytes in a value") {
  PaxRecords records;
  REQUIRE(parse_records("19 path=a\nb=c \xc3\xa4 d\n12 size=123\n22 linkpath=elsewhere\n11 atime=1\n", records));
  CHECK(records.path == "a\nb=c \xc3\xa4 d");
  CHECK(records.size == 123);
  CHECK(records.link == "elsewhere");
  CHECK_FALSE(records.sparse);
  TarHeader header;
  header.size = 1;
  records.apply_to(header);
  CHECK(header.name == *records.path);
  CHECK(header.size == 123);
}

TEST_CASE("what pax says of sparse files makes a file sparse") {
  PaxRecords records;
  REQUIRE(parse_records("22 GNU.sparse.major=1\n", records));
  TarHeader header;
  records.apply_to(header);
  CHECK(header.kind == TarKind::sparse);
}

TEST_CASE("pax records whose lengths lie are refused and never read past") {
  for (const char* text : {"1 path=x\n", "99 path=x\n", "11 path=x\n", "8 path=x\n", "path=x\n", " path=x\n", "9", "0 path=x\n", "-9 path=x\n",
                           "8 pathx\n", "18446744073709551616 path=x\n", "18446744073709551615 path=x\n", "9223372036854775807 path=x\n", "3 \n",
                           "4 =\n", "12 size=12x\n", "28 size=9223372036854775808\n", "9 path=x\n5"}) {
    PaxRecords records;
    const std::string bytes = text;
    std::vector<char> exact(bytes.begin(), bytes.end());  // on the heap, so that a sanitizer sees a byte too many
    CAPTURE(bytes);
    const bool is_well_formed = bytes == "4 =\n";  // an empty key with an empty value
    CHECK(parse_pax_records(std::as_bytes(std::span(exact)), records) == is_well_formed);
  }
}

TEST_CASE("the next header is at the next block, and nowhere when that is beyond any file") {
  CHECK(tar_next_header(512, 0) == 512);
  CHECK(tar_next_header(512, 1) == 1024);
  CHECK(tar_next_header(512, 512) == 1024);
  CHECK(tar_next_header(512, 0x7fff'ffff'ffff'ffff) == std::nullopt);
  CHECK(tar_next_header(0x7fff'ffff'ffff'fe00, 512) == std::nullopt);
}

TEST_CASE("a member's key goes up to the first dot of its last component") {
  CHECK(split_member_name("a/b.c/x.y.jpg").key == "a/b.c/x");
  CHECK(split_member_name("a/b.c/x.y.jpg").extension == "y.jpg");
  CHECK(split_member_name("x.jpg").key == "x");
  CHECK(split_member_name("x").key.empty());
  CHECK(split_member_name("a/.hidden").key.empty());
  CHECK(split_member_name("").key.empty());
}

TEST_CASE("what the writer writes is what the parser reads, for names and sizes of any length") {
  for (const std::size_t length : {1, 99, 100, 101, 155, 156, 255, 256, 257, 300, 1000, 4000}) {
    for (const bool has_folders : {false, true}) {
      std::string name(length, 'n');
      if (has_folders && length > 8) {
        for (std::size_t place = 7; place + 1 < length; place += 40) name[place] = '/';
      }
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{513}, std::uint64_t{9} << 30}) {
        std::string text;
        append_tar_header(text, name, bytes);
        REQUIRE(text.size() % 512 == 0);
        CHECK(text.size() == tar_member_bytes(name, bytes) - bytes - tar_padding(bytes));
        TarHeader header;
        REQUIRE(parse(text.substr(0, 512), header) == TarBlockKind::header);
        if (header.kind == TarKind::pax) {
          PaxRecords records;
          REQUIRE(parse_records(text.substr(512, header.size), records));
          REQUIRE(parse(text.substr(text.size() - 512), header) == TarBlockKind::header);
          records.apply_to(header);
        }
        CHECK(header.name == name);
        CHECK(header.size == bytes);
        CHECK(header.kind == TarKind::file);
      }
    }
  }
}
