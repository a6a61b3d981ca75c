#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "jpeg_images.hpp"
#include "loaders/prep/prep.hpp"

using namespace dsanalyze;
using test::encode_picture;
using test::ImageKind;
using test::Inks;
using test::Scans;

namespace {

struct Prepared {
  Status status;
  std::vector<std::byte> bytes;
};

Prepared prepare(Prep& prep, const PrepFactory& factory, std::span<const std::byte> file, SampleId sample, std::uint64_t generation) {
  Prepared prepared{{}, std::vector<std::byte>(factory.tensor(1).sample_bytes())};
  prepared.status = prep.prepare({file, sample, generation, 0, prepared.bytes});
  return prepared;
}

ImagePrepOptions small_options(DType dtype = DType::float32, Layout layout = Layout::nchw) {
  ImagePrepOptions options{.prep = {}, .dtype = dtype, .layout = layout, .seed = 4};
  options.prep.crop_size = 40;
  return options;
}

}  // namespace

TEST_CASE("a sample is the same to the bit whichever prep makes it, on whichever thread, after whichever others") {
  const auto factory = make_image_prep(small_options());
  const auto file = encode_picture({});
  const auto other = encode_picture({.width = 333, .height = 222, .inks = Inks::grey, .scans = Scans::progressive});
  const auto first = factory->make();
  const auto second = factory->make();
  for (SampleId sample = 0; sample < 20; ++sample) {
    const Prepared expected = prepare(*first, *factory, file, sample, 7);
    REQUIRE(expected.status.ok());
    Prepared again;
    std::thread([&] {
      REQUIRE(prepare(*second, *factory, other, sample, 7).status.ok());
      again = prepare(*second, *factory, file, sample, 7);
    }).join();
    REQUIRE(again.bytes == expected.bytes);
    REQUIRE(prepare(*first, *factory, file, sample, 8).bytes != expected.bytes);
    REQUIRE(prepare(*first, *factory, file, sample + 1, 7).bytes != expected.bytes);
  }
}

TEST_CASE("all types and layouts hold the same picture") {
  const auto file = encode_picture({});
  const auto prepared_as = [&](DType dtype, Layout layout) {
    const auto factory = make_image_prep(small_options(dtype, layout));
    const auto prep = factory->make();
    Prepared prepared = prepare(*prep, *factory, file, 5, 1);
    REQUIRE(prepared.status.ok());
    return prepared.bytes;
  };
  const auto float_planes = prepared_as(DType::float32, Layout::nchw);
  const auto float_pixels = prepared_as(DType::float32, Layout::nhwc);
  const auto byte_planes = prepared_as(DType::uint8, Layout::nchw);
  const auto byte_pixels = prepared_as(DType::uint8, Layout::nhwc);
  const ImagePrep defaults;
  for (std::size_t pixel = 0; pixel < std::size_t{40} * 40; ++pixel) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const std::size_t plane_place = channel * 1600 + pixel;
      const std::size_t pixel_place = pixel * 3 + channel;
      float value = 0;
      std::memcpy(&value, float_planes.data() + plane_place * 4, 4);
      float same = 0;
      std::memcpy(&same, float_pixels.data() + pixel_place * 4, 4);
      REQUIRE(value == same);
      REQUIRE(byte_planes[plane_place] == byte_pixels[pixel_place]);
      const double expected = (std::to_integer<int>(byte_planes[plane_place]) / 255.0 - defaults.mean[channel]) / defaults.deviation[channel];
      REQUIRE(value == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("a crop of everything without a flip shows the picture the right way up and round") {
  ImagePrepOptions options = small_options(DType::uint8, Layout::nhwc);
  options.prep.scale = {1, 1};
  options.prep.ratio = {1, 1};
  options.prep.flip_probability = 0;
  const auto file = encode_picture({.width = 40, .height = 40, .horizontal_sampling = 1, .vertical_sampling = 1, .quality = 100});
  const auto factory = make_image_prep(options);
  const Prepared straight = prepare(*factory->make(), *factory, file, 0, 0);
  options.prep.flip_probability = 1;
  const auto mirroring = make_image_prep(options);
  const Prepared mirrored = prepare(*mirroring->make(), *mirroring, file, 0, 0);
  const auto value = [](const Prepared& prepared, int x, int y) {
    return std::to_integer<int>(prepared.bytes[(static_cast<std::size_t>(y) * 40 + static_cast<std::size_t>(x)) * 3]);
  };
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 40; ++x) {
      REQUIRE(std::abs(value(straight, x, y) - test::picture(x, y, 0)) <= 4);
      REQUIRE(value(mirrored, 39 - x, y) == value(straight, x, y));
    }
  }
}

TEST_CASE("every kind of image is prepared by the same prep, one after the other") {
  const auto factory = make_image_prep(small_options());
  const auto prep = factory->make();
  for (const ImageKind& kind :
       {ImageKind{.inks = Inks::grey}, ImageKind{.inks = Inks::cmyk}, ImageKind{.inks = Inks::ycck, .scans = Scans::progressive},
        ImageKind{.width = 4000, .height = 3000}, ImageKind{.width = 1, .height = 1}, ImageKind{.width = 3000, .height = 2},
        ImageKind{.width = 4000, .height = 3000, .scans = Scans::progressive}}) {
    const auto file = encode_picture(kind);
    for (SampleId sample = 0; sample < 10; ++sample) {
      CAPTURE(kind.width);
      CAPTURE(sample);
      REQUIRE(prepare(*prep, *factory, file, sample, 0).status.ok());
    }
  }
}

TEST_CASE("bad files give a status and the next good one is prepared") {
  const auto factory = make_image_prep(small_options());
  const auto prep = factory->make();
  const auto good = encode_picture({});
  const Prepared expected = prepare(*prep, *factory, good, 0, 0);
  CHECK(prepare(*prep, *factory, {}, 0, 0).status.code == StatusCode::corrupt);
  CHECK(prepare(*prep, *factory, std::span(good).first(good.size() / 2), 0, 0).status.code == StatusCode::corrupt);
  CHECK(prepare(*prep, *factory, test::with_dimensions(good, 65535, 65535), 0, 0).status.code == StatusCode::corrupt);
  CHECK(prepare(*prep, *factory, good, 0, 0).bytes == expected.bytes);
}

TEST_CASE("each operator's time grows with the samples prepared") {
  const auto factory = make_image_prep(small_options());
  const auto prep = factory->make();
  const auto names = factory->operator_names();
  REQUIRE(names.size() == 3);
  CHECK(names[0] == "decode");
  CHECK(names[1] == "resize");
  CHECK(names[2] == "normalise");
  const auto file = encode_picture({.width = 400, .height = 300});
  std::vector<Nanoseconds> before = prep->operator_times();
  CHECK(before == std::vector<Nanoseconds>{0, 0, 0});
  for (SampleId sample = 0; sample < 20; ++sample) REQUIRE(prepare(*prep, *factory, file, sample, 0).status.ok());
  for (const Nanoseconds time : prep->operator_times()) CHECK(time > 0);
}

TEST_CASE("the tensor has the shape that type and layout ask for") {
  const auto factory = make_image_prep(small_options(DType::uint8, Layout::nhwc));
  const TensorShape tensor = factory->tensor(16);
  CHECK(tensor.shape == std::array<std::int64_t, 4>{16, 40, 40, 3});
  CHECK(tensor.sample_bytes() == 4800);
}

TEST_CASE("null prep writes nothing, takes no time and keeps the shape") {
  const TensorShape like = TensorShape::images(DType::float32, Layout::nchw, 1, 3, 8, 8);
  const auto factory = make_null_prep(like);
  CHECK(factory->tensor(5).shape == std::array<std::int64_t, 4>{5, 3, 8, 8});
  CHECK(factory->tensor(5).sample_bytes() == like.sample_bytes());
  CHECK(factory->operator_names().empty());
  const auto prep = factory->make();
  std::vector<std::byte> output(like.sample_bytes(), std::byte{9});
  REQUIRE(prep->prepare({{}, 0, 0, 0, output}).ok());
  CHECK(output == std::vector<std::byte>(like.sample_bytes(), std::byte{9}));
}

TEST_CASE("emulated prep waits on the first free of the server's cores, whichever job asks") {
  ManualTiming timing;
  DeviceLane cores[2];
  const TensorShape like = TensorShape::images(DType::uint8, Layout::nchw, 1, 3, 8, 8);
  const auto factory = make_emulated_prep(like, 0.010, cores, timing.timing());
  const auto first = factory->make();
  const auto second = factory->make();
  std::vector<std::byte> output(like.sample_bytes());
  const auto end_of = [&](Prep& prep, Nanoseconds ready) {
    REQUIRE(prep.prepare({{}, 0, 0, ready, output}).ok());
    return timing.now();
  };
  constexpr Nanoseconds millisecond = 1'000'000;
  CHECK(end_of(*first, 0) == 10 * millisecond);
  CHECK(end_of(*second, 0) == 10 * millisecond);
  CHECK(end_of(*first, 0) == 20 * millisecond);
  CHECK(end_of(*first, 35 * millisecond) == 45 * millisecond);
  CHECK(first->operator_times() == std::vector<Nanoseconds>{30 * millisecond});
  CHECK(second->operator_times() == std::vector<Nanoseconds>{10 * millisecond});
}
