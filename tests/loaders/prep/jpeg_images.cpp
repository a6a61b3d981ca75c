#include "jpeg_images.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace dsanalyze::test {

std::uint8_t picture(int x, int y, int channel) {
  const double wave = std::sin(x * 0.11 + channel) * 50 + std::cos(y * 0.07 - channel) * 40;
  const int edge = (x / 23 + y / 17 + channel) % 3 == 0 ? 35 : 0;
  return static_cast<std::uint8_t>(100 + wave + edge);
}

std::vector<std::byte> encode_picture(const ImageKind& kind) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr error{};
  jpeg.err = jpeg_std_error(&error);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(kind.width);
  jpeg.image_height = static_cast<JDIMENSION>(kind.height);
  const bool four = kind.inks == Inks::cmyk || kind.inks == Inks::ycck;
  jpeg.input_components = four ? 4 : kind.inks == Inks::grey ? 1 : 3;
  jpeg.in_color_space = four ? JCS_CMYK : kind.inks == Inks::grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  if (kind.inks == Inks::rgb) jpeg_set_colorspace(&jpeg, JCS_RGB);
  if (kind.inks == Inks::ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  if (kind.inks == Inks::ycc || kind.inks == Inks::ycck) {
    jpeg.comp_info[0].h_samp_factor = kind.horizontal_sampling;
    jpeg.comp_info[0].v_samp_factor = kind.vertical_sampling;
  }
  if (kind.inks == Inks::ycck) {
    jpeg.comp_info[3].h_samp_factor = kind.horizontal_sampling;
    jpeg.comp_info[3].v_samp_factor = kind.vertical_sampling;
  }
  jpeg.restart_interval = static_cast<unsigned>(kind.restart_interval);
  if (kind.scans == Scans::progressive) jpeg_simple_progression(&jpeg);
  jpeg.arith_code = kind.coding == Coding::arithmetic ? TRUE : FALSE;
  if (kind.inks == Inks::cmyk && kind.marker == AdobeMarker::none) jpeg.write_Adobe_marker = FALSE;
  jpeg_start_compress(&jpeg, TRUE);
  const auto channels = static_cast<std::size_t>(jpeg.input_components);
  std::vector<JSAMPLE> row(static_cast<std::size_t>(kind.width) * channels);
  for (int y = 0; y < kind.height; ++y) {
    for (std::size_t at = 0; at < row.size(); ++at) row[at] = picture(static_cast<int>(at / channels), y, static_cast<int>(at % channels));
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  const auto whole = std::as_bytes(std::span(bytes, size));
  std::vector<std::byte> file(whole.begin(), whole.end());
  std::free(bytes);
  return file;
}

std::vector<std::byte> with_dimensions(std::vector<std::byte> file, int width, int height) {
  for (std::size_t at = 2; at + 9 < file.size();) {
    const auto marker = std::to_integer<int>(file[at + 1]);
    if (marker >= 0xC0 && marker <= 0xC2) {
      file[at + 5] = static_cast<std::byte>(height >> 8);
      file[at + 6] = static_cast<std::byte>(height);
      file[at + 7] = static_cast<std::byte>(width >> 8);
      file[at + 8] = static_cast<std::byte>(width);
      break;
    }
    at += 2 + std::to_integer<std::size_t>(file[at + 2]) * 256 + std::to_integer<std::size_t>(file[at + 3]);
  }
  return file;
}

}  // namespace dsanalyze::test
