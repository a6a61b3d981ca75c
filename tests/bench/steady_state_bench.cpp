// What the loader takes from the system once it runs: allocations, page faults, memory.
//
//   steady_state_bench allocations [DATASET] [--samples N] [--json FILE]   calls of malloc in the whole process over N samples (1,000,000), by
//                                                                          configuration; those over real files need a DATASET, small enough to
//                                                                          stay in the page cache
//   steady_state_bench epochs DATASET [--epochs N] [--json FILE]           resident memory, epoch after epoch (100): MinIO at 35 %, real prep

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/events.hpp"
#include "base/system/files.hpp"
#include "bench_main.hpp"
#include "bench_support.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/server/server_scope.hpp"

// Every allocation of the process comes through here, whichever library asks: these definitions stand before the C library's, and operator new calls
// malloc. The memory is still the C library's, so free() stays its own.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};
std::atomic<int> first_depth{0};
std::array<void*, 32> first_frames;

void count() {
  if (!counting.load(std::memory_order_relaxed)) return;
  if (allocations.fetch_add(1, std::memory_order_relaxed) == 0) first_depth = ::backtrace(first_frames.data(), static_cast<int>(first_frames.size()));
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

namespace dsanalyze::bench {
namespace {

const Timing timing = system_timing();
constexpr double cache_share = 0.35;

struct SetUp {
  std::string name;
  std::shared_ptr<const DatasetIndex> index;
  std::unique_ptr<FetchEngine> engine;
  std::unique_ptr<PrepFactory> prep;
  CacheKind cache = CacheKind::none;
  double held_share = 0;
  std::uint64_t samples = 0;
};

struct Counted {
  std::string name;
  std::uint64_t samples = 0;
  std::uint64_t allocations = 0;
  std::uint64_t faults = 0;
  double seconds = 0;
};

std::uint64_t minor_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt);
}

FetchOptions fetch_options(const DatasetIndex* index) {
  FetchOptions fetch;
  fetch.capacity = 128;
  fetch.page_cache = PageCacheUse::keep;
  if (index != nullptr) fetch.largest_made_up = largest_sample(*index);
  return fetch;
}

std::unique_ptr<PrepFactory> null_prep() { return make_null_prep(TensorShape::images(DType::uint8, Layout::nhwc, 1, 1, 1, 1)); }

CacheOptions cache_options(const SetUp& set_up) {
  const auto bytes = static_cast<Bytes>(set_up.held_share * static_cast<double>(set_up.index->bytes()));
  return {set_up.cache, bytes, set_up.index->size(), set_up.index->bytes(), largest_sample(*set_up.index), 4096, 0};
}

std::unique_ptr<Loader> make_loader(const SetUp& set_up, RawCache& cache, std::uint32_t batch) {
  LoaderOptions options;
  options.batch_size = batch;
  options.workers = 2;
  options.start = {1, 0, 0, set_up.index->size(), {}};
  return std::make_unique<Loader>(Loader::Parts{set_up.index, set_up.engine.get(), &cache, set_up.prep.get(), {}, timing}, options);
}

Counted count_allocations(const SetUp& set_up) {
  ServerHolder server(cache_options(set_up), timing);
  const auto loader = make_loader(set_up, server.cache(), 256);
  std::uint64_t samples = 0;
  const std::uint64_t warm = std::max<std::uint64_t>(std::uint64_t{3} * set_up.index->size(), set_up.samples / 4);
  while (samples < warm) take_batch(*loader, timing, samples);
  allocations = 0;
  const std::uint64_t faults = minor_faults();
  const std::uint64_t from = samples;
  const Nanoseconds begun = timing.clock->now();
  counting = true;
  while (samples - from < set_up.samples) take_batch(*loader, timing, samples);
  counting = false;
  Counted counted{set_up.name, samples - from, allocations.load(), minor_faults() - faults, to_seconds(timing.clock->now() - begun)};
  loader->stop();
  fmt::print("{:<44}{:>12}{:>14}{:>12}{:>14.2f}\n", counted.name, counted.samples, counted.allocations, counted.faults,
             1e6 * counted.seconds / static_cast<double>(counted.samples));
  std::fflush(stdout);
  static std::vector<void*> shown;
  const std::vector<void*> frames(first_frames.begin(), first_frames.begin() + first_depth.load());
  if (counted.allocations > 0 && frames != shown) {
    fmt::print("  the first of them comes from:\n");
    std::fflush(stdout);
    ::backtrace_symbols_fd(frames.data(), static_cast<int>(frames.size()), STDOUT_FILENO);
    shown = frames;
  }
  return counted;
}

std::shared_ptr<const DatasetIndex> made_up_index() {
  DatasetSpec spec;
  spec.name = "null";
  spec.samples = 100'000;
  spec.mean_sample_bytes = 1000;
  return make_emulated_index(spec, 0, 1, 1);
}

void run_allocations(const Arguments& arguments) {
  std::array<void*, 2> frames;
  ::backtrace(frames.data(), 2);  // loads what it needs, before anything is counted
  const auto samples = static_cast<std::uint64_t>(arguments.number("--samples", 1e6));
  std::vector<SetUp> set_ups;
  const auto made_up = made_up_index();
  const auto null_engine = [&] { return make_null_engine(fetch_options(made_up.get()), timing); };
  set_ups.push_back({"null engine, null prep, no cache", made_up, null_engine(), null_prep(), CacheKind::none, 0, samples});
  set_ups.push_back({"null engine, null prep, MinIO hits", made_up, null_engine(), null_prep(), CacheKind::minio, 1, samples});
  set_ups.push_back({"null engine, null prep, MinIO at 35 %", made_up, null_engine(), null_prep(), CacheKind::minio, cache_share, samples});
  set_ups.push_back({"null engine, null prep, LRU at 35 %", made_up, null_engine(), null_prep(), CacheKind::lru, cache_share, samples});
  if (arguments.positional.size() > 1) {
    const auto index = open_dataset(arguments.positional[1], {}, null_events(), {});
    set_ups.push_back(
        {"threads on files, null prep", index, make_thread_engine(index, fetch_options(nullptr), timing), null_prep(), CacheKind::none, 0, samples});
    if (uring_support().usable) {
      set_ups.push_back({"io_uring on files, null prep", index, make_uring_engine(index, fetch_options(nullptr), timing), null_prep(),
                         CacheKind::none, 0, samples});
    }
    set_ups.push_back({"threads on files, real prep (libjpeg's own)", index, make_thread_engine(index, fetch_options(nullptr), timing),
                       make_image_prep({}), CacheKind::none, 0, samples / 50});
  }
  fmt::print("{:<44}{:>12}{:>14}{:>12}{:>14}\n", "", "samples", "allocations", "faults", "us a sample");
  std::vector<std::string> records;
  for (const SetUp& set_up : set_ups) {
    const Counted counted = count_allocations(set_up);
    records.push_back(fmt::format(R"({{"set_up": "{}", "samples": {}, "allocations": {}, "faults": {}, "seconds": {}}})", counted.name,
                                  counted.samples, counted.allocations, counted.faults, counted.seconds));
  }
  if (arguments.has("--json")) write_text(arguments.text("--json", ""), fmt::format("[{}]\n", fmt::join(records, ",\n ")));
}

/// "VmRSS:" and the like, of this process, bytes.
Bytes status_bytes(std::string_view name) {
  const std::string status = read_file("/proc/self/status");
  const std::size_t at = status.find(name);
  return at == std::string::npos ? 0 : std::stoull(status.substr(at + name.size())) * 1024;
}

void run_epochs(const Arguments& arguments) {
  if (arguments.positional.size() < 2) throw UsageError("steady_state_bench epochs DATASET");
  const auto index = open_dataset(arguments.positional[1], {}, null_events(), {});
  const auto epochs = static_cast<std::uint64_t>(arguments.number("--epochs", 100));
  const SetUp set_up{"", index, make_thread_engine(index, fetch_options(nullptr), timing), make_image_prep({}), CacheKind::minio, cache_share, 0};
  ServerHolder server(cache_options(set_up), timing);
  const auto loader = make_loader(set_up, server.cache(), 32);
  std::vector<double> resident;
  std::uint64_t samples = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    while (samples < (epoch + 1) * index->size()) take_batch(*loader, timing, samples);
    resident.push_back(static_cast<double>(status_bytes("VmRSS:")));
  }
  loader->stop();
  const std::size_t warm = resident.size() / 10;
  const double growth = resident.back() - resident[warm];
  fmt::print("{} samples, {} epochs: resident {:.1f} MiB after epoch {}, {:.1f} MiB at the end, growth {:.0f} KiB; peak {:.1f} MiB\n", index->size(),
             epochs, resident[warm] / (1 << 20), warm + 1, resident.back() / (1 << 20), growth / 1024,
             static_cast<double>(status_bytes("VmHWM:")) / (1 << 20));
  if (arguments.has("--json"))
    write_text(arguments.text("--json", ""), fmt::format("{{{}, \"growth_bytes\": {}}}\n", json_list("resident_bytes", resident), growth));
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(words, {"--samples", "--epochs", "--json"});
  const std::string mode = arguments.positional.empty() ? "" : arguments.positional[0];
  if (mode == "allocations") {
    run_allocations(arguments);
  } else if (mode == "epochs") {
    run_epochs(arguments);
  } else {
    fmt::print(stderr, "usage: steady_state_bench allocations [DATASET] [--samples N] | epochs DATASET [--epochs N] [--json FILE]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze::bench

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::bench::run); }
