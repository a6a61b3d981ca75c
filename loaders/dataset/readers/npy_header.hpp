#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

// Parsing and writing of the header of NumPy's .npy files, versions 1.0, 2.0 and 3.0: functions of bytes, without input or output.

/// Headers that claim to be longer are refused: NumPy's own are some hundred bytes.
constexpr std::size_t most_npy_header_bytes = std::size_t{64} << 10;
/// So many bytes tell how long the header is.
constexpr std::size_t npy_preamble_bytes = 12;

struct NpyHeader {
  std::string dtype;                 ///< as it stands there: "<f4", "|u1"
  std::vector<std::uint64_t> shape;  ///< empty for a single number
  bool fortran_order = false;
  std::uint64_t item_bytes = 0;
  std::uint64_t header_bytes = 0;  ///< the data begin here
  std::uint64_t data_bytes = 0;    ///< items x item_bytes
};

bool is_npy_bytes(std::string_view first_bytes);
/// Length of magic, version and header by the first `npy_preamble_bytes` bytes. Throws Error with the cause alone.
std::size_t npy_header_bytes(std::span<const std::byte> preamble);
/// Reads a header that lies whole in `bytes` (more may follow). Throws Error with the cause alone: no .npy file, other version, lengths that lie, a
/// shape beyond any memory, items that are structures or pickled objects (those are never loaded).
NpyHeader parse_npy_header(std::span<const std::byte> bytes);
/// A version 1.0 header (2.0 when it is too long for that) in C order; its length is a multiple of 64 and at least 128.
std::string make_npy_header(std::string_view dtype, std::span<const std::uint64_t> shape);

}  // namespace dsanalyze
