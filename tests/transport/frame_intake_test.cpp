#include "transport/wire/frame_intake.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/random.hpp"

namespace dsanalyze::transport {
namespace {

using Body = FrameIntake::Body;
using Verdict = FrameIntake::Frame::Kind;

/// A frame with a body that is made of its number.
struct StreamFrame {
  FrameKind kind = FrameKind::heartbeat;
  std::uint32_t length = 0;
  std::uint64_t number = 0;

  bool operator==(const StreamFrame&) const = default;
  [[nodiscard]] std::vector<std::byte> body() const {
    RandomStream random(number);
    std::vector<std::byte> bytes(length);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    return bytes;
  }
  /// As it is sent. Counts.
  [[nodiscard]] std::vector<std::byte> bytes(FrameSums& sums) const {
    const HeadBytes head = write_head({kind, length, number, is_message(kind) ? 1U : 0U, 0});
    const std::vector<std::byte> follows = body();
    const FrameSum sum = sums.next(head, follows);
    std::vector<std::byte> all(head.begin(), head.end());
    all.insert(all.end(), sum.begin(), sum.end());
    all.insert(all.end(), follows.begin(), follows.end());
    return all;
  }
};

constexpr StreamFrame sent_heartbeat{FrameKind::heartbeat, 0, 1};
constexpr StreamFrame sent_request{FrameKind::request, most_small, 2};
constexpr StreamFrame sent_reply{FrameKind::reply, 10'000, 3};
constexpr StreamFrame sent_gather{FrameKind::gather, 3U << 20U, 4};

std::vector<std::byte> stream_of(const std::vector<StreamFrame>& frames) {
  FrameSums sums;
  std::vector<std::byte> stream;
  for (const StreamFrame& frame : frames) {
    const std::vector<std::byte> bytes = frame.bytes(sums);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  return stream;
}

/// Takes frames as a connection does.
struct StreamTaker {
  FrameIntake intake;
  std::vector<std::byte> reply;
  std::vector<StreamFrame> frames;        ///< whole and right, with the body that was sent
  Verdict verdict = Verdict::incomplete;  ///< of the frame that was none
  int wrong_bodies = 0;

  /// Puts the bytes into the room that there is, as readv() does, and takes what is whole by then.
  void give(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const FrameIntake::Room room = intake.room();
      REQUIRE(room.bytes() > 0);
      std::size_t put = 0;
      for (const iovec& part : std::span(room.first(), static_cast<std::size_t>(room.count()))) {
        const std::size_t size = std::min(part.iov_len, bytes.size() - put);
        std::ranges::copy(bytes.subspan(put, size), static_cast<std::byte*>(part.iov_base));
        put += size;
      }
      const std::size_t missing = intake.missing();
      CHECK(intake.add(put) == std::min(put, missing));
      bytes = bytes.subspan(put);
      while (intake.body() == Body::none ? take_frame() : take_body()) {
      }
      intake.make_room();
    }
  }
  void give(std::span<const std::byte> bytes, std::size_t chunk) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(chunk, bytes.size()))) give(bytes.first(std::min(chunk, bytes.size())));
  }

 private:
  void add(const FrameHead& head, std::span<const std::byte> body) {
    const StreamFrame frame{head.kind, head.length, head.number};
    CHECK(std::ranges::equal(body, frame.body()));
    frames.push_back(frame);
  }
  bool take_frame() {
    const FrameIntake::Frame frame = intake.next();
    if (frame.kind == Verdict::small) {
      add(frame.head, frame.bytes);
    } else if (frame.kind == Verdict::long_head && frame.head.kind == FrameKind::reply) {
      reply.resize(frame.head.length);
      intake.start_body(reply);
    } else if (frame.kind == Verdict::long_head) {
      intake.start_message(Body::message);
    } else {
      verdict = std::max(verdict, frame.kind);
      return false;
    }
    return true;
  }
  bool take_body() {
    if (!intake.fill_body()) return false;
    const bool is_reply = intake.body() == Body::reply;
    const FrameHead head = intake.head();
    const bool is_right = intake.end_body();
    const std::vector<std::byte> message = intake.take_message();
    if (is_right) add(head, is_reply ? reply : message);
    wrong_bodies += is_right ? 0 : 1;
    return is_right;
  }
};

TEST_CASE("A stream gives the same frames, in whatever pieces it comes") {
  const std::vector<StreamFrame> sent = {sent_heartbeat, sent_request, sent_request, sent_reply,
                                         sent_heartbeat, sent_gather,  sent_reply,   sent_heartbeat};
  const std::vector<std::byte> stream = stream_of(sent);
  for (const std::size_t chunk : {1, 7, 48, 100, 4096, 1 << 20}) {
    CAPTURE(chunk);
    StreamTaker taker;
    taker.give(stream, chunk);
    CHECK(taker.frames == sent);
    CHECK(taker.verdict == Verdict::incomplete);
    CHECK(taker.wrong_bodies == 0);
    CHECK_FALSE(taker.intake.has_begun());
  }
}

TEST_CASE("A message takes memory as its bytes come, not as its head says") {
  const std::vector<std::byte> stream = stream_of({sent_gather});
  StreamTaker taker;
  taker.give(std::span(stream).first(head_bytes));
  CHECK(taker.intake.missing() == 1U << 20U);
  taker.give(std::span(stream).subspan(head_bytes, 1U << 20U));
  CHECK(taker.intake.missing() == 1U << 20U);
  CHECK(taker.intake.of_body() == 1U << 20U);
}

TEST_CASE("A flipped bit is found: with a small frame at once, with a body at its end") {
  struct Flip {
    StreamFrame frame;
    std::size_t at;
    bool is_in_body;
  };
  const std::size_t number_at = offsetof(FrameHead, number);
  for (const Flip& flip : {Flip{sent_heartbeat, number_at, false},
                           {sent_heartbeat, head_bytes - 1, false},
                           {sent_request, bare_head_bytes, false},
                           {sent_request, head_bytes + most_small - 1, false},
                           {sent_reply, number_at, true},
                           {sent_reply, bare_head_bytes, true},
                           {sent_reply, head_bytes, true},
                           {sent_gather, head_bytes + (3U << 20U) - 1, true}}) {
    CAPTURE(flip.at);
    std::vector<std::byte> stream = stream_of({flip.frame});
    stream[flip.at] ^= std::byte{1};
    StreamTaker taker;
    taker.give(stream);
    CHECK(taker.frames.empty());
    CHECK(taker.verdict == (flip.is_in_body ? Verdict::incomplete : Verdict::corrupt));
    CHECK(taker.wrong_bodies == (flip.is_in_body ? 1 : 0));
  }
}

TEST_CASE("A head that no frame has is told as nonsense before its body comes") {
  for (const FrameHead& nonsense : {FrameHead{static_cast<FrameKind>(0), 0, 0, 0, 0},
                                    {static_cast<FrameKind>(99), 0, 0, 0, 0},
                                    {FrameKind::heartbeat, 1, 0, 0, 0},
                                    {FrameKind::request, entry_bytes - 1, 0, 0, 0},
                                    {FrameKind::reply, 0, 0, 0, 0},
                                    {FrameKind::gather, most_gathered + 1, 0, 1, 0},
                                    {FrameKind::gather, 1, 0, 0, 0}}) {
    CAPTURE(nonsense.length);
    const HeadBytes head = write_head(nonsense);
    std::vector<std::byte> bytes(head.begin(), head.end());
    bytes.resize(head_bytes);
    StreamTaker taker;
    taker.give(bytes);
    CHECK(taker.verdict == Verdict::nonsense);
  }
}

TEST_CASE("A frame that is repeated, left out or of another socket is not taken") {
  for (const StreamFrame& frame : {sent_request, sent_reply}) {
    CAPTURE(static_cast<int>(frame.kind));
    const std::vector<std::byte> first = stream_of({frame});
    const std::vector<std::byte> both = stream_of({frame, frame});
    const auto second = std::span(both).subspan(first.size());
    const auto is_refused = [&](StreamTaker& taker) { return is_long(frame.kind) ? taker.wrong_bodies == 1 : taker.verdict == Verdict::corrupt; };
    StreamTaker repeated;
    repeated.give(first);
    CHECK_FALSE(is_refused(repeated));
    repeated.give(first);
    CHECK(is_refused(repeated));
    StreamTaker left_out;
    left_out.give(second);
    CHECK(is_refused(left_out));
    StreamTaker other_socket;
    other_socket.give(first);
    other_socket.intake.restart(FrameSums());
    other_socket.give(first);  // counts anew
    CHECK(other_socket.frames == std::vector<StreamFrame>{frame, frame});
    JobKey key;
    key.fill(std::byte{1});
    other_socket.intake.restart(FrameSums(SecretKey(key)));
    other_socket.give(first);
    CHECK(is_refused(other_socket));
  }
}

TEST_CASE("What has come of a frame is dropped by clear(), in its head, its body or behind it") {
  for (const StreamFrame& frame : {sent_request, sent_reply, sent_gather}) {
    const std::vector<std::byte> stream = stream_of({frame});
    for (const std::size_t came : {std::size_t{1}, head_bytes - 1, head_bytes, head_bytes + 1, stream.size() - 1}) {
      CAPTURE(came);
      StreamTaker taker;
      taker.give(std::span(stream).first(came));
      CHECK(taker.intake.has_begun());
      taker.intake.clear();
      CHECK_FALSE(taker.intake.has_begun());
      CHECK(taker.intake.body() == Body::none);
      CHECK(taker.intake.missing() == 0);
      CHECK(taker.intake.of_body() == 0);
      taker.intake.restart(FrameSums());
      taker.give(stream);
      CHECK(taker.frames == std::vector<StreamFrame>{frame});
    }
  }
}

TEST_CASE("It is known at each byte what has come of a body and what has not") {
  const std::vector<std::byte> stream = stream_of({sent_heartbeat, sent_reply});
  StreamTaker taker;
  CHECK_FALSE(taker.intake.has_begun());
  for (std::size_t came = 1; came <= stream.size(); ++came) {
    taker.give(std::span(stream).subspan(came - 1, 1));
    const bool is_whole = came == head_bytes || came == stream.size();
    const std::size_t body = came < 2 * head_bytes || is_whole ? 0 : came - 2 * head_bytes;
    CHECK(taker.intake.has_begun() != is_whole);
    CHECK(taker.intake.of_body() == body);
    CHECK(taker.intake.missing() == (came < 2 * head_bytes || is_whole ? 0 : sent_reply.length - body));
  }
}

}  // namespace
}  // namespace dsanalyze::transport
