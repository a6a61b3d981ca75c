// Cold fetch: samples of a dataset read from storage by the engines, in turn, nothing else done with them.
//
//   fetch_bench DATASET CONFIG... [--order random|sequential] [--samples N] [--rounds N] [--record BYTES] [--seed N]
//
// CONFIG is threads:DEPTH or uring:DEPTH, and after it any of xRINGS, +direct, +keep (pages stay in the page cache), +ahead (read-ahead, the default
// in sequential order), +off (none): threads:16  uring:16x2+direct. --record cuts every file of a folder into records of so many bytes, each a
// sample. The dataset's pages are dropped before each measurement, and the kernel's counters say how much came from the device ("read", over the
// samples' bytes). Ratios are to the first configuration of the same round. The last line is JSON.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "bench_main.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/fetch/storage_meter.hpp"

namespace dsanalyze {
namespace {

const Timing timing = system_timing();

struct Config {
  std::string name;
  bool uring = false;
  FetchOptions options;
};

struct Settings {
  std::string dataset;
  std::vector<Config> configs;
  bool sequential = false;
  std::uint64_t samples = 4000;
  int rounds = 5;
  std::uint64_t record = 0;
  std::uint64_t seed = 1;
};

struct Measured {
  std::vector<double> samples_per_s, bytes_per_s, read, ratios;
};

Config parse_config(const std::string& text, bool sequential) {
  Config config;
  config.name = text;
  config.options.read_ahead = sequential ? ReadAhead::sequential : ReadAhead::off;
  const auto colon = text.find(':');
  const std::string engine = text.substr(0, colon);
  if (colon == std::string::npos || (engine != "threads" && engine != "uring")) throw UsageError("not a configuration: " + text);
  config.uring = engine == "uring";
  std::size_t used = 0;
  config.options.concurrency = std::stoi(text.substr(colon + 1), &used);
  std::string rest = text.substr(colon + 1 + used);
  if (rest.starts_with('x')) {
    config.options.rings = std::stoi(rest.substr(1), &used);
    rest = rest.substr(1 + used);
  }
  while (!rest.empty()) {
    const std::string flag = rest.substr(0, rest.find('+', 1));
    rest = rest.substr(flag.size());
    if (flag == "+direct") {
      config.options.read_mode = ReadMode::direct;
    } else if (flag == "+keep") {
      config.options.page_cache = PageCacheUse::keep;
    } else if (flag == "+ahead") {
      config.options.read_ahead = ReadAhead::sequential;
    } else if (flag == "+off") {
      config.options.read_ahead = ReadAhead::off;
    } else {
      throw UsageError("not a flag of a configuration: " + flag);
    }
  }
  config.options.capacity = 2 * static_cast<std::size_t>(config.options.concurrency) + FetchEngine::largest_group;
  return config;
}

/// Every file of the index cut into records; what is left at a file's end is no sample.
std::shared_ptr<const DatasetIndex> cut(const DatasetIndex& index, std::uint64_t record) {
  DatasetIndexBuilder builder;
  for (std::uint32_t file = 0; file < index.file_count(); ++file) {
    const std::string path(index.file_path(file));
    const std::uint32_t number = builder.add_file(path);
    const std::uint64_t size = std::filesystem::file_size(std::filesystem::path(index.facts().root) / path);
    for (std::uint64_t offset = 0; offset + record <= size; offset += record) builder.add_sample({offset, record, number, 0});
  }
  DatasetIndex::Facts facts;
  facts.root = index.facts().root;
  facts.format = "records";
  return std::move(builder).build(facts);
}

std::vector<SampleId> order_of(const DatasetIndex& index, const Settings& settings, RandomStream& random) {
  std::vector<SampleId> order(index.size());
  std::iota(order.begin(), order.end(), 0U);
  const std::size_t count = std::min<std::size_t>(settings.samples, order.size());
  if (settings.sequential) {
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(random.next() % order.size()), order.end());
  } else {
    for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + random.next() % (order.size() - i)]);
  }
  order.resize(count);
  return order;
}

/// Seconds from the first request to the last completion.
double fetch(FetchEngine& engine, const DatasetIndex& index, const std::vector<SampleId>& order) {
  const Nanoseconds begun = timing.clock->now();
  std::array<FetchRequest, FetchEngine::largest_group> group;
  std::array<FetchCompletion, FetchEngine::largest_group> done;
  std::array<FetchBuffer, FetchEngine::largest_group> buffers;
  for (std::size_t next = 0, completed = 0; completed < order.size();) {
    const std::size_t count = std::min({engine.free_places(), group.size(), order.size() - next});
    for (std::size_t i = 0; i < count; ++i) group[i] = {next + i, order[next + i], index[order[next + i]].extent()};
    if (count > 0 && engine.submit(std::span(group).first(count)).ok()) next += count;
    const std::size_t reaped = engine.reap(done, timing.clock->after(30));
    if (reaped == 0) throw Error("nothing completed in 30 s");
    for (std::size_t i = 0; i < reaped; ++i) {
      if (!done[i].status.ok()) throw Error(fmt::format("{}: {}", index.file_path(index[done[i].sample].file), status_name(done[i].status.code)));
      buffers[i] = done[i].buffer;
    }
    engine.release(std::span(buffers).first(reaped));
    completed += reaped;
  }
  return to_seconds(timing.clock->now() - begun);
}

void measure(const std::shared_ptr<const DatasetIndex>& index, const Settings& settings, const Config& config, RandomStream& random, Measured& into) {
  drop_from_page_cache(*index, {});
  const auto order = order_of(*index, settings, random);
  Bytes bytes = 0;
  for (const SampleId sample : order) bytes += (*index)[sample].length;
  const auto engine = config.uring ? make_uring_engine(index, config.options, timing) : make_thread_engine(index, config.options, timing);
  const StorageMeter meter(index->facts().root);
  const std::optional<Bytes> before = meter.process_bytes();
  const double seconds = fetch(*engine, *index, order);
  const std::optional<Bytes> after = meter.process_bytes();
  into.samples_per_s.push_back(static_cast<double>(order.size()) / seconds);
  into.bytes_per_s.push_back(static_cast<double>(bytes) / seconds);
  into.read.push_back(before && after ? static_cast<double>(*after - *before) / static_cast<double>(bytes) : 0);
}

Settings parse(const std::vector<std::string>& arguments) {
  Settings settings;
  std::vector<std::string> configs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with("--") && i + 1 < arguments.size()) {
      const std::string& value = arguments[++i];
      if (argument == "--order" && (value == "random" || value == "sequential")) {
        settings.sequential = value == "sequential";
      } else if (argument == "--samples") {
        settings.samples = std::stoull(value);
      } else if (argument == "--rounds") {
        settings.rounds = std::stoi(value);
      } else if (argument == "--record") {
        settings.record = std::stoull(value);
      } else if (argument == "--seed") {
        settings.seed = std::stoull(value);
      } else {
        throw UsageError(fmt::format("not an option: {} {}", argument, value));
      }
    } else if (settings.dataset.empty()) {
      settings.dataset = argument;
    } else {
      configs.push_back(argument);
    }
  }
  if (configs.empty()) throw UsageError("usage: fetch_bench DATASET CONFIG... (see the head of fetch_bench.cpp)");
  for (const std::string& config : configs) settings.configs.push_back(parse_config(config, settings.sequential));
  return settings;
}

int run(const std::vector<std::string>& arguments) {
  const Settings settings = parse(arguments);
  auto index = open_dataset(settings.dataset, {}, null_events(), {});
  if (settings.record > 0) index = cut(*index, settings.record);
  std::vector<Measured> measured(settings.configs.size());
  RandomStream random(settings.seed);
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      measure(index, settings, settings.configs[i], random, measured[i]);
      measured[i].ratios.push_back(measured[i].bytes_per_s.back() / measured[0].bytes_per_s.back());
    }
  }
  nlohmann::json lines = nlohmann::json::array();
  fmt::print("{:<24}{:>12}{:>10}{:>8}{:>8}\n", "configuration", "samples/s", "MB/s", "read", "ratio");
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Measured& m = measured[i];
    fmt::print("{:<24}{:>12.0f}{:>10.0f}{:>8.3f}{:>8.3f}\n", settings.configs[i].name, median(m.samples_per_s), median(m.bytes_per_s) / 1e6,
               median(m.read), median(m.ratios));
    lines.push_back({{"configuration", settings.configs[i].name},
                     {"samples_per_s", median(m.samples_per_s)},
                     {"bytes_per_s", median(m.bytes_per_s)},
                     {"read_over_asked", median(m.read)},
                     {"ratio_to_first", median(m.ratios)}});
  }
  fmt::print("{}\n", lines.dump());
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int argc, char** argv) { return dsanalyze::bench::run_program(argc, argv, dsanalyze::run); }
