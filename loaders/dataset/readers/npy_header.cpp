#include "npy_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <limits>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view npy_magic = "\x93NUMPY"sv;
constexpr std::uint64_t most_data_bytes = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t most_header_dimensions = 64;  // NumPy's own limit is 32, or 64 in version 2
constexpr std::size_t alignment = 64;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t place) { return static_cast<std::uint8_t>(bytes[place]); }

/// Reads the header's text: a Python dictionary of three known keys, as repr() writes it.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : m_rest(text) {}

  void read(NpyHeader& header) {
    bool has_dtype = false;
    bool has_order = false;
    bool has_shape = false;
    require('{');
    while (!take('}')) {
      const std::string key = text();
      require(':');
      if (key == "descr" && !has_dtype) {
        header.dtype = dtype();
        has_dtype = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = truth();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = shape();
        has_shape = true;
      } else {
        throw Error("its header has an unknown or repeated key '" + key + "'");
      }
      if (!take(',')) {
        require('}');
        break;
      }
    }
    skip_space();
    if (!m_rest.empty()) throw Error("its header is followed by something else");
    if (!has_dtype || !has_order || !has_shape) throw Error("its header lacks one of descr, fortran_order, shape");
  }

 private:
  void skip_space() { m_rest.remove_prefix(std::min(m_rest.find_first_not_of(" \n\t\r"), m_rest.size())); }
  bool take(char wanted) {
    skip_space();
    if (m_rest.empty() || m_rest.front() != wanted) return false;
    m_rest.remove_prefix(1);
    return true;
  }
  void require(char wanted) {
    if (!take(wanted)) throw Error(fmt::format("its header is no dictionary as NumPy writes it ('{}' is missing)", wanted));
  }
  std::string text() {
    skip_space();
    const char quote = m_rest.empty() ? '\0' : m_rest.front();
    if (quote != '\'' && quote != '"') throw Error("its header is no dictionary as NumPy writes it (a text is missing)");
    const std::size_t end = m_rest.find(quote, 1);
    if (end == std::string_view::npos) throw Error("its header ends within a text");
    std::string result(m_rest.substr(1, end - 1));
    m_rest.remove_prefix(end + 1);
    return result;
  }
  std::string dtype() {
    skip_space();
    if (!m_rest.empty() && m_rest.front() == '[')
      throw Error("its items are structures (several fields); save each field as an array of its own, for example numpy.save('x.npy', a['field'])");
    return text();
  }
  bool truth() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True"sv, true}, {"False"sv, false}}) {
      if (!m_rest.starts_with(word)) continue;
      m_rest.remove_prefix(word.size());
      return value;
    }
    throw Error("fortran_order in its header is neither True nor False");
  }
  std::vector<std::uint64_t> shape() {
    std::vector<std::uint64_t> result;
    require('(');
    while (!take(')')) {
      skip_space();
      std::uint64_t length = 0;
      const auto [end, error] = std::from_chars(m_rest.data(), m_rest.data() + m_rest.size(), length);
      if (error != std::errc()) throw Error("its shape holds something that is no count");
      m_rest.remove_prefix(static_cast<std::size_t>(end - m_rest.data()));
      if (m_rest.starts_with('L')) m_rest.remove_prefix(1);  // Python 2 wrote long numbers so
      result.push_back(length);
      if (result.size() > most_header_dimensions) throw Error(fmt::format("its shape has more than {} dimensions", most_header_dimensions));
      if (!take(',')) {
        require(')');
        break;
      }
    }
    return result;
  }

  std::string_view m_rest;
};

/// Bytes of one item, from texts like "<f4", "|u1", ">i8", "<U12", "<M8[ns]".
std::uint64_t bytes_of_item(std::string_view dtype) {
  const auto refuse = [&](const std::string& why) { throw Error(fmt::format("its items are of the type '{}': {}", dtype, why)); };
  if (dtype.empty()) refuse("not known");
  const bool has_order = "<>|="sv.find(dtype.front()) != std::string_view::npos;
  if (has_order && dtype.size() < 2) refuse("not known");
  const char kind = dtype[has_order ? 1 : 0];
  if (kind == 'O') refuse("pickled Python objects, which could run anything and are never loaded; save plain numbers instead");
  if (kind == 'V') refuse("raw structures; save each field as an array of its own");
  if ("?bBiufcmMSUa"sv.find(kind) == std::string_view::npos) refuse("not known");
  std::string_view digits = dtype.substr(has_order ? 2 : 1);
  if ((kind == 'm' || kind == 'M') && digits.ends_with(']')) digits = digits.substr(0, digits.find('['));
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse("not known");
  if (bytes == 0 || bytes > (1U << 20)) refuse("its size makes no sense");
  return kind == 'U' ? bytes * 4 : bytes;
}

std::uint64_t checked_product(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > most_data_bytes / a) throw Error("its shape is larger than any memory");
  return a * b;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
}

}  // namespace

bool is_npy_bytes(std::string_view first_bytes) { return first_bytes.starts_with(npy_magic); }

std::size_t npy_header_bytes(std::span<const std::byte> preamble) {
  if (!is_npy_bytes({reinterpret_cast<const char*>(preamble.data()), preamble.size()})) throw Error("it is no .npy file");
  if (preamble.size() < 10) throw Error("it is cut off in its header");
  const int version = byte_at(preamble, 6);
  std::size_t length = byte_at(preamble, 8) | std::size_t{byte_at(preamble, 9)} << 8;
  std::size_t begin = 10;
  if (version == 2 || version == 3) {
    if (preamble.size() < npy_preamble_bytes) throw Error("it is cut off in its header");
    length |= std::size_t{byte_at(preamble, 10)} << 16 | std::size_t{byte_at(preamble, 11)} << 24;
    begin = 12;
  } else if (version != 1) {
    throw Error(fmt::format("its format has version {}.{}; 1.0, 2.0 and 3.0 are read", version, byte_at(preamble, 7)));
  }
  if (length > most_npy_header_bytes) throw Error(fmt::format("its header claims {} bytes, which no array needs", length));
  return begin + length;
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes) {
  NpyHeader header;
  header.header_bytes = npy_header_bytes(bytes);
  if (header.header_bytes > bytes.size()) throw Error("it is cut off in its header");
  const std::size_t begin = byte_at(bytes, 6) == 1 ? 10 : 12;
  HeaderText(std::string_view(reinterpret_cast<const char*>(bytes.data()), header.header_bytes).substr(begin)).read(header);
  header.item_bytes = bytes_of_item(header.dtype);
  header.data_bytes = header.item_bytes;
  bool is_empty = false;
  for (const std::uint64_t length : header.shape) {
    is_empty |= length == 0;
    if (length != 0) header.data_bytes = checked_product(header.data_bytes, length);
  }
  if (is_empty) header.data_bytes = 0;
  return header;
}

std::string make_npy_header(std::string_view dtype, std::span<const std::uint64_t> shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", dtype, shape_text(shape));
  const auto padded = [&](std::size_t begin) {
    const std::size_t whole = std::max<std::size_t>(round_up(begin + text.size() + 1, alignment), 2 * alignment);
    return whole - begin;
  };
  const bool is_long = padded(10) > 0xffff;
  const std::size_t begin = is_long ? 12 : 10;
  const std::size_t length = padded(begin);
  text.resize(length - 1, ' ');
  text.push_back('\n');
  std::string header(npy_magic);
  header.push_back(is_long ? '\2' : '\1');
  header.push_back('\0');
  for (std::size_t byte = 0; byte < begin - 8; ++byte) header.push_back(static_cast<char>(length >> (8 * byte) & 0xff));
  return header + text;
}

}  // namespace dsanalyze
