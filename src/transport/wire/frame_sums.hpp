#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/rendezvous/job_key.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

/// Makes sure that tags can be made. Throws Error.
void ready_frame_sums();

/// The sums of one direction of a connection, in the order in which its frames are sent. A frame's count is in its sum, so that no frame passes for
/// another, and none can be left out or repeated unseen.
/// - With a key: Poly1305, its one-time key drawn by ChaCha20 from the key and the count [RFC 8439, section 2.6]. Only who has the key makes it.
/// - Without: XXH3-128, which finds bytes that changed by accident, and authenticates nothing.
/// The key must be of this direction of this connection alone. Threads: one at a time.
class FrameSums {
 public:
  FrameSums() = default;
  explicit FrameSums(const SecretKey& key) : m_key(key) {}

  /// The sum of the next frame. `head`: bare_head_bytes.
  FrameSum next(std::span<const std::byte> head, std::span<const std::byte> body);
  /// The same for a frame that was received: whether it came whole, unchanged and in its turn. Compares in constant time.
  bool matches(std::span<const std::byte> head, std::span<const std::byte> body, std::span<const std::byte> sum);

 private:
  std::optional<SecretKey> m_key;
  std::uint64_t m_count = 0;
};

}  // namespace dsanalyze::transport
