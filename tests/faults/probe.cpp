// Opens a dataset, runs two epochs of it through loader and cache, and says what came: a line a sample ("sample EPOCH ID DIGEST"), a line for each
// that failed ("failed NAME: CAUSE"), and a last one ("end FAILED"). What cannot be done at all is one line on stderr and exit code 1.
//
// usage: probe DATASET threads|threads-direct|uring|uring-direct CACHE ORDER [INDEX]     INDEX: writes the index there, and goes on with what it
// reads

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/loader.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t epochs = 2;
constexpr double most_seconds = 15;

std::unique_ptr<PrepFactory> make_prep(const DatasetIndex& index) {
  if (index.facts().array) return make_array_prep(*index.facts().array);
  ImagePrepOptions options;
  options.prep.crop_size = 8;
  options.dtype = DType::uint8;
  return make_image_prep(options);
}

std::unique_ptr<FetchEngine> make_engine(const std::string& name, const std::shared_ptr<const DatasetIndex>& index) {
  FetchOptions options;
  options.concurrency = 2;
  options.capacity = 32;
  options.read_mode = name.ends_with("-direct") ? ReadMode::direct : ReadMode::buffered;
  return name.starts_with("uring") ? make_uring_engine(index, options, system_timing()) : make_thread_engine(index, options, system_timing());
}

CacheOptions cache_options(const std::string& name, const DatasetIndex& index) {
  CacheOptions options;
  options.kind = parse_cache_kind(name);
  options.capacity = index.bytes() / 2;
  options.samples = index.size();
  options.dataset_bytes = index.bytes();
  for (const IndexRecord& record : index.records()) options.largest_sample = std::max(options.largest_sample, record.length);
  options.samples_in_flight = 64;
  return options;
}

void say_batch(const Loader& loader, const Batch& batch) {
  const auto* ids = reinterpret_cast<const SampleId*>(loader.memory(batch) + batch.ids_offset);
  const std::size_t bytes = batch.tensor.sample_bytes();
  for (std::uint32_t i = 0; i < batch.count; ++i) {
    const std::uint64_t digest = XXH3_64bits(loader.memory(batch) + batch.samples_offset + i * bytes, bytes);
    std::printf("sample %llu %u %016llx\n", static_cast<unsigned long long>(batch.epoch), ids[i], static_cast<unsigned long long>(digest));
  }
}

std::shared_ptr<const DatasetIndex> open_index(const std::string& dataset, const std::string& index_file) {
  OpenOptions options;
  options.threads = 2;
  auto index = open_dataset(dataset, options, null_events(), std::stop_token());
  if (index_file.empty()) return index;
  write_index_file(*index, index_file);
  return read_index_file(index_file);
}

int run(const std::string& dataset, const std::string& engine_name, const std::string& cache_name, const std::string& order_name,
        const std::string& index_file) {
  const auto index = open_index(dataset, index_file);
  ServerHolder server(cache_options(cache_name, *index), system_timing());
  const auto engine = make_engine(engine_name, index);
  const auto prep = make_prep(*index);
  LoaderOptions options;
  options.batch_size = 3;
  options.workers = 2;
  options.epochs = epochs;
  options.error_budget = 1;
  options.start.samples = index->size();
  options.start.order.kind = parse_order_kind(order_name);
  if (options.start.order.kind != OrderKind::random) options.start.order.shuffle_buffer = 4;
  Loader loader({index, engine.get(), &server.cache(), prep.get(), {}, system_timing()}, options);
  Batch batch;
  const Deadline deadline = system_timing().clock->after(most_seconds);
  Status status;
  while ((status = loader.next(batch, deadline)).ok()) {
    say_batch(loader, batch);
    loader.release(batch.token);
  }
  if (status.code != StatusCode::end) throw Error("the loader ended with '" + std::string(status_name(status.code)) + "': " + loader.failure());
  for (const SampleFailure& failure : loader.failures()) std::printf("failed %s: %s\n", failure.path.c_str(), failure.cause.c_str());
  std::printf("end %llu\n", static_cast<unsigned long long>(loader.failed_samples()));
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int count, char** arguments) {
  if (count != 5 && count != 6) {
    std::fprintf(stderr, "usage: probe DATASET ENGINE CACHE ORDER [INDEX]\n");
    return 2;
  }
  try {
    return dsanalyze::run(arguments[1], arguments[2], arguments[3], arguments[4], count == 6 ? arguments[5] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
