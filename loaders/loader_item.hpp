#pragma once

#include <cstdint>
#include <span>

#include "core/batch.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/fetch/fetch_engine.hpp"

namespace dsanalyze {

/// One sample whose bytes are there (or whose fetch failed), on its way to a worker.
struct LoaderWork {
  enum class Keep : std::uint8_t { no, in_cache };

  CacheLookup hit;
  std::span<const std::byte> bytes;  ///< of a miss, in `buffer`
  FetchBuffer buffer;
  Status status;
  Keep keep = Keep::no;  ///< the cache awaits these bytes
  std::uint32_t entry = 0;
  std::uint32_t position = 0;
  SampleId sample = 0;
  Nanoseconds ready = 0;
};

}  // namespace dsanalyze
