#include "wire.hpp"

#include <cstring>

namespace dsanalyze::transport {
namespace {

bool has_possible_length(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::request:
      return head.length > 0 && head.length % entry_bytes == 0 && head.length <= most_small;
    case FrameKind::reply:
      return head.length > 0;
    case FrameKind::not_held:
    case FrameKind::other_length:
    case FrameKind::heartbeat:
    case FrameKind::given_up:
    case FrameKind::leaving:
      return head.length == 0;
    case FrameKind::gather:
    case FrameKind::training:
      return head.length <= most_gathered;
    case FrameKind::mask:
    case FrameKind::decided:
      return head.length > 0 && head.length <= most_mask;
    case FrameKind::process:
      return head.length == process_bytes;
  }
  return false;
}

constexpr std::size_t mask_bytes(std::size_t world) { return (world + 7) / 8; }

void append_mask(const RankMask& mask, std::vector<std::byte>& bytes) {
  const std::size_t begin = bytes.size();
  bytes.resize(begin + mask_bytes(mask.size()));
  for (std::size_t rank = 0; rank < mask.size(); ++rank) {
    if (mask[rank]) bytes[begin + rank / 8] |= std::byte{1} << (rank % 8);
  }
}

std::optional<RankMask> parse_mask(std::span<const std::byte> bytes, std::uint32_t world) {
  RankMask mask(world);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const bool is_set = (bytes[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
    if (bit >= world && is_set) return std::nullopt;
    if (bit < world) mask[bit] = is_set;
  }
  return mask;
}

}  // namespace

HeadBytes write_head(const FrameHead& head) {
  HeadBytes bytes;
  std::memcpy(bytes.data(), &head, bytes.size());
  return bytes;
}

std::optional<FrameHead> parse_head(std::span<const std::byte, bare_head_bytes> bytes) {
  FrameHead head;
  std::memcpy(&head, bytes.data(), bytes.size());
  if (!has_possible_length(head) || is_message(head.kind) != (head.said > 0)) return std::nullopt;
  return head;
}

void write_entry(const RequestEntry& entry, std::span<std::byte, entry_bytes> out) {
  static_assert(sizeof entry == entry_bytes);
  std::memcpy(out.data(), &entry, entry_bytes);
}

void parse_entries(std::span<const std::byte> bytes, std::vector<RequestEntry>& entries) {
  for (; bytes.size() >= entry_bytes; bytes = bytes.subspan(entry_bytes)) std::memcpy(&entries.emplace_back(), bytes.data(), entry_bytes);
}

std::vector<std::byte> write_standing(const Standing& standing) {
  std::vector<std::byte> bytes;
  append_mask(standing.going_on, bytes);
  append_mask(standing.ended, bytes);
  return bytes;
}

std::optional<Standing> parse_standing(std::span<const std::byte> bytes, std::uint32_t world) {
  const std::size_t each = mask_bytes(world);
  if (bytes.size() != 2 * each) return std::nullopt;
  auto going_on = parse_mask(bytes.first(each), world);
  auto ended = parse_mask(bytes.last(each), world);
  if (!going_on || !ended) return std::nullopt;
  return Standing{std::move(*going_on), std::move(*ended)};
}

}  // namespace dsanalyze::transport
