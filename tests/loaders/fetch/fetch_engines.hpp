#pragma once

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../dataset/made_dataset.hpp"
#include "loaders/fetch/fetch_engine.hpp"

namespace dsanalyze::testing {

/// An engine that reads real files, by name.
struct RealEngine {
  std::string name;
  std::unique_ptr<FetchEngine> (*make)(std::shared_ptr<const DatasetIndex>, const FetchOptions&, Timing);
  int rings = 1;

  std::unique_ptr<FetchEngine> operator()(std::shared_ptr<const DatasetIndex> index, FetchOptions options) const {
    options.rings = rings;
    return make(std::move(index), options, system_timing());
  }
};

/// Those that this machine allows: claims about engines hold for each.
inline std::vector<RealEngine> real_engines() {
  std::vector<RealEngine> engines{{"threads", make_thread_engine}};
  const IoSupport support = uring_support();
  if (support.usable) {
    engines.push_back({"io_uring", make_uring_engine});
    engines.push_back({"two rings", make_uring_engine, 2});
  } else {
    MESSAGE(support.reason);
  }
  return engines;
}

inline FetchOptions fetch_options(std::size_t capacity) {
  FetchOptions options;
  options.concurrency = 3;
  options.capacity = capacity;
  return options;
}

inline FetchRequest request_of(const DatasetIndex& index, SampleId sample) { return {sample, sample, index[sample].extent()}; }

/// Reaps until `count` completions came or ten seconds passed.
inline std::vector<FetchCompletion> reap_all(FetchEngine& engine, std::size_t count) {
  std::vector<FetchCompletion> all;
  const Deadline deadline = system_timing().clock->after(10);
  std::array<FetchCompletion, 8> some;
  while (all.size() < count && system_timing().clock->now() < deadline.at) {
    const std::size_t n = engine.reap(some, deadline);
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return all;
}

/// What became of a sample.
struct Fetched {
  Status status;
  std::string bytes;
};

/// Fetches every sample of the index, as many at once as there are places, and gives every buffer back.
inline std::map<SampleId, Fetched> fetch_all(FetchEngine& engine, const DatasetIndex& index) {
  std::map<SampleId, Fetched> fetched;
  SampleId next = 0;
  while (fetched.size() < index.size()) {
    while (next < index.size()) {
      const FetchRequest request = request_of(index, next);
      if (!engine.submit({&request, 1}).ok()) break;
      ++next;
    }
    const auto some = reap_all(engine, 1);
    REQUIRE_MESSAGE(!some.empty(), "an engine owes completions");
    for (const FetchCompletion& completion : some) {
      REQUIRE(completion.tag == completion.sample);
      REQUIRE(fetched.emplace(completion.sample, Fetched{completion.status, text_of(completion.bytes)}).second);
      engine.release({&completion.buffer, 1});
    }
  }
  CHECK(engine.free_places() == engine.capacity());
  return fetched;
}

/// `bytes` that differ from place to place and from seed to seed.
inline std::string content_of(std::size_t bytes, std::size_t seed) {
  std::string content(bytes, '\0');
  for (std::size_t b = 0; b < bytes; ++b) content[b] = static_cast<char>((b * 31 + seed * 7 + b / 251) % 256);
  return content;
}

}  // namespace dsanalyze::testing
