#include "loaders/prep/gpu_prep.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../cuda/fake_gpu.hpp"
#include "../loaders/loader_rig.hpp"
#include "base/error.hpp"
#include "cuda/cuda_driver.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

ImagePrepOptions image_options(DType dtype, Layout layout, CropRule crop = CropRule::random_resized) {
  ImagePrepOptions options;
  options.prep.crop_size = 40;  // rows and columns that fill no tile
  options.dtype = dtype;
  options.layout = layout;
  options.seed = 5;
  options.crop = crop;
  options.resize = crop == CropRule::centre ? 48 : 0;
  return options;
}

std::vector<std::byte> picture_of(int width, int height, test::Scans scans = test::Scans::baseline, test::Inks inks = test::Inks::ycc) {
  test::ImageKind kind;
  kind.width = width;
  kind.height = height;
  kind.scans = scans;
  kind.inks = inks;
  return test::encode_picture(kind);
}

/// The samples of images by the GPU's prep, and by the CPU's.
struct Both {
  std::vector<std::vector<std::byte>> gpu, cpu;
  std::vector<Status> gpu_statuses, cpu_statuses;
  GpuPrepTotals totals;
};

Both prepare_both(const ImagePrepOptions& options, const std::vector<std::vector<std::byte>>& images) {
  Both both;
  const auto gpu = open_cuda_driver(kernels())->open(0);
  const auto count = static_cast<std::uint32_t>(images.size());
  GpuPrep prep(gpu, {options, 1, 2, count}, system_timing());
  const auto factory = make_image_prep(options);
  const std::size_t bytes = factory->tensor(1).sample_bytes();
  const auto cpu = factory->make();
  std::vector<GpuPrep::Task> tasks;
  std::vector<std::vector<std::byte>> host(images.size(), std::vector<std::byte>(bytes));
  for (std::uint32_t i = 0; i < count; ++i) {
    both.cpu.emplace_back(bytes);
    both.cpu_statuses.push_back(cpu->prepare({images[i], i, 3, 0, both.cpu.back()}));
    tasks.push_back({{images[i], i, 3, 0, host[i]}, 1, i});
  }
  both.gpu_statuses.resize(images.size());
  GpuPrep::Worker(prep).prepare(tasks, both.gpu_statuses);
  both.totals = prep.totals();
  const auto stream = gpu->make_stream();
  const auto mark = gpu->make_mark();
  for (std::uint32_t i = 0; i < count; ++i) {
    both.gpu.emplace_back(bytes);
    stream->copy_out(both.gpu.back().data(), prep.address(1) + i * bytes, bytes);
  }
  mark->set(*stream);
  require_reached(*mark, 5, system_timing(), "copies");
  return both;
}

/// Of bytes: the largest difference of two samples.
int apart(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i])));
  return most;
}

}  // namespace

TEST_CASE("samples of the GPU are those of the CPU, in every form, and nothing of the GPU is held afterwards") {
  const Fake fake("bus=1e11");
  std::vector<std::vector<std::byte>> images;
  for (int i = 0; i < 12; ++i) images.push_back(picture_of(41 + 13 * i, 150 - 9 * i));
  for (const CropRule crop : {CropRule::random_resized, CropRule::centre}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const Both bytes = prepare_both(image_options(DType::uint8, layout, crop), images);
      CHECK(bytes.totals.samples == images.size());
      for (std::size_t i = 0; i < images.size(); ++i) {
        CAPTURE(i);
        CHECK(bytes.gpu_statuses[i].ok());
        CHECK(apart(bytes.gpu[i], bytes.cpu[i]) <= 1);
      }
      const Both floats = prepare_both(image_options(DType::float32, layout, crop), images);
      for (std::size_t i = 0; i < images.size(); ++i)
        for (std::size_t at = 0; at < floats.gpu[i].size(); at += sizeof(float)) {
          float ours = 0;
          float theirs = 0;
          std::memcpy(&ours, floats.gpu[i].data() + at, sizeof(float));
          std::memcpy(&theirs, floats.cpu[i].data() + at, sizeof(float));
          REQUIRE(std::abs(ours - theirs) <= 1 / (255 * 0.22F));
        }
    }
  }
  CHECK(Fake::held() == 0);
}

TEST_CASE("what the GPU's decoder does not take is prepared on the CPU, and what is no image fails alone") {
  const Fake fake("bus=1e11");
  std::vector<std::vector<std::byte>> images{picture_of(60, 60),
                                             picture_of(90, 70, test::Scans::progressive),
                                             picture_of(70, 90, test::Scans::baseline, test::Inks::grey),
                                             picture_of(80, 80, test::Scans::baseline, test::Inks::cmyk),
                                             std::vector<std::byte>(500),
                                             {},
                                             picture_of(100, 50),
                                             picture_of(3000, 40)};
  std::vector<std::byte> cut = picture_of(120, 90);
  cut.resize(cut.size() / 2);
  images.push_back(cut);
  std::vector<std::byte> patched = picture_of(120, 90);  // still with its end, so that only decoding tells
  patched.erase(patched.begin() + static_cast<std::ptrdiff_t>(patched.size() / 2), patched.end() - 2);
  images.push_back(patched);
  const ImagePrepOptions options = image_options(DType::uint8, Layout::nhwc);
  const auto check = [&](const Both& both) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      CAPTURE(i);
      CHECK(both.gpu_statuses[i].code == both.cpu_statuses[i].code);
      if (both.cpu_statuses[i].ok()) CHECK(apart(both.gpu[i], both.cpu[i]) <= 1);
    }
  };
  const Both both = prepare_both(options, images);
  check(both);
  CHECK(both.totals.samples == 3);
  CHECK(both.totals.left_to_cpu == images.size() - 3);
  const FakeNvjpeg none("fail");
  const Both refused = prepare_both(options, images);
  check(refused);
  CHECK(refused.totals.samples == 0);
}

namespace {

struct PreparedBatch {
  std::vector<SampleId> ids;
  std::vector<std::byte> samples;
};

/// All batches of a loader whose first samples are the GPU's.
std::vector<PreparedBatch> batches_of(Rig& rig, LoaderOptions options, const std::shared_ptr<GpuPrep>& gpu_prep, Gpu& gpu) {
  options.start.samples = rig.index->size();
  Loader::Parts parts{rig.index, rig.engine.get(), &rig.server.cache(), rig.prep.get(), {}, system_timing()};
  parts.gpu = gpu_prep;
  Loader loader(parts, options);
  const auto stream = gpu.make_stream();
  const auto mark = gpu.make_mark();
  std::vector<PreparedBatch> batches;
  Batch batch;
  while (loader.next(batch, system_timing().clock->after(20)).ok()) {
    const std::byte* const host = loader.memory(batch);
    const auto* const ids = reinterpret_cast<const SampleId*>(host + batch.ids_offset);
    const std::size_t bytes = batch.tensor.sample_bytes();
    PreparedBatch& made = batches.emplace_back();
    made.ids.assign(ids, ids + batch.count);
    made.samples.assign(host, host + bytes * batch.count);
    CHECK((gpu_prep == nullptr) == (loader.gpu_memory(batch) == 0));
    if (gpu_prep) {
      const std::uint32_t drawn = batch.count + (options.on_error == OnError::skip ? batch.failed : 0);
      CHECK(batch.on_gpu == std::min(gpu_prep->of_batch(drawn), batch.count));
      stream->copy_out(made.samples.data(), loader.gpu_memory(batch), bytes * batch.on_gpu);
      mark->set(*stream);
      require_reached(*mark, 5, system_timing(), "copies");
    }
    loader.release(batch.token);
  }
  if (gpu_prep) CHECK(loader.totals().gpu_prep.samples + loader.totals().gpu_prep.failures > 0);
  return batches;
}

}  // namespace

TEST_CASE("a loader that shares batches with a GPU gives the same samples, whatever fails and however gaps are filled") {
  const Fake fake("bus=1e11");
  const auto gpu = open_cuda_driver(kernels())->open(0);
  ImagePrepOptions options = image_options(DType::uint8, Layout::nhwc);
  for (const OnError on_error : {OnError::skip, OnError::substitute}) {
    for (const double share : {0.0, 0.3, 0.5, 1.0}) {
      CAPTURE(share);
      FileDataset data;
      Rig rig(pictures(data, {2, 3, 8}), CacheKind::minio, 1 << 20, make_image_prep(options));
      LoaderOptions loader = loader_options(4, 3);
      loader.on_error = on_error;
      loader.error_budget = 1;
      const auto expected = batches_of(rig, loader, nullptr, *gpu);
      const auto prep = std::make_shared<GpuPrep>(
          gpu, GpuPrep::Options{options, share, loader.prefetch_batches + loader.held_batches, loader.batch_size}, system_timing());
      if (share == 0) continue;
      const auto found = batches_of(rig, loader, prep, *gpu);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i].ids == expected[i].ids);
        REQUIRE(found[i].samples.size() == expected[i].samples.size());
        CHECK(apart(found[i].samples, expected[i].samples) <= 1);
      }
    }
  }
}

TEST_CASE("with a shuffle buffer, too, the first samples of a batch are the GPU's") {
  const Fake fake("bus=1e11");
  const auto gpu = open_cuda_driver(kernels())->open(0);
  const ImagePrepOptions options = image_options(DType::uint8, Layout::nhwc);
  LoaderOptions loader = loader_options(4, 3);
  loader.start.order.kind = OrderKind::sequential;
  loader.start.order.shuffle_buffer = 5;
  FileDataset data;
  Rig rig(pictures(data, {3}), CacheKind::minio, 1 << 20, make_image_prep(options));
  loader.error_budget = 1;
  const auto expected = batches_of(rig, loader, nullptr, *gpu);
  const auto prep = std::make_shared<GpuPrep>(gpu, GpuPrep::Options{options, 0.5, loader.prefetch_batches + loader.held_batches, loader.batch_size},
                                              system_timing());
  const auto found = batches_of(rig, loader, prep, *gpu);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].ids == expected[i].ids);
    CHECK(apart(found[i].samples, expected[i].samples) <= 1);
  }
  CHECK(prep->totals().samples + prep->totals().left_to_cpu > 0);
}

TEST_CASE("images that are larger than a GPU has room for at once go to it in parts, and headers that lie to the CPU") {
  const Fake fake("bus=1e11,memory=3e8");  // 64 MiB of pixels at once
  std::vector<std::vector<std::byte>> images(3, picture_of(4000, 3000));
  images.push_back(test::with_dimensions(picture_of(64, 64), 6000, 6000));
  ImagePrepOptions options = image_options(DType::uint8, Layout::nhwc, CropRule::centre);
  options.prep.crop_size = options.resize = 400;
  const Both both = prepare_both(options, images);
  for (std::size_t i = 0; i < images.size(); ++i) CHECK(both.gpu_statuses[i].code == both.cpu_statuses[i].code);
  CHECK(both.totals.samples == 3);
  CHECK(both.totals.left_to_cpu == 1);
}

TEST_CASE("a GPU that is lost while it prepares ends the run with what it said") {
  const Fake fake("bus=1e11,lost_after=2");
  const auto gpu = open_cuda_driver(kernels())->open(0);
  const ImagePrepOptions options = image_options(DType::uint8, Layout::nhwc);
  FileDataset data;
  Rig rig(pictures(data, {}), CacheKind::minio, 1 << 20, make_image_prep(options));
  LoaderOptions loader_options_given = loader_options(4, 50);
  loader_options_given.start.samples = rig.index->size();
  Loader::Parts parts{rig.index, rig.engine.get(), &rig.server.cache(), rig.prep.get(), {}, system_timing()};
  parts.gpu = std::make_shared<GpuPrep>(gpu, GpuPrep::Options{options, 1, 8, 4}, system_timing());
  Loader loader(parts, loader_options_given);
  Batch batch;
  Status status;
  while ((status = loader.next(batch, system_timing().clock->after(20))).ok()) loader.release(batch.token);
  CHECK(status.code == StatusCode::corrupt);
  CHECK(loader.failure().find("CUDA_ERROR_LAUNCH_FAILED") != std::string::npos);
}
