#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../loaders/prep/jpeg_images.hpp"
#include "base/error.hpp"
#include "core/gpu.hpp"
#include "cuda/cuda_driver.hpp"
#include "fake_gpu.hpp"

using namespace dsanalyze;

namespace {

std::string told_when_opened(const char* settings) {
  const Fake fake(settings);
  try {
    open_cuda_driver(kernels())->open(0);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("the driver tells of each GPU, and nothing of it is held once everything is gone") {
  const Fake fake("devices=2,memory=2e9");
  {
    const auto driver = open_cuda_driver(kernels());
    CHECK(driver->version() == "CUDA 13.0");
    REQUIRE(driver->gpus().size() == 2);
    CHECK(driver->gpus()[1].name == "Fake GPU 1");
    CHECK(driver->gpus()[1].pci == "0000:02:00.0");
    CHECK(driver->gpus()[0].memory_bytes == 2'000'000'000);
    CHECK(driver->gpus()[0].compute_major == 9);
    const auto gpu = driver->open(1);
    const auto memory = gpu->allocate(1000);
    const auto stream = gpu->make_stream();
    const auto mark = gpu->make_mark();
    CHECK(Fake::held() > 0);
  }
  CHECK(Fake::held() == 0);
}

TEST_CASE("bytes and rows arrive as they were, and what was given before is done before a mark is reached") {
  const Fake fake("bus=1e6");
  const auto driver = open_cuda_driver(kernels());
  const auto gpu = driver->open(0);
  std::vector<std::byte> sent(10'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> back(sent.size());
  const auto memory = gpu->allocate(sent.size());
  const auto stream = gpu->make_stream();
  const auto begun = gpu->make_mark();
  const auto ended = gpu->make_mark();
  const auto pinned = gpu->pin(sent);
  begun->set(*stream);
  stream->copy_in(memory->address(), sent.data(), sent.size());
  ended->set(*stream);
  CHECK_FALSE(ended->reached());
  require_reached(*ended, 10, system_timing(), "a copy");
  CHECK(ended->seconds_since(*begun) == doctest::Approx(0.010).epsilon(0.01));
  stream->copy_out(back.data(), memory->address(), back.size());
  ended->set(*stream);
  require_reached(*ended, 10, system_timing(), "a copy");
  CHECK(back == sent);

  stream->copy_in(memory->address(), sent.data() + 3, GpuRows{5, 100, 20});
  stream->copy_out(back.data(), memory->address(), 100);
  for (std::size_t row = 0; row < 20; ++row)
    CHECK(std::equal(back.begin() + static_cast<std::ptrdiff_t>(row * 5), back.begin() + static_cast<std::ptrdiff_t>(row * 5 + 5),
                     sent.begin() + static_cast<std::ptrdiff_t>(3 + row * 100)));
}

TEST_CASE("work on another GPU waits for a mark, and a wait for one that is not reached ends in an error") {
  const Fake fake("devices=2");
  const auto driver = open_cuda_driver(kernels());
  const auto first = driver->open(0);
  const auto second = driver->open(1);
  const auto memory = first->allocate(4096);
  const auto busy = first->make_stream();
  const auto waits = second->make_stream();
  const auto done = first->make_mark();
  const auto after = second->make_mark();
  busy->occupy(0.3, *memory);
  done->set(*busy);
  waits->wait_for(*done);
  after->set(*waits);
  CHECK_FALSE(wait_until_reached(*after, system_timing().clock->after(0.01), system_timing()));
  CHECK_THROWS_WITH_AS(require_reached(*after, 0.01, system_timing(), "its work"), doctest::Contains("did not end its work within"), Error);
  CHECK(wait_until_reached(*after, system_timing().clock->after(10), system_timing()));
  CHECK(done->reached());
}

TEST_CASE("a thread that has not used a GPU before may call everything of it") {
  const Fake fake("");
  const auto gpu = open_cuda_driver(kernels())->open(0);
  std::vector<std::byte> bytes(4096);
  const auto memory = gpu->allocate(bytes.size());
  const auto other = gpu->allocate(bytes.size());
  const auto stream = gpu->make_stream();
  const auto mark = gpu->make_mark();
  mark->set(*stream);
  const std::vector<std::function<void()>> calls = {
      [&] { gpu->allocate(10); },
      [&] { gpu->pin(bytes); },
      [&] { gpu->make_stream(); },
      [&] { gpu->make_mark(); },
      [&] { stream->copy_in(memory->address(), bytes.data(), bytes.size()); },
      [&] {
        stream->copy_in(memory->address(), bytes.data(), GpuRows{5, 100, 20});
      },
      [&] { stream->copy_out(bytes.data(), memory->address(), bytes.size()); },
      [&] { stream->copy_across(other->address(), memory->address(), bytes.size()); },
      [&] { stream->occupy(0, *memory); },
      [&] { stream->wait_for(*mark); },
      [&] { mark->set(*stream); },
      [&] { static_cast<void>(mark->reached()); },
  };
  for (std::size_t at = 0; at < calls.size(); ++at) {
    CAPTURE(at);
    std::string failure;
    std::thread([&] {
      try {
        calls[at]();
      } catch (const Error& error) {
        failure = error.what();
      }
    }).join();
    CHECK(failure.empty());
  }
}

TEST_CASE("what the driver refuses is said with what to do") {
  CHECK(told_when_opened("init=100").find("no GPU is shown to this process") != std::string::npos);
  CHECK(told_when_opened("devices=0").find("no GPU is shown to this process") != std::string::npos);
  CHECK(told_when_opened("init=34").find("the toolkit's stub") != std::string::npos);
  CHECK(told_when_opened("init=803").find("of different versions") != std::string::npos);
  CHECK(told_when_opened("init=999").find("CUDA_ERROR_UNKNOWN") != std::string::npos);
  CHECK(told_when_opened("image=222,version=12040").find("driver for CUDA 12.4") != std::string::npos);
  CHECK(told_when_opened("image=222").find("install a newer driver") != std::string::npos);
  CHECK(told_when_opened("image=209").find("compute capability 7.5") != std::string::npos);
  CHECK(told_when_opened("retain=46").find("another process holds the GPU") != std::string::npos);
  CHECK(Fake::held() == 0);
  const Fake fake("memory=1000000");
  const auto gpu = open_cuda_driver(kernels())->open(0);
  CHECK_THROWS_AS(gpu->allocate(2'000'000), NoMemoryError);
}

TEST_CASE("no driver: how to go on without one") {
  // The library that the test runs with is loaded, so another place is asked: a folder of the search path that has none would answer the same.
  const std::string text = told_when_opened("count=100");
  CHECK(text.find("docker run --gpus all") != std::string::npos);
}

TEST_CASE("a decoder that does not start, and one without engines, say so; one that was given back is used again") {
  const Fake fake("bus=1e11");
  const auto driver = open_cuda_driver(kernels());
  const auto gpu = driver->open(0);
  CHECK(gpu->make_jpeg_decoder()->description() == "7 JPEG engines (nvJPEG 13.0)");
  const FakeNvjpeg broken("broken");
  CHECK(gpu->make_jpeg_decoder()->description() == "7 JPEG engines (nvJPEG 13.0)");
  CHECK_THROWS_WITH_AS(driver->open(0)->make_jpeg_decoder(), "nvJPEG 13.0 does not start on this GPU (its answer is 9)", Error);
  const FakeNvjpeg without("engines=0");
  CHECK(driver->open(0)->make_jpeg_decoder()->description() == "its multiprocessors (nvJPEG 13.0)");
}

TEST_CASE("a decoder takes whole images of three colours whose size it can tell") {
  const Fake fake("bus=1e11");
  const auto decoder = open_cuda_driver(kernels())->open(0)->make_jpeg_decoder();
  test::ImageKind kind;
  kind.width = 37;
  kind.height = 23;
  const std::vector<std::byte> picture = test::encode_picture(kind);
  const auto size = decoder->size_of(picture);
  REQUIRE(size);
  CHECK(size->width == 37);
  CHECK(size->height == 23);
  CHECK_FALSE(decoder->size_of(std::span(picture).first(picture.size() - 2)));
  CHECK_FALSE(decoder->size_of(std::span(picture).first(0)));
  kind.inks = test::Inks::grey;
  CHECK_FALSE(decoder->size_of(test::encode_picture(kind)));
  const FakeNvjpeg unsure("no-size");
  CHECK_FALSE(decoder->size_of(picture));
}
