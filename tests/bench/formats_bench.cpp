// Times our PNG and WebP decoders against plain loops over the same libraries, for the same crops, in CPU time of one
// thread. The JPEG files of DIR are decoded
// and encoded in the other formats in memory first. The two take turns, image by image; what counts is the ratio within a round.
//
//   formats_bench DIR [--seconds N] [--files N]

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <png.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "loaders/prep/any_image_decoder.hpp"
#include "loaders/prep/random_resized_crop.hpp"

namespace dsanalyze {
namespace {

using File = std::vector<std::byte>;
using DecodeCrop = std::function<void(const File& file, const PixelRectangle& crop)>;

void require(bool good, std::string_view what) {
  if (!good) throw Error(fmt::format("{} failed", what));
}

struct Pixels {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;  ///< four a pixel
};

class OurDecoder {
 public:
  void operator()(const File& file, const PixelRectangle& crop) {
    require(m_decoder.open(file).ok() && m_decoder.begin(crop, 1).ok(), "decoder");
    PixelRows rows;
    do {
      require(m_decoder.next_rows(rows).ok(), "decoder");
    } while (rows.count > 0);
  }
  Pixels whole(const File& file) {
    require(m_decoder.open(file).ok(), "open");
    Pixels pixels{m_decoder.info().width, m_decoder.info().height, {}};
    require(m_decoder.begin({0, 0, pixels.width, pixels.height}, 1).ok(), "begin");
    for (PixelRows rows;;) {
      require(m_decoder.next_rows(rows).ok(), "rows");
      if (rows.count == 0) return pixels;
      for (int row = 0; row < rows.count; ++row) {
        const std::uint8_t* first = rows.first + rows.stride * static_cast<std::size_t>(row);
        pixels.bytes.insert(pixels.bytes.end(), first, first + std::ptrdiff_t{4} * pixels.width);
      }
    }
  }

 private:
  AnyImageDecoder m_decoder;
};

/// What a program does that uses libpng as its manual says, and stops below the crop.
class PlainPng {
 public:
  void operator()(const File& file, const PixelRectangle& crop) {
    std::span<const std::byte> rest = file;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png)) != 0) throw Error("libpng failed");
    png_set_read_fn(png, &rest, [](png_structp from, png_bytep target, std::size_t bytes) {
      auto* left = static_cast<std::span<const std::byte>*>(png_get_io_ptr(from));
      std::memcpy(target, left->data(), bytes);
      *left = left->subspan(bytes);
    });
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_filler(png, 255, PNG_FILLER_AFTER);
    png_read_update_info(png, info);
    m_row.resize(png_get_rowbytes(png, info));
    for (int row = 0; row < crop.top + crop.height; ++row) png_read_row(png, m_row.data(), nullptr);
    png_destroy_read_struct(&png, &info, nullptr);
  }

 private:
  std::vector<png_byte> m_row;
};

class PlainWebp {
 public:
  void operator()(const File& file, const PixelRectangle& crop) {
    WebPDecoderConfig config;
    require(WebPInitDecoderConfig(&config) != 0, "libwebp");
    config.options.use_cropping = 1;
    config.options.crop_left = crop.left;
    config.options.crop_top = crop.top;
    config.options.crop_width = crop.width;
    config.options.crop_height = crop.height;
    m_pixels.resize(std::max(m_pixels.size(), static_cast<std::size_t>(crop.width) * static_cast<std::size_t>(crop.height) * 4));
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {m_pixels.data(), crop.width * 4, m_pixels.size()};
    require(WebPDecode(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &config) == VP8_STATUS_OK, "libwebp");
  }

 private:
  std::vector<std::uint8_t> m_pixels;
};

File to_file(const std::uint8_t* bytes, std::size_t size) {
  const auto whole = std::as_bytes(std::span(bytes, size));
  return {whole.begin(), whole.end()};
}

File to_png(const Pixels& pixels) {
  std::vector<std::uint8_t> colors;
  for (std::size_t at = 0; at < pixels.bytes.size(); ++at) {
    if (at % 4 != 3) colors.push_back(pixels.bytes[at]);
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> file(colors.size() * 2 + 4096);
  png_alloc_size_t size = file.size();
  require(png_image_write_to_memory(&image, file.data(), &size, 0, colors.data(), 0, nullptr) != 0, "libpng");
  return to_file(file.data(), size);
}

enum class WebpKind { lossy, lossless };

File to_webp(const Pixels& pixels, WebpKind kind) {
  std::uint8_t* bytes = nullptr;
  constexpr float quality = 80;
  const std::size_t size = kind == WebpKind::lossy
                               ? WebPEncodeRGBA(pixels.bytes.data(), pixels.width, pixels.height, pixels.width * 4, quality, &bytes)
                               : WebPEncodeLosslessRGBA(pixels.bytes.data(), pixels.width, pixels.height, pixels.width * 4, &bytes);
  require(size > 0, "libwebp");
  File file = to_file(bytes, size);
  WebPFree(bytes);
  return file;
}

struct Image {
  int width = 0;
  int height = 0;
  File file;
};

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// That this thread has used, so that others on the machine matter less.
double cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

void compare(std::string_view name, const std::vector<Image>& images, const DecodeCrop& ours, const DecodeCrop& plain, double seconds) {
  std::vector<double> ratios;
  std::vector<double> rates;
  const double end = seconds_now() + seconds;
  for (std::uint64_t round = 0; seconds_now() < end || round < 4; ++round) {
    double spent[2] = {0, 0};
    for (std::size_t at = 0; at < images.size(); ++at) {
      const Image& image = images[at];
      const PixelRectangle crop = draw_augmentation(ImagePrep{}, 0, round, static_cast<SampleId>(at), image.width, image.height).crop;
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const std::size_t which = (turn + at + round) % 2;
        const double begin = cpu_seconds();
        (which == 0 ? ours : plain)(image.file, crop);
        spent[which] += cpu_seconds() - begin;
      }
    }
    if (round == 0) continue;
    ratios.push_back(spent[1] / spent[0]);
    rates.push_back(static_cast<double>(images.size()) / spent[0]);
  }
  const Estimate ratio = estimate_mean(ratios);
  fmt::print("{:<16} {:>10.0f}   {:>8.3f} [{:.3f}, {:.3f}]\n", name, median(rates), median(ratios), ratio.ci95.low, ratio.ci95.high);
}

struct Options {
  std::filesystem::path directory;
  double seconds = 10;
  std::size_t files = 100;
};

Options parse(int argument_count, char** arguments) {
  Options options;
  for (int at = 1; at < argument_count; ++at) {
    const std::string_view argument = arguments[at];
    if (argument == "--seconds" && at + 1 < argument_count) {
      options.seconds = parse_seconds(arguments[++at]);
    } else if (argument == "--files" && at + 1 < argument_count) {
      options.files = std::stoul(arguments[++at]);
    } else {
      options.directory = argument;
    }
  }
  if (options.directory.empty()) throw UsageError("usage: formats_bench DIR [--seconds N] [--files N]");
  return options;
}

std::vector<Pixels> load(const Options& options) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options.directory)) {
    if (entry.path().extension() == ".jpg" || entry.path().extension() == ".JPEG") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw UsageError(fmt::format("{}: no .jpg or .JPEG files", options.directory.string()));
  paths.resize(std::min(paths.size(), options.files));
  OurDecoder decoder;
  std::vector<Pixels> pictures;
  for (const auto& path : paths) {
    const std::string bytes = read_file(path);
    pictures.push_back(decoder.whole(to_file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size())));
  }
  return pictures;
}

void run(const Options& options) {
  const std::vector<Pixels> pictures = load(options);
  const auto encoded = [&](const std::function<File(const Pixels&)>& encode) {
    std::vector<Image> images;
    images.reserve(pictures.size());
    for (const Pixels& picture : pictures) images.push_back({picture.width, picture.height, encode(picture)});
    return images;
  };
  OurDecoder ours;
  PlainPng plain_png;
  PlainWebp plain_webp;
  fmt::print("{:<16} {:>10}   {:>8}\n", "CPU time", "images/s", "x the plain loop, 95 % interval of the mean over rounds");
  compare("PNG", encoded(to_png), std::ref(ours), std::ref(plain_png), options.seconds);
  for (const WebpKind kind : {WebpKind::lossy, WebpKind::lossless}) {
    compare(kind == WebpKind::lossy ? "WebP, lossy" : "WebP, lossless", encoded([&](const Pixels& pixels) { return to_webp(pixels, kind); }),
            std::ref(ours), std::ref(plain_webp), options.seconds);
  }
}

}  // namespace
}  // namespace dsanalyze

int main(int argument_count, char** arguments) {
  try {
    dsanalyze::run(dsanalyze::parse(argument_count, arguments));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "formats_bench: {}\n", error.what());
    return 1;
  }
}
