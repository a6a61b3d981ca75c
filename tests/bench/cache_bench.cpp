// What the cache delivers, beside plain memory: C against memcpy of the same bytes in the same random order, and memory taken by a full cache.
//
//   cache_bench fetch  [--bytes GIB] [--rounds N] [--mean BYTES] [--json FILE]   objects through lookup, read, copy, release; interleaved with memcpy
//   cache_bench memory [--bytes GIB] [--mean BYTES]                  what a full cache of each kind takes over what it holds

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "base/system/shared_memory.hpp"
#include "bench_main.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze {
namespace {

const Timing timing = system_timing();
constexpr std::size_t group = 256;  // accesses in one lookup, as many as a large batch has
constexpr std::size_t ring_bytes = std::size_t{64} << 20;
constexpr std::size_t slices = 16;  // of a round: what else the machine does falls on both sides alike

struct Settings {
  double gibibytes = 2;
  std::uint32_t mean_bytes = 110'000;
  int rounds = 15;
  std::string json;
};

/// Objects of sizes from half to one and a half times the mean, one after the other in plain memory.
struct Objects {
  explicit Objects(const Settings& settings) {
    const auto wanted = static_cast<Bytes>(settings.gibibytes * static_cast<double>(Bytes{1} << 30));
    while (bytes < wanted) {
      const auto length = settings.mean_bytes / 2 + static_cast<std::uint32_t>(mix(7, lengths.size()) % settings.mean_bytes);
      offsets.push_back(bytes);
      lengths.push_back(length);
      bytes += (length + Bytes{63}) / 64 * 64;
      payload += length;
    }
    plain.reset(static_cast<std::byte*>(std::malloc(bytes)));
    if (plain == nullptr) throw Error("no memory for the plain copy");
    for (std::size_t i = 0; i < lengths.size(); ++i) std::memset(plain.get() + offsets[i], static_cast<int>(i * 31 + 7), lengths[i]);
  }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(lengths.size()); }
  [[nodiscard]] std::span<const std::byte> object(std::uint64_t key) const { return {plain.get() + offsets[key], lengths[key]}; }
  [[nodiscard]] CacheOptions options(CacheKind kind) const {
    return {kind, payload, count(), payload, *std::ranges::max_element(lengths), 16 * static_cast<std::uint32_t>(group), 0};
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::uint32_t> lengths;
  std::vector<Bytes> offsets;
  Bytes bytes = 0;  ///< with each object's room rounded up, as in a slab
  Bytes payload = 0;
  std::unique_ptr<std::byte, Free> plain;
};

void fill(RawCache& cache, const Objects& objects) {
  for (std::uint64_t key = 0; key < objects.count(); ++key) {
    const CacheAccess access{key, objects.lengths[key], 0, 0};
    CacheLookup lookup;
    cache.lookup({&access, 1}, {&lookup, 1});
    if (lookup.decision == CacheDecision::admit && !cache.store(key, objects.object(key)).ok()) throw Error("the cache does not keep an object");
  }
}

/// A destination of one thread: batches are written one after the other into a ring, so that it is memory, not a processor's cache.
class Ring {
 public:
  Ring() : m_memory(ring_bytes) {}
  std::span<std::byte> next(std::size_t bytes) {
    if (m_at + bytes > m_memory.size()) m_at = 0;
    const std::span<std::byte> place(m_memory.data() + m_at, bytes);
    m_at += (bytes + 63) / 64 * 64;
    return place;
  }

 private:
  std::vector<std::byte> m_memory;
  std::size_t m_at = 0;
};

struct Bench {
  const Objects& objects;
  std::vector<std::uint32_t> order;
  std::vector<Ring> rings{2};

  /// A thread's part of a slice of the order: its first object, and the one after its last.
  [[nodiscard]] std::pair<std::size_t, std::size_t> part(std::size_t slice, std::size_t thread, std::size_t threads) const {
    const std::size_t parts = slices * threads;
    const std::size_t number = slice * threads + thread;
    return {order.size() * number / parts, order.size() * (number + 1) / parts};
  }
  void memcpy_part(std::size_t first, std::size_t end, std::size_t thread) {
    for (std::size_t i = first; i < end; ++i) {
      const auto from = objects.object(order[i]);
      std::memcpy(rings[thread].next(from.size()).data(), from.data(), from.size());
    }
  }
  /// `turn` keeps lookups one at a time, as RawCache asks.
  void cache_part(RawCache& cache, std::mutex& turn, std::size_t first, std::size_t end, std::size_t thread) {
    std::array<CacheAccess, group> accesses{};
    std::array<CacheLookup, group> lookups{};
    for (std::size_t i = first; i < end;) {
      const std::size_t count = std::min(group, end - i);
      for (std::size_t k = 0; k < count; ++k) accesses[k] = {order[i + k], objects.lengths[order[i + k]], 0, 0};
      {
        const std::scoped_lock lock(turn);
        cache.lookup(std::span(accesses).first(count), std::span(lookups).first(count));
      }
      for (std::size_t k = 0; k < count; ++k) {
        if (lookups[k].decision != CacheDecision::hit) throw Error("an object is not in the cache");
        const std::span<std::byte> into = rings[thread].next(lookups[k].length);
        const auto bytes = cache.read(lookups[k], into);
        if (bytes.data() != into.data()) std::memcpy(into.data(), bytes.data(), bytes.size());
      }
      cache.release(std::span(lookups).first(count));
      i += count;
    }
  }
};

/// Seconds that `work(thread)` takes on so many threads.
double seconds_of(std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::atomic<bool> failed{false};
  const Nanoseconds begun = timing.clock->now();
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) {
      others.emplace_back([&, thread] {
        try {
          work(thread);
        } catch (const std::exception&) {
          failed = true;
        }
      });
    }
    work(0);
  }
  if (failed) throw Error("a thread failed");
  return to_seconds(timing.clock->now() - begun);
}

/// Nanoseconds that one access of a group takes to look up and release, without its bytes.
double lookup_nanoseconds(RawCache& cache, const Bench& bench) {
  std::array<CacheAccess, group> accesses{};
  std::array<CacheLookup, group> lookups{};
  const Nanoseconds begun = timing.clock->now();
  std::uint64_t done = 0;
  while (to_seconds(timing.clock->now() - begun) < 0.3) {
    for (std::size_t i = 0; i + group <= bench.order.size(); i += group) {
      for (std::size_t k = 0; k < group; ++k) accesses[k] = {bench.order[i + k], bench.objects.lengths[bench.order[i + k]], 0, 0};
      cache.lookup(accesses, lookups);
      cache.release(lookups);
      done += group;
    }
  }
  return 1e9 * to_seconds(timing.clock->now() - begun) / static_cast<double>(done);
}

/// Rounds over all objects, slice by slice by memcpy and from the cache in turn, the one or the other first.
void compare(RawCache& cache, const std::string& name, const Objects& objects, const Settings& settings, std::vector<std::string>& records) {
  std::mutex turn;
  for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
    Bench bench{objects, std::vector<std::uint32_t>(objects.count())};
    std::vector<double> ratios, rates, plain_rates;
    for (int round = -1; round < settings.rounds; ++round) {
      random_permutation(mix(11, ratios.size()), bench.order);
      double plain = 0, cached = 0;
      for (std::size_t step = 0; step < 2 * slices; ++step) {
        const std::size_t slice = step / 2;
        const bool from_cache = step % 2 == slice % 2;
        const double seconds = seconds_of(threads, [&](std::size_t thread) {
          const auto [first, end] = bench.part(slice, thread, threads);
          if (from_cache) {
            bench.cache_part(cache, turn, first, end, thread);
          } else {
            bench.memcpy_part(first, end, thread);
          }
        });
        (from_cache ? cached : plain) += seconds;
      }
      if (round < 0) continue;  // touches every page once
      ratios.push_back(plain / cached);
      rates.push_back(static_cast<double>(objects.payload) / cached / 1e9);
      plain_rates.push_back(static_cast<double>(objects.payload) / plain / 1e9);
    }
    const Estimate ratio = estimate_mean(ratios);
    const double lookup = lookup_nanoseconds(cache, bench);
    fmt::print("{:<22}{:>8}{:>10.1f}{:>10.1f}{:>9.3f}  ({:.3f} to {:.3f}){:>14.0f}\n", name, threads, median(rates), median(plain_rates),
               median(ratios), ratio.ci95.low, ratio.ci95.high, lookup);
    std::fflush(stdout);
    records.push_back(fmt::format(R"({{"cache": "{}", "threads": {}, "cache_gb_per_s": {:.3f}, "memcpy_gb_per_s": {:.3f}, "median_ratio": {:.4f}, )"
                                  R"("ratio_ci95": [{:.4f}, {:.4f}], "lookup_ns": {:.1f}}})",
                                  name, threads, median(rates), median(plain_rates), median(ratios), ratio.ci95.low, ratio.ci95.high, lookup));
  }
}

/// The same in another process that attached to the holder.
void compare_attached(ServerHolder& holder, const Objects& objects, const Settings& settings, std::vector<std::string>& records) {
  auto [mine, theirs] = socket_pair();
  std::array<int, 2> lines{};
  if (::pipe(lines.data()) != 0) throw Error("no pipe");
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    mine.reset();
    int status = 1;
    try {
      const auto server = attach_server(std::move(theirs), timing);
      std::vector<std::string> own;
      compare(server->cache(), "minio, attached", objects, settings, own);
      for (const std::string& record : own) {
        const std::string line = record + "\n";
        if (::write(lines[1], line.data(), line.size()) < 0) throw Error("the parent is gone");
      }
      status = 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "cache_bench: attached: {}\n", error.what());
    }
    ::_exit(status);
  }
  theirs.reset();
  ::close(lines[1]);
  holder.serve(std::move(mine));
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(lines[0], part.data(), part.size())) > 0;) text.append(part.data(), static_cast<std::size_t>(got));
  ::close(lines[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw Error("the attached process failed");
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) records.push_back(text.substr(at, text.find('\n', at) - at));
}

void fetch(const Settings& settings) {
  const Objects objects(settings);
  fmt::print("{} objects of mean {:.0f} B, {:.2f} GB; destination: a ring of {} MiB a thread\n\n", objects.count(),
             static_cast<double>(objects.payload) / objects.count(), static_cast<double>(objects.payload) / 1e9, ring_bytes >> 20);
  fmt::print("{:<22}{:>8}{:>10}{:>10}{:>9}  {:<18}{:>13}\n", "cache", "threads", "GB/s", "memcpy", "ratio", "(95 % of the mean)", "ns a lookup");
  std::vector<std::string> records;
  {
    ServerHolder holder(objects.options(CacheKind::minio), timing);
    fill(holder.cache(), objects);
    compare(holder.cache(), "minio", objects, settings, records);
    compare_attached(holder, objects, settings, records);
  }
  {
    ServerHolder holder(objects.options(CacheKind::lru), timing);
    fill(holder.cache(), objects);
    compare(holder.cache(), "lru, gathered", objects, settings, records);
  }
  if (settings.json.empty()) return;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(settings.json.c_str(), "w"), &std::fclose);
  if (file == nullptr) throw Error("cannot write " + settings.json);
  fmt::print(file.get(), "{{\"bytes\": {}, \"objects\": {}, \"rounds\": {}, \"results\": [\n  {}\n]}}\n", objects.payload, objects.count(),
             settings.rounds, fmt::join(records, ",\n  "));
}

/// This process's memory: private and shared pages that it has touched.
Bytes resident() {
  std::uint64_t virtual_pages = 0, resident_pages = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "r"), &std::fclose);
  if (file == nullptr || std::fscanf(file.get(), "%lu %lu", &virtual_pages, &resident_pages) != 2) throw Error("cannot read /proc/self/statm");
  return resident_pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

void memory(const Settings& settings) {
  fmt::print("{:<20}{:>12}{:>14}{:>14}{:>16}{:>20}\n", "cache, half of data", "capacity", "held", "memory", "memory / held", "memory / capacity");
  const auto capacity = static_cast<Bytes>(settings.gibibytes * static_cast<double>(Bytes{1} << 30));
  const auto length = [&](std::uint64_t key) { return settings.mean_bytes / 2 + static_cast<std::uint32_t>(mix(7, key) % settings.mean_bytes); };
  const auto samples = static_cast<std::uint32_t>(2 * capacity / settings.mean_bytes);
  Bytes dataset = 0;
  for (std::uint64_t key = 0; key < samples; ++key) dataset += length(key);
  const std::vector<std::byte> content(2 * std::size_t{settings.mean_bytes}, std::byte{3});
  std::vector<std::uint32_t> order(samples);
  for (const CacheKind kind : {CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
    const Bytes before = resident();
    ServerHolder holder({kind, capacity, samples, dataset, 2ULL * settings.mean_bytes, group, 0}, timing);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      random_permutation(epoch, order);
      for (const std::uint64_t key : order) {
        const CacheAccess access{key, length(key), 0, 0};
        CacheLookup lookup;
        holder.cache().lookup({&access, 1}, {&lookup, 1});
        if (lookup.decision == CacheDecision::admit && !holder.cache().store(key, std::span(content).first(access.bytes)).ok())
          throw Error("the cache does not keep an object");
        if (lookup.decision == CacheDecision::hit) holder.cache().release({&lookup, 1});
      }
    }
    const auto taken = static_cast<double>(resident() - before);
    const CacheTotals totals = holder.cache().totals();
    fmt::print("{:<20}{:>12}{:>14}{:>14}{:>16.4f}{:>20.4f}\n", cache_kind_name(kind), format_bytes(capacity), format_bytes(totals.bytes),
               format_bytes(static_cast<Bytes>(taken)), taken / static_cast<double>(totals.bytes), taken / static_cast<double>(capacity));
  }
}

int run(const std::vector<std::string>& arguments) {
  Settings settings;
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--bytes") settings.gibibytes = std::stod(arguments[i + 1]);
    if (arguments[i] == "--rounds") settings.rounds = std::stoi(arguments[i + 1]);
    if (arguments[i] == "--mean") settings.mean_bytes = static_cast<std::uint32_t>(std::stoul(arguments[i + 1]));
    if (arguments[i] == "--json") settings.json = arguments[i + 1];
  }
  if (!arguments.empty() && arguments[0] == "fetch") {
    fetch(settings);
  } else if (!arguments.empty() && arguments[0] == "memory") {
    memory(settings);
  } else {
    fmt::print(stderr, "usage: cache_bench fetch | memory [--bytes GIB] [--mean BYTES] [--rounds N] [--json FILE]\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
