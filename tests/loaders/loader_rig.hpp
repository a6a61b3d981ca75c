#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "dataset/made_dataset.hpp"
#include "loaders/loader.hpp"
#include "loaders/server/server_scope.hpp"
#include "prep/jpeg_images.hpp"

namespace dsanalyze::testing {

/// A server with a cache, an engine and a prep, and loaders over them.
struct Rig {
  Rig(std::shared_ptr<const DatasetIndex> given, CacheKind kind, Bytes capacity, std::unique_ptr<PrepFactory> given_prep, std::size_t places = 16)
      : index(std::move(given)),
        server({kind, capacity, index->size(), index->bytes(), largest_sample(*index), 4096}, system_timing()),
        engine(index->facts().format == "emulated" ? make_null_engine(fetch(places), system_timing())
                                                   : make_thread_engine(index, fetch(places), system_timing())),
        prep(std::move(given_prep)) {}
  static FetchOptions fetch(std::size_t places) {
    FetchOptions options;
    options.concurrency = 4;
    options.capacity = places;
    return options;
  }
  std::unique_ptr<Loader> loader(LoaderOptions options) {
    options.start.samples = index->size();
    return std::make_unique<Loader>(Loader::Parts{index, engine.get(), &server.cache(), prep.get(),
                                                  [this] { return std::optional<Bytes>(engine->requested()); }, system_timing()},
                                    options);
  }
  std::shared_ptr<const DatasetIndex> index;
  ServerHolder server;
  std::unique_ptr<FetchEngine> engine;
  std::unique_ptr<PrepFactory> prep;
};

inline std::unique_ptr<PrepFactory> no_prep() { return make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 4)); }

inline LoaderOptions loader_options(std::uint32_t batch, std::uint64_t epochs) {
  LoaderOptions options;
  options.batch_size = batch;
  options.epochs = epochs;
  options.workers = 3;
  return options;
}

/// What a consumer saw: ids by epoch, in order.
struct Seen {
  std::vector<std::vector<SampleId>> epochs;
  std::vector<std::vector<std::byte>> samples;  ///< by batch, the bytes of its samples
  std::uint64_t failed = 0;
  Status end;
};

inline Seen consume(Loader& loader, std::uint64_t most_batches = UINT64_MAX) {
  Seen seen;
  Batch batch;
  for (std::uint64_t count = 0; count < most_batches; ++count) {
    seen.end = loader.next(batch, system_timing().clock->after(20));
    if (!seen.end.ok()) break;
    CHECK(batch.sequence == count);
    if (seen.epochs.size() <= batch.epoch) seen.epochs.resize(batch.epoch + 1);
    const auto* ids = reinterpret_cast<const SampleId*>(loader.memory(batch) + batch.ids_offset);
    seen.epochs[batch.epoch].insert(seen.epochs[batch.epoch].end(), ids, ids + batch.count);
    const auto* data = loader.memory(batch) + batch.samples_offset;
    seen.samples.emplace_back(data, data + batch.count * batch.tensor.sample_bytes());
    seen.failed += batch.failed;
    loader.release(batch.token);
  }
  return seen;
}

/// Stops a run of `batches` batches after each of them and goes on from the saved state: the rest must be the same, bit for bit.
inline void check_every_resume(Rig& rig, const LoaderOptions& options, std::size_t batches) {
  auto whole = rig.loader(options);
  const Seen all = consume(*whole);
  whole.reset();
  REQUIRE(all.samples.size() == batches);
  for (std::uint64_t stop = 0; stop < batches; ++stop) {
    CAPTURE(stop);
    auto begun = rig.loader(options);
    consume(*begun, stop);
    LoaderOptions resumed = options;
    resumed.epochs = 0;
    resumed.start = SamplerState::parse(begun->state().serialise());
    begun.reset();
    auto loader = rig.loader(resumed);
    const Seen rest = consume(*loader, batches - stop);
    CHECK(std::ranges::equal(rest.samples, std::span(all.samples).subspan(stop)));
  }
}

/// Ten pictures; some of them are not.
inline std::shared_ptr<const DatasetIndex> pictures(FileDataset& data, const std::set<int>& bad, int count = 10) {
  for (int i = 0; i < count; ++i) {
    test::ImageKind kind;
    kind.width = 100 + 10 * i;
    const auto bytes = test::encode_picture(kind);
    std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (bad.contains(i)) content = i % 2 == 0 ? content.substr(0, content.size() / 2) : "not an image at all";
    data.add(std::to_string(i) + ".jpg", content);
  }
  return data.index();
}

inline std::unique_ptr<PrepFactory> small_prep() {
  ImagePrepOptions options;
  options.prep.crop_size = 16;
  options.dtype = DType::uint8;
  options.layout = Layout::nhwc;
  options.seed = 5;
  return make_image_prep(options);
}

}  // namespace dsanalyze::testing
