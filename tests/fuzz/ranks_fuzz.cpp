#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz.hpp"
#include "transport/wire/handshake.hpp"
#include "transport/wire/wire.hpp"

// What strangers and members may send to a rank: the handshake, and the frames after it.

namespace dsanalyze::fuzz {
namespace {

using transport::FrameKind;
using transport::Handshake;

transport::OwnSide side_of(std::uint32_t rank) {
  RankFacts facts;
  facts.rank = rank;
  facts.world = 4;
  JobKey key;
  key.fill(std::byte{1});
  facts.key = SecretKey(key);
  facts.terms = "terms";
  return transport::own_side(facts);
}

/// No peer gets in by bytes that are made without the key, in pieces of any size; what it is answered is a nonce at most.
void check_handshake(Handshake shake, std::span<const std::byte> bytes) {
  std::size_t answered = shake.output().size();
  const std::size_t first = answered;
  for (std::size_t at = 0; at < bytes.size() && shake.wanted() > 0;) {
    const std::size_t part = std::min<std::size_t>(bytes.size() - at, 1 + static_cast<std::size_t>(bytes[at]) % 64);
    shake.take(bytes.subspan(at, part));
    answered += shake.output().size();
    at += part;
    require(shake.wanted() <= 256, "a handshake wants little");
  }
  require(shake.stage() != Handshake::Stage::done, "who does not know the key is not let in");
  require(answered - first <= 128, "and learns nothing but nonces and proofs");
}

void check_frames(std::span<const std::byte> bytes) {
  while (bytes.size() >= transport::bare_head_bytes) {
    const auto head = transport::parse_head(bytes.first<transport::bare_head_bytes>());
    if (!head) return;
    const transport::HeadBytes written = transport::write_head(*head);
    require(std::equal(written.begin(), written.end(), bytes.begin()), "a head that was read is written as it was");
    require(head->kind == FrameKind::reply || head->length <= transport::most_gathered, "lengths are bounded");
    require(transport::is_long(head->kind) || head->length <= transport::most_small, "and most are small");
    bytes = bytes.subspan(transport::bare_head_bytes);
    const std::span<const std::byte> body = bytes.first(std::min<std::size_t>(bytes.size(), head->length));
    if (head->kind == FrameKind::request && body.size() == head->length) {
      std::vector<transport::RequestEntry> entries;
      transport::parse_entries(body, entries);
      require(!entries.empty() && entries.size() <= transport::most_entries, "requests are some, and not too many");
    }
    if (head->kind == FrameKind::mask || head->kind == FrameKind::decided) {
      const std::uint32_t world = 1 + head->number % most_ranks;
      const auto said = transport::parse_standing(body, world);
      if (said) require(said->going_on.size() == world && said->ended.size() == world, "masks are of the job's ranks");
      if (said) require(std::ranges::equal(transport::write_standing(*said), body), "and are written as they were read");
    }
    bytes = bytes.subspan(body.size());
  }
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  using dsanalyze::transport::Handshake;
  static const auto low = side_of(0);
  static const auto high = side_of(2);
  const auto bytes = bytes_of(data, size);
  dsanalyze::transport::Nonce nonce;
  nonce.fill(std::byte{9});
  check_handshake(Handshake::to_accept(low, nonce), bytes);
  check_handshake(Handshake::to_dial(high, 0, 0, nonce), bytes);
  check_frames(bytes);
  return 0;
}
