// What a MinIO cache leaves storage to do, by admission: first-come and cost-aware, on a dataset that exists by its sizes alone and a disk that
// exists by its figures alone. Runs the loader itself, with its cache; storage time is what the disk's closed form charges for the epoch's misses.
//
//   admission_bench DATASET.json STORAGE.json [--samples N] [--share X] [--scale N] [--epochs N] [--sizes FILE] [--json FILE]
//
// --scale divides bytes and bandwidth (100). --sizes writes the samples' sizes, 64-bit little-endian, so that the closed form can be computed
// elsewhere.

#include <cmath>

#include "base/system/files.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "core/device.hpp"
#include "core/storage_cost.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze::bench {
namespace {

const Timing timing = system_timing();

struct Run {
  std::string admission;
  std::vector<double> share;  ///< of an epoch's storage seconds without a cache, by epoch from the second on
  std::vector<double> misses;
  std::uint64_t items = 0;
  Bytes held = 0;
};

Run run_loader(const std::shared_ptr<const DatasetIndex>& index, const StorageCost& cost, Admission admission, Bytes capacity, std::uint64_t epochs) {
  const float least = admission == Admission::cost_aware ? admission_threshold(index->records(), cost, capacity) : 0;
  ServerHolder server({CacheKind::minio, capacity, index->size(), index->bytes(), largest_sample(*index), 4096, least}, timing);
  FetchOptions fetch;
  fetch.capacity = 512;
  fetch.largest_made_up = largest_sample(*index);
  const auto engine = make_null_engine(fetch, timing);
  const auto prep = make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1));
  LoaderOptions options;
  options.batch_size = 256;
  options.workers = 1;
  options.epochs = epochs;
  options.storage_cost = cost;
  options.start = {1, 0, 0, index->size(), {}};
  Loader loader({index, engine.get(), &server.cache(), prep.get(), {}, timing}, options);
  std::uint64_t samples = 0;
  while (take_batch(loader, timing, samples)) continue;

  double whole = 0;
  for (const IndexRecord& record : index->records()) whole += cost.seconds(record.length);
  Run run{admission == Admission::cost_aware ? "cost-aware" : "first", {}, {}, server.cache().totals().items, server.cache().totals().bytes};
  for (const EpochTotals& epoch : loader.epochs()) {
    if (epoch.epoch == 0) continue;
    const double seconds =
        static_cast<double>(epoch.misses) * cost.seconds_per_request + static_cast<double>(epoch.requested) * cost.seconds_per_byte;
    run.share.push_back(seconds / whole);
    run.misses.push_back(static_cast<double>(epoch.misses) / index->size());
  }
  return run;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--samples", "--share", "--scale", "--epochs", "--sizes", "--json"});
  if (arguments.positional.size() != 2) throw UsageError("usage: admission_bench DATASET.json STORAGE.json [options]; see the head of its source");
  const DatasetSpec spec = parse_dataset_spec(read_file(arguments.positional[0]), arguments.positional[0]);
  const StorageSpec storage = parse_storage(read_file(arguments.positional[1]), arguments.positional[1]);
  const double scale = arguments.number("--scale", 100);
  const double share = arguments.number("--share", 0.35);
  const auto index = make_emulated_index(spec, static_cast<std::uint64_t>(arguments.number("--samples", 0)), scale, 1);
  const auto capacity = static_cast<Bytes>(std::llround(share * static_cast<double>(index->bytes())));

  // As a profile does: a curve over request sizes, and what it says a request and a byte cost.
  const StorageDeviceSpec device{storage.bandwidth_bytes_per_s.value / scale, to_nanoseconds(storage.request_latency_seconds.value),
                                 static_cast<std::uint32_t>(storage.queue_depth)};
  std::vector<CostPoint> curve;
  for (const double bytes : {4096.0, 16'384.0, 65'536.0, 262'144.0, 1'048'576.0}) {
    curve.push_back({bytes / scale, storage_device_rate(device, bytes / scale, 16)});
  }
  const StorageCost cost = fit_storage_cost(curve);

  const auto epochs = static_cast<std::uint64_t>(arguments.number("--epochs", 4));
  const Run first = run_loader(index, cost, Admission::first, capacity, epochs);
  const Run aware = run_loader(index, cost, Admission::cost_aware, capacity, epochs);
  const double closed = cost_aware_remaining_share(index->records(), cost, capacity);

  fmt::print("{} samples of mean {:.0f} B at 1:{:g}, cache {:.0f} %; a request costs {:.3f} ms, a megabyte {:.3f} ms\n", index->size(),
             static_cast<double>(index->bytes()) / index->size() * scale, scale, share * 100, cost.seconds_per_request * 1e3,
             cost.seconds_per_byte / scale * 1e9);
  fmt::print("{:<14}{:>16}{:>16}{:>28}{:>16}\n", "admission", "samples held", "bytes held", "storage time of uncached", "samples missed");
  for (const Run* each : {&first, &aware}) {
    fmt::print("{:<14}{:>15.1f}%{:>15.1f}%{:>27.2f}%{:>15.2f}%\n", each->admission, 100.0 * static_cast<double>(each->items) / index->size(),
               100.0 * static_cast<double>(each->held) / static_cast<double>(index->bytes()), 100 * median(each->share), 100 * median(each->misses));
  }
  fmt::print("closed form (one minus the Lorenz curve of storage seconds over bytes): {:.2f}%\n", 100 * closed);

  if (arguments.has("--sizes")) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(arguments.text("--sizes", "").c_str(), "w"), &std::fclose);
    if (file == nullptr) throw Error("cannot write the sizes");
    for (const IndexRecord& record : index->records()) std::fwrite(&record.length, sizeof record.length, 1, file.get());
  }
  if (arguments.has("--json")) {
    write_text(arguments.text("--json", ""),
               fmt::format("{{\"capacity\": {}, \"seconds_per_request\": {}, \"seconds_per_byte\": {}, \"closed_form\": {}, \"first\": {{{}, {}}}, "
                           "\"cost_aware\": {{{}, {}}}}}\n",
                           capacity, cost.seconds_per_request, cost.seconds_per_byte, closed, json_list("share", first.share),
                           json_list("misses", first.misses), json_list("share", aware.share), json_list("misses", aware.misses)));
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::bench::run); }
