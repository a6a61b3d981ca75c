#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "frame_sums.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

/// The bytes that come in over one socket, cut into frames whose sums are checked. A body goes where its owner wants it, what belongs to no body lies
/// in a stage. Threads: one.
class FrameIntake {
 public:
  enum class Body : std::uint8_t { none, reply, unwanted, message };

  /// Where the next bytes go: the rest of a body first, then the stage.
  struct Room {
    std::array<iovec, 2> parts{};
    bool has_body = false;
    [[nodiscard]] const iovec* first() const { return has_body ? parts.data() : parts.data() + 1; }
    [[nodiscard]] int count() const { return has_body ? 2 : 1; }
    [[nodiscard]] std::size_t bytes() const { return (has_body ? parts[0].iov_len : 0) + parts[1].iov_len; }
  };
  Room room();
  /// So many bytes lie in that room. Returns how many of them are the body's.
  std::size_t add(std::size_t bytes);

  struct Frame {
    enum class Kind : std::uint8_t {
      incomplete,  ///< more bytes are needed
      nonsense,    ///< no head of a frame
      corrupt,     ///< the sum is not that of the bytes, or of the frame whose turn it is
      small,       ///< whole and right
      long_head    ///< the head of one whose body follows, which is checked with that: see start_body() and start_message()
    };
    Kind kind = Kind::incomplete;
    FrameHead head{};
    std::span<const std::byte> bytes{};  ///< of a small one; valid until more is added
  };
  /// The next frame of the stage. Requires body() == none.
  Frame next();
  /// The body of the head that came goes there, which is as long as the head says.
  void start_body(std::span<std::byte> place);
  /// Or into memory of this object, which grows as bytes come: the length is not known to be the other rank's.
  void start_message(Body body);
  /// Moves what the stage has of the body into it. False when more bytes are needed.
  bool fill_body();
  /// The body is whole: whether it and its head are right. Requires that fill_body() was true.
  bool end_body();
  /// Of a body that was no reply.
  std::vector<std::byte> take_message() { return std::exchange(m_message, {}); }
  /// What is left in the stage is the start of a frame: it gets room for the rest.
  void make_room();

  [[nodiscard]] Body body() const { return m_body; }
  [[nodiscard]] const FrameHead& head() const { return m_head; }  ///< of the body
  [[nodiscard]] std::size_t missing() const { return m_rest.size(); }
  /// Bytes of the body that is coming in.
  [[nodiscard]] std::size_t of_body() const { return m_body == Body::none ? 0 : m_place.size() - m_rest.size(); }
  [[nodiscard]] bool has_begun() const { return m_body != Body::none || m_begin < m_end; }

  /// Another socket, whose frames have these sums.
  void restart(const FrameSums& sums) { m_sums = sums; }
  /// Drops what has come.
  void clear();

 private:
  std::array<std::byte, 4096> m_stage{};
  std::size_t m_begin = 0;
  std::size_t m_end = 0;
  Body m_body = Body::none;
  FrameHead m_head;
  HeadBytes m_head_bytes{};
  FrameSum m_sum{};
  FrameSums m_sums;
  std::span<std::byte> m_place;  ///< of the body
  std::span<std::byte> m_rest;   ///< of m_place: what has not come
  std::vector<std::byte> m_message;
};

}  // namespace dsanalyze::transport
