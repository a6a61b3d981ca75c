#include "transport/wire/wire.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

namespace dsanalyze::transport {
namespace {

TEST_CASE("A frame's head that was written is read as it was") {
  const FrameHead head{FrameKind::gather, 110'000, 77, 12, 0x1234567890abcdefU};
  const auto read = parse_head(write_head(head));
  REQUIRE(read);
  CHECK(read->kind == head.kind);
  CHECK(read->length == head.length);
  CHECK(read->number == head.number);
  CHECK(read->said == head.said);
  CHECK(read->heard == head.heard);
}

TEST_CASE("A head with a length that its kind does not have is none") {
  const auto is_head = [](FrameKind kind, std::uint32_t length) {
    return parse_head(write_head({kind, length, 0, is_message(kind) ? 1U : 0U, 0})).has_value();
  };
  CHECK(is_head(FrameKind::request, entry_bytes));
  CHECK(is_head(FrameKind::request, entry_bytes * most_entries));
  CHECK_FALSE(is_head(FrameKind::request, 0));
  CHECK_FALSE(is_head(FrameKind::request, entry_bytes - 1));
  CHECK_FALSE(is_head(FrameKind::request, entry_bytes * (most_entries + 1)));
  CHECK(is_head(FrameKind::reply, UINT32_MAX));
  CHECK_FALSE(is_head(FrameKind::reply, 0));
  CHECK(is_head(FrameKind::heartbeat, 0));
  CHECK_FALSE(is_head(FrameKind::heartbeat, 1));
  CHECK_FALSE(is_head(FrameKind::not_held, 1));
  CHECK_FALSE(is_head(FrameKind::other_length, 1));
  CHECK(is_head(FrameKind::gather, most_gathered));
  CHECK_FALSE(is_head(FrameKind::gather, most_gathered + 1));
  CHECK(is_head(FrameKind::mask, most_mask));
  CHECK_FALSE(is_head(FrameKind::mask, most_mask + 1));
  CHECK(is_head(FrameKind::process, process_bytes));
  CHECK_FALSE(is_head(FrameKind::process, process_bytes - 1));
  CHECK(is_head(FrameKind::training, most_gathered));
  CHECK_FALSE(is_head(FrameKind::training, most_gathered + 1));
  CHECK(is_head(FrameKind::given_up, 0));
  CHECK_FALSE(is_head(FrameKind::given_up, 1));
  CHECK(is_head(FrameKind::leaving, 0));
  CHECK_FALSE(is_head(FrameKind::leaving, 1));
  CHECK_FALSE(is_head(FrameKind::decided, 0));
  CHECK_FALSE(is_head(static_cast<FrameKind>(0), 0));
  CHECK_FALSE(is_head(static_cast<FrameKind>(13), 0));
}

TEST_CASE("Messages have a number, and nothing else has") {
  for (const FrameKind kind : {FrameKind::gather, FrameKind::training, FrameKind::mask, FrameKind::decided, FrameKind::process, FrameKind::leaving}) {
    const std::uint32_t length = kind == FrameKind::leaving ? 0 : kind == FrameKind::process ? process_bytes : 2;
    CHECK(parse_head(write_head({kind, length, 0, 1, 0})));
    CHECK_FALSE(parse_head(write_head({kind, length, 0, 0, 0})));
  }
  for (const FrameKind kind : {FrameKind::heartbeat, FrameKind::not_held, FrameKind::given_up}) {
    CHECK(parse_head(write_head({kind, 0, 0, 0, 0})));
    CHECK_FALSE(parse_head(write_head({kind, 0, 0, 1, 0})));
  }
}

TEST_CASE("Entries that were written are read in their order") {
  std::array<std::byte, 2 * entry_bytes> bytes;
  write_entry({5, 110}, std::span(bytes).first<entry_bytes>());
  write_entry({UINT32_MAX, 1}, std::span(bytes).last<entry_bytes>());
  std::vector<RequestEntry> entries;
  parse_entries(bytes, entries);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].sample == 5);
  CHECK(entries[0].bytes == 110);
  CHECK(entries[1].sample == UINT32_MAX);
}

TEST_CASE("What is said of all ranks is read by jobs of its size alone") {
  Standing standing{RankMask(11), RankMask(11)};
  standing.going_on[0] = standing.going_on[10] = true;
  standing.ended[7] = standing.ended[8] = true;
  std::vector<std::byte> bytes = write_standing(standing);
  const auto read = parse_standing(bytes, 11);
  REQUIRE(read);
  CHECK(read->going_on == standing.going_on);
  CHECK(read->ended == standing.ended);
  CHECK_FALSE(parse_standing(bytes, 10));  // says something of a rank that is not there
  CHECK_FALSE(parse_standing(bytes, 17));
  CHECK_FALSE(parse_standing({}, 11));
  CHECK_FALSE(parse_standing(std::span(bytes).first(2), 11));
  bytes.back() = std::byte{0x80};
  CHECK_FALSE(parse_standing(bytes, 11));
}

}  // namespace
}  // namespace dsanalyze::transport
