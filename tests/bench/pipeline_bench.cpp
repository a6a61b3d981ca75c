// The whole loader beside its parts: prep alone, cache alone and fetch alone take turns with the loader in one process, in slices of some seconds.
//
//   pipeline_bench DATASET [--slices LIST] [--rounds N] [--seconds N] [--io pread|uring] [--direct] [--depth N] [--rings N] [--places N]
//                  [--workers N] [--batch N] [--uint8] [--json FILE]
//
// Slices (all by default): prep (bare threads on samples in memory: P), cache (copies of cached objects: C), fetch (cold, no prep: F), cached (the
// whole loader, every sample held), cold (the whole loader, no cache). Cold slices begin with the dataset's pages dropped and end with what the
// kernel says came from storage. Each slice also gives its CPU time a sample.

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "base/events.hpp"
#include "base/host/host.hpp"
#include "base/random.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/fetch/storage_meter.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze::bench {
namespace {

const Timing timing = system_timing();
constexpr double settle_seconds = 0.4;
constexpr std::uint32_t prefetch_batches = 4;
constexpr std::uint32_t held_batches = 1;

struct Options {
  std::string dataset;
  std::vector<std::string> slices{"prep", "cache", "fetch", "cached", "cold"};
  int rounds = 7;
  double seconds = 2.5;
  bool uring = false;
  int rings = 1;
  ReadMode read_mode = ReadMode::buffered;
  int depth = 16;
  std::size_t places = 0;
  std::uint32_t workers = 2;
  std::uint32_t batch = 64;
  DType dtype = DType::float32;
  std::string json;
};

/// What one slice gave.
struct Slice {
  double samples_per_s = 0;
  double own_cpu_us = 0;      ///< of this process, a sample
  double kernel_us = 0;       ///< of it, in the kernel
  double machine_cpu_us = 0;  ///< of everyone on the machine, kernel threads too, a sample
  double from_storage = 0;    ///< bytes that came from storage / bytes asked for
};

/// Samples counted so far; the caller says when a window begins and ends.
class Window {
 public:
  explicit Window(const HostFacts& host) : m_host(host) {}
  void begin(std::uint64_t samples) {
    m_samples = samples;
    m_own = own_cpu();
    m_machine = sample_cpu(m_host).busy_seconds;
    m_begun = timing.clock->now();
  }
  [[nodiscard]] double elapsed() const { return to_seconds(timing.clock->now() - m_begun); }
  [[nodiscard]] Slice end(std::uint64_t samples) const {
    const double seconds = elapsed();
    const auto count = static_cast<double>(samples - m_samples);
    const CpuTime own = own_cpu();
    const double kernel = own.kernel - m_own.kernel;
    return {count / seconds, 1e6 * (own.user - m_own.user + kernel) / count, 1e6 * kernel / count,
            1e6 * (sample_cpu(m_host).busy_seconds - m_machine) / count, 0};
  }

 private:
  const HostFacts& m_host;
  std::uint64_t m_samples = 0;
  CpuTime m_own;
  double m_machine = 0;
  Nanoseconds m_begun = 0;
};

class PipelineBench {
 public:
  explicit PipelineBench(const Options& options)
      : m_options(options),
        m_index(open_dataset(options.dataset, {}, null_events(), {})),
        m_server({CacheKind::minio, m_index->bytes(), m_index->size(), m_index->bytes(), largest_sample(*m_index), 4096, 0}, timing),
        m_none({CacheKind::none, 0, m_index->size(), m_index->bytes(), largest_sample(*m_index), 4096, 0}, timing),
        m_prep(make_image_prep({{}, options.dtype, Layout::nchw, 1, CropRule::random_resized})),
        m_no_prep(make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1))),
        m_engine(make_engine()),
        m_meter(m_index->facts().root) {}

  Slice run(const std::string& name) {
    if (name == "prep") return by_threads(&PipelineBench::prepare_until);
    if (name == "cache") return by_threads(&PipelineBench::copy_until);
    if (name == "fetch") return cold(*m_no_prep);
    if (name == "cached") return by_loader(m_server.cache(), *m_prep, 0);
    if (name == "cold") return cold(*m_prep);
    throw UsageError(fmt::format("--slices: {} is none of prep, cache, fetch, cached, cold", name));
  }
  /// Every sample into the cache, once.
  void fill() {
    const auto loader = make_loader(m_server.cache(), *m_no_prep, 1);
    std::uint64_t samples = 0;
    while (take_batch(*loader, timing, samples)) continue;
    if (m_server.cache().totals().items < m_index->size()) throw Error("the cache does not hold the whole dataset: too little memory?");
  }
  [[nodiscard]] const DatasetIndex& index() const { return *m_index; }

 private:
  using Work = void (PipelineBench::*)(std::size_t thread, std::atomic<std::uint64_t>& done, const std::atomic<bool>& stop);

  std::unique_ptr<FetchEngine> make_engine() {
    FetchOptions fetch;
    fetch.concurrency = m_options.depth;
    fetch.rings = m_options.rings;
    fetch.read_mode = m_options.read_mode;
    fetch.capacity = m_options.places > 0 ? m_options.places
                                          : 2 * static_cast<std::size_t>(m_options.depth) + std::size_t{2} * m_options.workers + m_options.batch;
    return m_options.uring ? make_uring_engine(m_index, fetch, timing) : make_thread_engine(m_index, fetch, timing);
  }

  std::unique_ptr<Loader> make_loader(RawCache& cache, const PrepFactory& prep, std::uint64_t epochs) {
    LoaderOptions options;
    options.batch_size = m_options.batch;
    options.workers = m_options.workers;
    options.prefetch_batches = prefetch_batches;
    options.held_batches = held_batches;
    options.epochs = epochs;
    options.start = {1, m_epoch, 0, m_index->size(), {}};
    m_epoch += 1000;
    return std::make_unique<Loader>(Loader::Parts{m_index, m_engine.get(), &cache, &prep, [this] { return m_meter.process_bytes(); }, timing},
                                    options);
  }

  Slice by_loader(RawCache& cache, const PrepFactory& prep, std::uint64_t epochs) {
    const auto loader = make_loader(cache, prep, epochs);
    Window window(m_host);
    std::uint64_t samples = 0;
    window.begin(0);
    // Every slot's memory has been touched by then: the system gives a loader new pages once, not in the steady state.
    const std::uint64_t warm = std::uint64_t{2} * (prefetch_batches + held_batches + 1) * m_options.batch;
    while (samples < warm || window.elapsed() < settle_seconds) take_batch(*loader, timing, samples);
    window.begin(samples);
    while (window.elapsed() < m_options.seconds) take_batch(*loader, timing, samples);
    const Slice slice = window.end(samples);
    loader->stop();
    return slice;
  }

  Slice cold(const PrepFactory& prep) {
    drop_from_page_cache(*m_index, {});
    const auto delivered = m_meter.process_bytes();
    const Bytes asked = m_engine->requested();
    Slice slice = by_loader(m_none.cache(), prep, 0);
    if (delivered) {
      slice.from_storage =
          static_cast<double>(*m_meter.process_bytes() - *delivered) / static_cast<double>(std::max<Bytes>(m_engine->requested() - asked, 1));
    }
    return slice;
  }

  /// Bare threads over the cached objects, in a new random order.
  Slice by_threads(Work work) {
    std::vector<SampleId> order(m_index->size());
    random_permutation(mix(5, m_epoch), order);
    std::vector<CacheAccess> accesses(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) accesses[i] = {order[i], (*m_index)[order[i]].length, 0, 0};
    m_places.resize(order.size());
    m_server.cache().lookup(accesses, m_places);
    for (const CacheLookup& place : m_places) {
      if (place.decision != CacheDecision::hit) throw Error("an object is not in the cache");
    }
    std::vector<std::atomic<std::uint64_t>> done(m_options.workers);
    const auto total = [&] {
      std::uint64_t sum = 0;
      for (const auto& each : done) sum += each.load(std::memory_order_relaxed);
      return sum;
    };
    std::atomic<bool> stop{false};
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < m_options.workers; ++thread)
      threads.emplace_back([&, thread] { (this->*work)(thread, done[thread], stop); });
    Window window(m_host);
    timing.waiter->sleep_until(timing.clock->after(settle_seconds).at);
    window.begin(total());
    timing.waiter->sleep_until(timing.clock->after(m_options.seconds).at);
    const Slice slice = window.end(total());
    stop = true;
    threads.clear();
    m_server.cache().release(m_places);
    if (m_broken) throw Error("a sample does not decode");
    m_epoch += 1000;
    return slice;
  }

  void prepare_until(std::size_t thread, std::atomic<std::uint64_t>& done, const std::atomic<bool>& stop) {
    const auto prep = m_prep->make();
    const std::size_t bytes = m_prep->tensor(1).sample_bytes();
    // As much memory as the loader's slots have, so that what is written leaves the processor's caches all the same.
    const std::size_t slots = std::size_t{prefetch_batches + held_batches} * m_options.batch / m_options.workers;
    std::vector<std::byte> memory(slots * bytes);
    std::vector<std::byte> scratch(largest_sample(*m_index));
    std::size_t at = 0;
    for (std::size_t i = thread; !stop.load(std::memory_order_relaxed); i += m_options.workers) {
      const CacheLookup& place = m_places[i % m_places.size()];
      const auto encoded = m_server.cache().read(place, scratch);
      const std::span<std::byte> output(memory.data() + at * bytes, bytes);
      if (!prep->prepare({encoded, static_cast<SampleId>(place.key), m_epoch + i / m_places.size(), 0, output}).ok()) {
        m_broken = true;
        return;
      }
      at = (at + 1) % slots;
      done.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void copy_until(std::size_t thread, std::atomic<std::uint64_t>& done, const std::atomic<bool>& stop) {
    std::vector<std::byte> into(largest_sample(*m_index));
    for (std::size_t i = thread; !stop.load(std::memory_order_relaxed); i += m_options.workers) {
      const auto bytes = m_server.cache().read(m_places[i % m_places.size()], into);
      if (bytes.data() != into.data()) std::ranges::copy(bytes, into.begin());
      done.fetch_add(1, std::memory_order_relaxed);
    }
  }

  Options m_options;
  HostFacts m_host = read_host_facts();
  std::shared_ptr<const DatasetIndex> m_index;
  ServerHolder m_server;
  ServerHolder m_none;
  std::unique_ptr<PrepFactory> m_prep, m_no_prep;
  std::unique_ptr<FetchEngine> m_engine;
  StorageMeter m_meter;
  std::vector<CacheLookup> m_places;
  std::atomic<bool> m_broken{false};
  std::uint64_t m_epoch = 0;
};

Options parse(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--slices", "--rounds", "--seconds", "--io", "--depth", "--rings", "--places", "--workers", "--batch", "--json"},
                            {"--direct", "--uint8"});
  if (arguments.positional.size() != 1) throw UsageError("usage: pipeline_bench DATASET [--slices LIST] [options]; see the head of its source");
  Options options;
  options.dataset = arguments.positional[0];
  if (arguments.has("--slices")) {
    options.slices.clear();
    const std::string list = arguments.text("--slices", "") + ",";
    for (std::size_t at = 0; at < list.size(); at = list.find(',', at) + 1) options.slices.push_back(list.substr(at, list.find(',', at) - at));
  }
  options.rounds = static_cast<int>(arguments.number("--rounds", options.rounds));
  options.seconds = arguments.number("--seconds", options.seconds);
  options.uring = arguments.text("--io", "pread") == "uring";
  options.rings = static_cast<int>(arguments.number("--rings", options.rings));
  options.read_mode = arguments.has("--direct") ? ReadMode::direct : ReadMode::buffered;
  options.depth = static_cast<int>(arguments.number("--depth", options.depth));
  options.places = static_cast<std::size_t>(arguments.number("--places", 0));
  options.workers = static_cast<std::uint32_t>(arguments.number("--workers", options.workers));
  options.batch = static_cast<std::uint32_t>(arguments.number("--batch", options.batch));
  if (arguments.has("--uint8")) options.dtype = DType::uint8;
  options.json = arguments.text("--json", "");
  return options;
}

/// The rounds' ratios of one slice to the smaller of two others.
std::vector<double> ratios(const std::map<std::string, std::vector<Slice>>& rounds, const std::string& of, const std::vector<std::string>& to) {
  std::vector<double> result;
  for (std::size_t round = 0; round < rounds.at(of).size(); ++round) {
    double least = 0;
    for (const std::string& name : to) {
      const double rate = rounds.at(name)[round].samples_per_s;
      least = least == 0 ? rate : std::min(least, rate);
    }
    result.push_back(rounds.at(of)[round].samples_per_s / least);
  }
  return result;
}

int run(const Options& options) {
  PipelineBench bench(options);
  const auto wants = [&](std::string_view name) { return std::ranges::find(options.slices, name) != options.slices.end(); };
  if (wants("prep") || wants("cache") || wants("cached")) bench.fill();
  const double mean_bytes = static_cast<double>(bench.index().bytes()) / bench.index().size();
  fmt::print("{} samples of mean {:.0f} B; {}{}, {} in flight, {} workers, batch {}; {} rounds of {} s a slice\n", bench.index().size(), mean_bytes,
             options.uring ? "io_uring" : "threads", options.read_mode == ReadMode::direct ? ", direct" : "", options.depth, options.workers,
             options.batch, options.rounds, options.seconds);

  std::map<std::string, std::vector<Slice>> rounds;
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < options.slices.size(); ++i) {
      const std::string& name = options.slices[(i + static_cast<std::size_t>(round)) % options.slices.size()];
      rounds[name].push_back(bench.run(name));
    }
  }

  const auto values = [&](const std::string& name, double Slice::*member) {
    std::vector<double> list;
    for (const Slice& slice : rounds.at(name)) list.push_back(slice.*member);
    return list;
  };
  fmt::print("\n{:<8}{:>26}{:>26}{:>14}{:>16}{:>14}\n", "", "samples/s", "own CPU us a sample", "in the kernel", "machine's CPU", "from storage");
  std::vector<std::string> records;
  for (const std::string& name : options.slices) {
    fmt::print("{:<8}{:>26}{:>26}{:>14.1f}{:>16.1f}{:>14.3f}\n", name, spread(values(name, &Slice::samples_per_s), 0),
               spread(values(name, &Slice::own_cpu_us), 1), median(values(name, &Slice::kernel_us)), median(values(name, &Slice::machine_cpu_us)),
               median(values(name, &Slice::from_storage)));
    records.push_back(fmt::format("\"{}\": {{{}, {}, {}, {}, {}}}", name, json_list("samples_per_s", values(name, &Slice::samples_per_s)),
                                  json_list("own_cpu_us", values(name, &Slice::own_cpu_us)), json_list("kernel_us", values(name, &Slice::kernel_us)),
                                  json_list("machine_cpu_us", values(name, &Slice::machine_cpu_us)),
                                  json_list("from_storage", values(name, &Slice::from_storage))));
  }
  std::vector<std::string> ratio_records;
  const auto ratio = [&](const std::string& label, const std::string& of, const std::vector<std::string>& to) {
    if (!rounds.contains(of) || !std::ranges::all_of(to, [&](const std::string& name) { return rounds.contains(name); })) return;
    const std::vector<double> list = ratios(rounds, of, to);
    fmt::print("{:<24}{}\n", label, spread(list, 3));
    ratio_records.push_back(json_list(label, list));
  };
  fmt::print("\n");
  ratio("cached / min(P, C)", "cached", {"prep", "cache"});
  ratio("cold / min(F, P)", "cold", {"fetch", "prep"});
  ratio("cold / F", "cold", {"fetch"});
  if (!options.json.empty()) {
    write_text(options.json, fmt::format("{{\"mean_bytes\": {}, \"samples\": {}, \"slices\": {{{}}}, \"ratios\": {{{}}}}}\n", mean_bytes,
                                         bench.index().size(), fmt::join(records, ", "), fmt::join(ratio_records, ", ")));
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) {
  return dsanalyze::bench::run_program(argc, argv,
                                       [](const std::vector<std::string>& words) { return dsanalyze::bench::run(dsanalyze::bench::parse(words)); });
}
