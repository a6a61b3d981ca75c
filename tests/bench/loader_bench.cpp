// What the loader itself costs, and how prep scales over workers.
//
//   loader_bench overhead [--seconds N] [--json FILE]   null storage, null prep, null accelerator: nanoseconds a sample, by batch size and cache
//   loader_bench spans [--seconds N]                    the same without and with a recorder of spans in turn, and the same without one twice
//   loader_bench scaling DIR [--seconds N]              cached photographs, real prep: 1 and 2 workers in turn, beside a pure-ALU loop on 1 and 2
//   threads

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "bench_main.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/loader.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {
namespace {

const Timing timing = system_timing();

/// Samples a second that a consumer gets in `seconds`, after the first two epochs' worth of batches.
double measure(Loader& loader, double seconds, std::uint64_t skip_samples) {
  Batch batch;
  std::uint64_t samples = 0;
  Nanoseconds begun = 0;
  std::uint64_t counted = 0;
  for (;;) {
    const Status status = loader.next(batch, timing.clock->after(10));
    if (!status.ok()) throw Error("the loader stopped: " + loader.failure());
    samples += batch.count;
    loader.release(batch.token);
    const Nanoseconds now = timing.clock->now();
    if (begun == 0 && samples >= skip_samples) {
      begun = now;
      continue;
    }
    if (begun == 0) continue;
    counted += batch.count;
    if (to_seconds(now - begun) >= seconds) return static_cast<double>(counted) / to_seconds(now - begun);
  }
}

std::unique_ptr<Loader> make_loader(const std::shared_ptr<const DatasetIndex>& index, FetchEngine& engine, RawCache& cache, const PrepFactory& prep,
                                    std::uint32_t workers, std::uint32_t batch, std::uint64_t epoch, SpanRecorder* spans = nullptr) {
  LoaderOptions options;
  options.batch_size = batch;
  options.workers = workers;
  options.start = {1, epoch, 0, index->size(), {}};
  return std::make_unique<Loader>(Loader::Parts{index, &engine, &cache, &prep, {}, timing, nullptr, spans}, options);
}

void overhead(double seconds, const std::string& json) {
  DatasetSpec spec;
  spec.name = "null";
  spec.samples = 100'000;
  spec.mean_sample_bytes = 1000;
  const auto index = make_emulated_index(spec, 0, 1, 1);
  FetchOptions fetch;
  fetch.capacity = 256;
  const auto engine = make_null_engine(fetch, timing);
  const auto prep = make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1));
  std::vector<std::string> records;
  fmt::print("{:<8}{:>8}{:>10}{:>14}\n", "cache", "batch", "workers", "ns a sample");
  for (const CacheKind kind : {CacheKind::none, CacheKind::minio}) {
    ServerHolder server({kind, index->bytes(), index->size(), index->bytes(), 2000, 4096}, timing);
    std::uint64_t epoch = 0;
    for (const std::uint32_t batch : {32U, 256U, 512U}) {
      for (const std::uint32_t workers : {1U, 2U}) {
        std::vector<double> costs;
        for (int round = 0; round < 5; ++round) {
          const auto loader = make_loader(index, *engine, server.cache(), *prep, workers, batch, epoch);
          costs.push_back(1e9 / measure(*loader, seconds / 5, 2 * spec.samples));
          epoch += 1'000'000;
        }
        fmt::print("{:<8}{:>8}{:>10}{:>14.0f}\n", cache_kind_name(kind), batch, workers, median(costs));
        records.push_back(fmt::format(R"({{"cache": "{}", "batch": {}, "workers": {}, "nanoseconds": [{:.1f}]}})", cache_kind_name(kind), batch,
                                      workers, fmt::join(costs, ", ")));
      }
    }
  }
  if (json.empty()) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(json.c_str(), "w"), &std::fclose);
  if (file == nullptr) throw Error("cannot write " + json);
  fmt::print(file.get(), "[{}]\n", fmt::join(records, ",\n "));
}

/// What recording costs a sample whose prep takes no time, so that nothing hides it: two workers, all in the cache.
void spans(double seconds) {
  constexpr int rounds = 15;
  constexpr std::size_t room = 8'000'000;
  DatasetSpec spec;
  spec.name = "null";
  spec.samples = 100'000;
  spec.mean_sample_bytes = 1000;
  const auto index = make_emulated_index(spec, 0, 1, 1);
  FetchOptions fetch;
  fetch.capacity = 256;
  const auto engine = make_null_engine(fetch, timing);
  const auto prep = make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1));
  ServerHolder server({CacheKind::minio, index->bytes(), index->size(), index->bytes(), 2000, 4096}, timing);
  std::uint64_t epoch = 0;
  const auto cost = [&](SpanRecorder* recorder) {
    epoch += 1'000'000;
    return 1e9 / measure(*make_loader(index, *engine, server.cache(), *prep, 2, 256, epoch, recorder), seconds / rounds / 3, 2 * spec.samples);
  };
  std::vector<double> off, on, off_again, differences, noise;
  std::uint64_t dropped = 0;
  for (int round = 0; round < rounds; ++round) {
    SpanRecorder recorder(room);
    off.push_back(cost(nullptr));
    on.push_back(cost(&recorder));
    off_again.push_back(cost(nullptr));
    differences.push_back(on.back() - (off.back() + off_again.back()) / 2);
    noise.push_back(off_again.back() - off.back());
    dropped += recorder.dropped();
  }
  const Estimate difference = estimate_mean(differences);
  const Estimate same = estimate_mean(noise);
  fmt::print("off          {:>8.1f} ns a sample\n", median(off));
  fmt::print("on           {:>8.1f} ns a sample ({} spans found no room)\n", median(on), dropped);
  fmt::print("on - off     {:>8.1f} ns  (95 % {:.1f} to {:.1f})\n", difference.value, difference.ci95.low, difference.ci95.high);
  fmt::print("off - off    {:>8.1f} ns  (95 % {:.1f} to {:.1f})\n", same.value, same.ci95.low, same.ci95.high);
}

/// Steps of a loop that never leaves the registers, a second, by all threads.
double alu_rate(int threads, double seconds) {
  std::atomic<std::uint64_t> total{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  const Nanoseconds begun = timing.clock->now();
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      std::uint64_t done = 0, value = static_cast<std::uint64_t>(i);
      while (!stop.load(std::memory_order_relaxed)) {
        for (int k = 0; k < 4096; ++k) value = mix(value);
        done += 4096 + (value == 0 ? 1 : 0);
      }
      total += done;
    });
  }
  timing.waiter->sleep_until(timing.clock->after(seconds).at);
  stop = true;
  workers.clear();
  return static_cast<double>(total.load()) / to_seconds(timing.clock->now() - begun);
}

void scaling(const std::string& folder, double seconds) {
  const auto index = open_dataset(folder, {}, null_events(), {});
  FetchOptions fetch;
  const auto engine = make_thread_engine(index, fetch, timing);
  std::uint64_t largest = 0;
  for (const auto& record : index->records()) largest = std::max(largest, record.length);
  ServerHolder server({CacheKind::minio, index->bytes(), index->size(), index->bytes(), largest, 4096}, timing);
  const auto prep = make_image_prep({});
  std::uint64_t epoch = 0;
  measure(*make_loader(index, *engine, server.cache(), *prep, 2, 64, epoch), 0.1, 2ULL * index->size());

  constexpr int rounds = 10;
  const double part = seconds / rounds / 4;
  std::vector<double> prep_scaling, alu_scaling, ratios, one_worker;
  for (int round = 0; round < rounds; ++round) {
    epoch += 1'000'000;
    const double one = measure(*make_loader(index, *engine, server.cache(), *prep, 1, 64, epoch), part, 256);
    const double alu_one = alu_rate(1, part);
    epoch += 1'000'000;
    const double two = measure(*make_loader(index, *engine, server.cache(), *prep, 2, 64, epoch), part, 256);
    const double alu_two = alu_rate(2, part);
    one_worker.push_back(one);
    prep_scaling.push_back(two / one);
    alu_scaling.push_back(alu_two / alu_one);
    ratios.push_back(prep_scaling.back() / alu_scaling.back());
  }
  const Estimate ratio = estimate_mean(ratios);
  fmt::print("one worker            {:>8.0f} images/s\n", median(one_worker));
  fmt::print("2 workers / 1 worker  {:>8.3f}\n", median(prep_scaling));
  fmt::print("ALU: 2 threads / 1    {:>8.3f}\n", median(alu_scaling));
  fmt::print("ratio of the two      {:>8.3f}  (95 % of the mean {:.3f} to {:.3f})\n", median(ratios), ratio.ci95.low, ratio.ci95.high);
}

int run(const std::vector<std::string>& arguments) {
  double seconds = 20;
  std::string json;
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == "--seconds") seconds = std::stod(arguments[i + 1]);
    if (arguments[i] == "--json") json = arguments[i + 1];
  }
  if (!arguments.empty() && arguments[0] == "overhead") {
    overhead(seconds / 12, json);
  } else if (!arguments.empty() && arguments[0] == "spans") {
    spans(seconds);
  } else if (arguments.size() >= 2 && arguments[0] == "scaling") {
    scaling(arguments[1], seconds);
  } else {
    fmt::print(stderr, "usage: loader_bench overhead [--json FILE] | spans [--seconds N] | scaling DIR [--seconds N]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
