#include <algorithm>

#include "fuzz.hpp"
#include "loaders/dataset/readers/npy_header.hpp"

namespace dsanalyze::fuzz {
namespace {

__extension__ using Wide = unsigned __int128;

/// Bytes of an array by its shape, without overflow.
Wide bytes_of_array(const NpyHeader& header) {
  Wide bytes = header.item_bytes;
  for (const std::uint64_t length : header.shape) {
    if (length == 0) return 0;
    bytes = bytes > INT64_MAX ? bytes : bytes * length;
  }
  return bytes;
}

void check_header(std::span<const std::byte> bytes) {
  NpyHeader header;
  if (!accepts([&] { header = parse_npy_header(bytes); })) return;
  require(header.header_bytes <= bytes.size() && header.header_bytes <= most_npy_header_bytes + npy_preamble_bytes, "the header lies in its bytes");
  require(header.item_bytes > 0, "an item has bytes");
  require(bytes_of_array(header) == header.data_bytes, "the data's bytes follow from shape and type");
  require(header.data_bytes <= INT64_MAX, "no array is larger than any file");
  std::size_t by_preamble = 0;
  require(accepts([&] { by_preamble = npy_header_bytes(bytes.first(std::min(bytes.size(), npy_preamble_bytes))); }),
          "the preamble of a header is one");
  require(by_preamble == header.header_bytes, "the preamble tells the header's length");

  const std::string written = make_npy_header(header.dtype, header.shape);
  require(written.size() % 64 == 0 && written.size() >= 128, "a header that we write is aligned");
  NpyHeader again;
  require(accepts([&] { again = parse_npy_header(std::as_bytes(std::span(written))); }), "a header that we write can be read");
  require(again.dtype == header.dtype && again.shape == header.shape && !again.fortran_order && again.data_bytes == header.data_bytes &&
              again.header_bytes == written.size(),
          "a header that we write says the same");
}

/// The same text behind a preamble of the right length: mutations of the text stay headers.
void check_text(std::span<const std::byte> text) {
  if (text.size() > 0xffff) return;
  std::string whole("\x93NUMPY\1\0", 8);
  whole.push_back(static_cast<char>(text.size() & 0xff));
  whole.push_back(static_cast<char>(text.size() >> 8));
  whole.append(reinterpret_cast<const char*>(text.data()), text.size());
  check_header(std::as_bytes(std::span(whole)));
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  const auto bytes = bytes_of(data, size);
  check_header(bytes);
  if (!dsanalyze::is_npy_bytes(text_of(data, size))) check_text(bytes);
  return 0;
}
