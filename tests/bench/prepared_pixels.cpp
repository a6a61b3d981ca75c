// What prep makes of image files, for pixels_vs_pillow.py to compare, and the images that it is asked about.
//
//   prepared_pixels make FOLDER COUNT SEED LONGEST  writes COUNT images of every kind, drawn by SEED; some are three times as long as LONGEST
//   prepared_pixels prepare SIZE SEED CROP OUTPUT   prepares the files that stdin names, a line each, CROP is random or centre; writes the pixels
//                                                   of each to OUTPUT (8-bit, rows of red, green, blue) and prints a line of JSON about it

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "../loaders/prep/jpeg_images.hpp"
#include "../loaders/prep/png_images.hpp"
#include "../loaders/prep/webp_images.hpp"
#include "base/random.hpp"
#include "loaders/prep/any_image_decoder.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/prep/random_resized_crop.hpp"

using namespace dsanalyze;

namespace {

int draw(RandomStream& random, int low, int high) { return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low) + 1)); }

test::ImageKind draw_jpeg(RandomStream& random, int width, int height) {
  constexpr test::Inks inks[] = {test::Inks::ycc,  test::Inks::ycc, test::Inks::ycc,  test::Inks::ycc,
                                 test::Inks::grey, test::Inks::rgb, test::Inks::cmyk, test::Inks::ycck};
  constexpr int factors[] = {1, 2, 4};
  test::ImageKind kind{.width = width, .height = height};
  kind.inks = inks[random.below(std::size(inks))];
  kind.scans = random.below(3) == 0 ? test::Scans::progressive : test::Scans::baseline;
  kind.coding = random.below(8) == 0 ? test::Coding::arithmetic : test::Coding::huffman;
  kind.marker = random.below(4) == 0 ? test::AdobeMarker::none : test::AdobeMarker::written;
  do {
    kind.horizontal_sampling = factors[random.below(std::size(factors))];
    kind.vertical_sampling = factors[random.below(std::size(factors))];
  } while (kind.horizontal_sampling * kind.vertical_sampling > (kind.inks == test::Inks::ycck ? 4 : 8));
  kind.quality = draw(random, 40, 98);
  kind.restart_interval = random.below(4) == 0 ? draw(random, 1, 20) : 0;
  return kind;
}

void make(const std::filesystem::path& folder, int count, std::uint64_t seed, int longest) {
  std::filesystem::create_directories(folder);
  for (int number = 0; number < count; ++number) {
    RandomStream random(mix(seed, static_cast<std::uint64_t>(number)));
    const int most = random.below(4) == 0 ? 3 * longest : longest;  // large ones are decoded at a part of their size
    const int width = draw(random, 1, most);
    const int height = draw(random, 1, most);
    std::vector<std::byte> bytes;
    std::string kind;
    switch (random.below(8)) {
      case 0: {
        const auto kinds = test::all_png_kinds(width, height);
        const auto& png = kinds[random.below(kinds.size())];
        bytes = test::encode_png(png);
        kind = fmt::format("type{}-{}bit.png", png.color_type, png.bit_depth);
        break;
      }
      case 1: {
        const auto kinds = test::all_webp_kinds(width, height);
        const std::size_t place = random.below(kinds.size());
        bytes = test::encode_webp(kinds[place]);
        kind = fmt::format("kind{}.webp", place);
        break;
      }
      default: {
        const test::ImageKind jpeg = draw_jpeg(random, width, height);
        bytes = test::encode_picture(jpeg);
        kind =
            fmt::format("inks{}-{}x{}{}{}.jpg", static_cast<int>(jpeg.inks), jpeg.horizontal_sampling, jpeg.vertical_sampling,
                        jpeg.scans == test::Scans::progressive ? "-progressive" : "", jpeg.coding == test::Coding::arithmetic ? "-arithmetic" : "");
      }
    }
    std::ofstream file(folder / fmt::format("{:05}-{}", number, kind), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

struct Chosen {
  ScaledCrop crop;
  Mirror mirror = Mirror::none;
};

Chosen choose(ImageDecoder& decoder, const ImagePrepOptions& options, SampleId sample) {
  const ImageInfo& info = decoder.info();
  const int size = options.prep.crop_size;
  if (options.crop == CropRule::centre) return {scale_centre(info.width, info.height, {size, size}, decoder.largest_denominator()), Mirror::none};
  const Augmentation drawn = draw_augmentation(options.prep, options.seed, 0, sample, info.width, info.height);
  return {scale_crop(drawn.crop, info.width, info.height, size, decoder.largest_denominator()), drawn.mirror};
}

int prepare(int size, std::uint64_t seed, const std::string& crop, const std::string& output) {
  ImagePrepOptions options{.prep = {}, .dtype = DType::uint8, .layout = Layout::nhwc, .seed = seed};
  options.prep.crop_size = size;
  options.crop = crop == "centre" ? CropRule::centre : CropRule::random_resized;
  const auto factory = make_image_prep(options);
  const auto prep = factory->make();
  AnyImageDecoder decoder;
  std::ofstream pixels(output, std::ios::binary);
  std::string path;
  for (SampleId sample = 0; std::getline(std::cin, path); ++sample) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(text));
    std::vector<std::byte> prepared(factory->tensor(1).sample_bytes());
    const Status status = prep->prepare({bytes, sample, 0, 0, prepared});
    if (!status.ok() || !decoder.open(bytes).ok()) {
      fmt::print("{{\"status\": \"{}\"}}\n", status_name(status.code));
      continue;
    }
    const Chosen chosen = choose(decoder, options, sample);
    const auto& [left, top, width, height] = chosen.crop.pixels;
    const AxisSpan& x = chosen.crop.horizontal;
    const AxisSpan& y = chosen.crop.vertical;
    fmt::print("{{\"status\": \"ok\", \"denominator\": {}, \"rectangle\": [{}, {}, {}, {}], \"box\": [{}, {}, {}, {}], \"mirror\": {}}}\n",
               chosen.crop.denominator, left, top, width, height, x.start, y.start, x.start + x.length, y.start + y.length,
               chosen.mirror == Mirror::horizontal);
    pixels.write(reinterpret_cast<const char*>(prepared.data()), static_cast<std::streamsize>(prepared.size()));
  }
  return pixels.good() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.size() == 5 && arguments[0] == "make") {
    make(arguments[1], std::stoi(arguments[2]), std::stoull(arguments[3]), std::stoi(arguments[4]));
    return EXIT_SUCCESS;
  }
  if (arguments.size() == 5 && arguments[0] == "prepare")
    return prepare(std::stoi(arguments[1]), std::stoull(arguments[2]), arguments[3], arguments[4]);
  std::fputs("usage: prepared_pixels make FOLDER COUNT SEED LONGEST\n       prepared_pixels prepare SIZE SEED random|centre OUTPUT < FILES\n",
             stderr);
  return 2;
}
