#include "tar_end.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t read_in_full = std::uint64_t{1} << 20;
constexpr std::uint64_t probes = 64;
constexpr std::size_t probe_bytes = 4096;

/// The first byte in [begin, end) that is not zero.
std::optional<std::uint64_t> first_nonzero(FileWindow& window, std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) {
  for (std::uint64_t at = window.next_data(begin); at < end; at = window.next_data(at)) {
    if (stop.stop_requested()) throw Interrupted();
    const std::span<const std::byte> piece = window.at(at, static_cast<std::size_t>(std::min(end - at, piece_bytes)));
    const auto found = std::find_if(piece.begin(), piece.end(), [](std::byte byte) { return byte != std::byte{0}; });
    if (found != piece.end()) return at + static_cast<std::uint64_t>(found - piece.begin());
    if (piece.empty()) return std::nullopt;  // the file became shorter
    at += piece.size();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> find_nonzero_behind(FileWindow& window, std::uint64_t end, BehindEnd behind_end, const std::stop_token& stop) {
  const std::uint64_t size = window.size();
  const std::uint64_t begin = std::min(window.next_data(end), size);  // a hole is skipped at no cost, and what is behind it looked at first
  if (behind_end == BehindEnd::all || size - begin <= read_in_full) return first_nonzero(window, begin, size, stop);
  if (const auto found = first_nonzero(window, begin, begin + piece_bytes, stop)) return found;
  const std::uint64_t stride = (size - begin - 2 * piece_bytes) / probes;
  std::uint64_t before = begin + piece_bytes;
  for (std::uint64_t probe = 1; probe <= probes; ++probe) {
    const bool is_last = probe == probes;
    const std::uint64_t place = is_last ? size - piece_bytes : begin + piece_bytes + probe * stride;
    const std::uint64_t place_end = is_last ? size : place + probe_bytes;
    if (first_nonzero(window, place, place_end, stop)) return first_nonzero(window, before, place_end, stop);
    before = place;
  }
  return std::nullopt;
}

}  // namespace dsanalyze
