#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dataset_make.hpp"

namespace dsanalyze {

/// 8-bit RGB, rows one after another without a gap.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] const std::uint8_t* row(int y) const { return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3; }
  [[nodiscard]] std::uint8_t* row(int y) { return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3; }
};

/// Decodes a photograph, at half size when its shorter side keeps at least `least_short_side` pixels then. Throws Error with the cause alone.
RgbImage decode_photograph(std::string_view encoded, int least_short_side);

/// Encodes baseline 4:2:0 with the standard tables, into memory of its own. Threads: one an encoder.
class JpegEncoder {
 public:
  JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;
  JpegEncoder(JpegEncoder&&) = delete;
  JpegEncoder& operator=(JpegEncoder&&) = delete;
  ~JpegEncoder();
  /// Valid until the next call. `comment` goes into a COM segment. Throws Error with the cause alone.
  std::span<const std::byte> encode(const RgbImage& image, int quality, const std::string& comment);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// A photograph to cut samples from; author and licence are empty for files that the user gave.
struct PhotographFile {
  std::filesystem::path path;
  std::string author;
  std::string licence;
};

struct Photographs {
  std::vector<PhotographFile> files;
  std::vector<RgbImage> images;  ///< one for each file
  std::string digest;            ///< over all files' bytes in order: what a sample depends on besides seed and number
  std::string package;           ///< the Debian package they are from; empty for the user's own
  std::string package_version;   ///< empty when the package manager does not know it
};

/// Reads and decodes the photographs of the package, or those that the user named (folders stand for their JPEG files). Large ones are halved while
/// their shorter side keeps `least_short_side` pixels. Throws Error naming the file that is missing (and the package to install) or cannot be
/// decoded.
Photographs load_photographs(const MakeOptions& options, int least_short_side, const std::stop_token& stop);

/// The version of an installed Debian package, from dpkg's own list; "" when it is not there.
std::string installed_package_version(const std::string& package, const std::filesystem::path& status_file = "/var/lib/dpkg/status");

}  // namespace dsanalyze
