#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace dsanalyze::testing {

/// The fields of a header as they stand there; what writers of tar files do is put together here by hand.
struct RawHeader {
  std::string name = {};
  std::string data = {};
  char kind = '0';
  std::string magic = std::string(
      "ustar\0"
      "00",
      8);
  std::string prefix = {};
  std::string link = {};
  std::string size = {};  ///< the field's bytes; by data's length in octal when empty
  bool signed_checksum = false;
};

inline std::string header_block(const RawHeader& header) {
  std::array<char, 512> block{};
  const auto put = [&](std::size_t at, const std::string& text, std::size_t most) {
    std::memcpy(block.data() + at, text.data(), std::min(text.size(), most));
  };
  const auto octal = [](unsigned long long number, int digits) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%0*llo", digits, number);
    return std::string(text.data());
  };
  put(0, header.name, 100);
  put(100, "0000644", 8);
  put(124, header.size.empty() ? octal(header.data.size(), 11) : header.size, 12);
  block[156] = header.kind;
  put(157, header.link, 100);
  put(257, header.magic, 8);
  put(345, header.prefix, 155);
  put(148, "        ", 8);
  long long sum = 0;
  for (const char byte : block) sum += header.signed_checksum ? static_cast<signed char>(byte) : static_cast<unsigned char>(byte);
  put(148, octal(static_cast<unsigned long long>(sum), 6), 6);
  block[154] = '\0';
  return {block.data(), block.size()};
}

inline std::string member(const RawHeader& header) {
  return header_block(header) + header.data + std::string((512 - header.data.size() % 512) % 512, '\0');
}
inline std::string file_member(const std::string& name, const std::string& data) { return member({.name = name, .data = data}); }
inline std::string tar_end() {
  std::string blocks;
  blocks.resize(1024);
  return blocks;
}
inline std::string pax(const std::string& records, char kind = 'x') { return member({.name = "PaxHeaders/x", .data = records, .kind = kind}); }

}  // namespace dsanalyze::testing
