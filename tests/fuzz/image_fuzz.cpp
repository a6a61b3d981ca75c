#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "fuzz.hpp"
#include "loaders/prep/any_image_decoder.hpp"
#include "loaders/prep/prep.hpp"

// Images of every format. Larger ones than the limit are not decoded: a fuzzer would spend its minute on a few of them.

namespace dsanalyze::fuzz {
namespace {

constexpr std::int64_t most_pixels = 1 << 16;
constexpr int crop_size = 8;
constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard{0xa5};

/// The pixels of a rectangle, three bytes each; false when the decoder refuses.
bool decode(ImageDecoder& decoder, std::span<const std::byte> encoded, const PixelRectangle& rectangle, std::vector<std::uint8_t>& pixels) {
  pixels.clear();
  if (!decoder.open(encoded).ok() || !decoder.begin(rectangle, 1).ok()) return false;
  PixelRows rows;
  int count = 0;
  for (;;) {
    if (!decoder.next_rows(rows).ok()) return false;
    if (rows.count == 0) break;
    count += rows.count;
    require(count <= rectangle.height, "a rectangle has no more rows than were asked for");
    for (int row = 0; row < rows.count; ++row) {
      const std::uint8_t* pixel = rows.first + static_cast<std::size_t>(row) * rows.stride;
      for (int x = 0; x < rectangle.width; ++x, pixel += PixelRows::bytes_per_pixel) pixels.insert(pixels.end(), pixel, pixel + 3);
    }
  }
  require(count == rectangle.height, "a rectangle that is decoded has all its rows");
  return true;
}

PixelRectangle some_rectangle(const ImageInfo& info, std::uint64_t key) {
  RandomStream random(key);
  const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<std::uint64_t>(bound))); };
  PixelRectangle rectangle;
  rectangle.left = below(info.width);
  rectangle.top = below(info.height);
  rectangle.width = 1 + below(info.width - rectangle.left);
  rectangle.height = 1 + below(info.height - rectangle.top);
  return rectangle;
}

/// A part of an image is what the whole has there. (JPEG's part may differ by the library's rounding; it is only decoded.)
void check_rectangle(std::span<const std::byte> encoded, const ImageInfo& info) {
  static AnyImageDecoder used;
  AnyImageDecoder fresh;
  std::vector<std::uint8_t> whole;
  std::vector<std::uint8_t> part;
  const PixelRectangle rectangle = some_rectangle(info, encoded.size() * 31 + std::to_integer<std::uint64_t>(encoded[encoded.size() / 2]));
  const bool has_whole = decode(fresh, encoded, {0, 0, info.width, info.height}, whole);
  const bool has_part = decode(used, encoded, rectangle, part);
  require(!has_whole || has_part, "what can be decoded whole can be decoded in part");
  if (!has_whole || info.format == ImageFormat::jpeg) return;
  const auto row_bytes = static_cast<std::size_t>(rectangle.width) * 3;
  for (int row = 0; row < rectangle.height; ++row) {
    const auto at =
        (static_cast<std::size_t>(rectangle.top + row) * static_cast<std::size_t>(info.width) + static_cast<std::size_t>(rectangle.left)) * 3;
    require(std::memcmp(whole.data() + at, part.data() + static_cast<std::size_t>(row) * row_bytes, row_bytes) == 0,
            "a part is what the whole has there");
  }
}

struct Preps {
  std::unique_ptr<PrepFactory> factory;
  std::unique_ptr<Prep> used;
};

Preps make_preps(DType dtype, CropRule crop) {
  ImagePrepOptions options;
  options.prep.crop_size = crop_size;
  options.dtype = dtype;
  options.layout = dtype == DType::uint8 ? Layout::nhwc : Layout::nchw;
  options.seed = 3;
  options.crop = crop;
  Preps preps{make_image_prep(options), nullptr};
  preps.used = preps.factory->make();
  return preps;
}

bool prepare(Prep& prep, std::span<const std::byte> encoded, std::vector<std::byte>& output, std::size_t bytes) {
  output.assign(bytes + 2 * guard_bytes, guard);
  PrepTask task;
  task.encoded = encoded;
  task.sample = 17;
  task.generation = 2;
  task.output = std::span(output).subspan(guard_bytes, bytes);
  const Status status = prep.prepare(task);
  require(status.ok() || status.code == StatusCode::corrupt || status.code == StatusCode::unsupported, "an image is good, corrupt or unsupported");
  const auto is_guard = [](std::byte byte) { return byte == guard; };
  require(std::all_of(output.begin(), output.begin() + guard_bytes, is_guard) && std::all_of(output.end() - guard_bytes, output.end(), is_guard),
          "nothing is written outside of the output");
  return status.ok();
}

void check_prep(std::span<const std::byte> encoded) {
  static const std::array preps{make_preps(DType::uint8, CropRule::random_resized), make_preps(DType::float32, CropRule::centre)};
  const Preps& chosen = preps[encoded.size() % preps.size()];
  const std::size_t bytes = chosen.factory->tensor(1).sample_bytes();
  std::vector<std::byte> first;
  std::vector<std::byte> second;
  const bool is_good = prepare(*chosen.used, encoded, first, bytes);
  const auto fresh = chosen.factory->make();
  require(prepare(*fresh, encoded, second, bytes) == is_good, "what came before changes no verdict");
  if (is_good) require(first == second, "what came before changes no sample");
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze;
  using namespace dsanalyze::fuzz;
  const std::span<const std::byte> encoded = bytes_of(data, size);
  ImageInfo info;
  const Status status = read_image_info(encoded, info);
  require(status.ok() || status.code == StatusCode::corrupt || status.code == StatusCode::unsupported, "a header is good, corrupt or unsupported");
  if (!status.ok()) {
    if (size < 4096) check_prep(encoded);
    return 0;
  }
  require(info.width >= 1 && info.height >= 1 && info.width <= max_image_side && info.height <= max_image_side,
          "an image has pixels, and not too many");
  require(std::int64_t{info.width} * info.height <= max_image_pixels, "an image has not too many pixels");
  require(info.format == recognise_image(encoded) && info.components >= 1 && info.components <= 4, "an image is of its format");
  if (std::int64_t{info.width} * info.height > most_pixels) return 0;
  check_prep(encoded);
  check_rectangle(encoded, info);
  return 0;
}
