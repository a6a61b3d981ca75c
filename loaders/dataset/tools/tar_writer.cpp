#include "tar_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "loaders/dataset/readers/tar_header.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_name = 100;
constexpr std::size_t most_prefix = 155;
constexpr std::uint64_t most_octal_bytes = (std::uint64_t{1} << 33) - 1;  // eleven octal digits

struct SplitName {
  std::string_view prefix;
  std::string_view name;
  bool fits = false;
};

/// As ustar keeps long paths: up to 155 bytes before a slash, up to 100 behind it.
SplitName split(std::string_view name) {
  if (name.size() <= most_name) return {{}, name, true};
  const std::size_t slash = name.find('/', name.size() - std::min(name.size(), most_name + 1));
  if (slash == std::string_view::npos || slash == 0 || slash > most_prefix || slash + 1 == name.size()) return {};
  return {name.substr(0, slash), name.substr(slash + 1), true};
}

void append_block(std::string& out, const SplitName& name, std::uint64_t bytes, char kind) {
  std::array<char, tar_block_bytes> block{};
  const auto put = [&](std::size_t offset, std::string_view text) {
    std::copy(text.begin(), text.end(), block.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  put(0, name.name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", std::min(bytes, most_octal_bytes)));
  put(136, "00000000000");
  put(148, "        ");
  block[156] = kind;
  put(257, "ustar");
  put(263, "00");
  put(345, name.prefix);
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  put(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  out.append(block.data(), block.size());
}

/// "LENGTH KEY=VALUE\n", where the length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

std::string pax_records(std::string_view name, std::uint64_t bytes) {
  std::string records;
  if (!split(name).fits) records += pax_record("path", name);
  if (bytes > most_octal_bytes) records += pax_record("size", std::to_string(bytes));
  return records;
}

}  // namespace

void append_tar_header(std::string& out, std::string_view name, std::uint64_t bytes) {
  const std::string records = pax_records(name, bytes);
  if (!records.empty()) {
    append_block(out, {{}, "PaxHeaders/next", true}, records.size(), 'x');
    out.append(records);
    out.append(tar_padding(records.size()), '\0');
  }
  SplitName place = split(name);
  if (!place.fits) place = {{}, name.substr(name.size() - most_name), true};
  append_block(out, place, bytes, '0');
}

std::size_t tar_padding(std::uint64_t bytes) { return static_cast<std::size_t>((tar_block_bytes - bytes % tar_block_bytes) % tar_block_bytes); }

void append_tar_member(std::string& out, std::string_view name, std::span<const std::byte> data) {
  append_tar_header(out, name, data.size());
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  out.append(tar_padding(data.size()), '\0');
}

void append_tar_end(std::string& out) { out.append(2 * tar_block_bytes, '\0'); }

Bytes tar_member_bytes(std::string_view name, std::uint64_t bytes) {
  const std::size_t records = pax_records(name, bytes).size();
  const Bytes pax = records == 0 ? 0 : tar_block_bytes + records + tar_padding(records);
  return pax + tar_block_bytes + bytes + tar_padding(bytes);
}

}  // namespace dsanalyze
