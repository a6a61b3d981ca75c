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

/// A fetch's tag: whose it is, which batch entry, which position, and whether the cache wants the bytes. Of an engine that serves one loader after
/// another, reads that one left behind come to the next: the generation tells them apart.
struct LoaderTag {
  static constexpr unsigned generation_bits = 15, entry_bits = 20, position_bits = 28;
  static constexpr std::uint32_t generations = std::uint32_t{1} << generation_bits;
  static constexpr std::uint32_t entries = std::uint32_t{1} << entry_bits;
  static constexpr std::uint32_t positions = std::uint32_t{1} << position_bits;

  std::uint32_t generation;
  std::uint32_t entry;
  std::uint32_t position;
  LoaderWork::Keep keep;
  [[nodiscard]] std::uint64_t packed() const {
    const std::uint64_t place = (((std::uint64_t{generation} << entry_bits) | entry) << position_bits) | position;
    return place << 1 | (keep == LoaderWork::Keep::in_cache ? 1U : 0U);
  }
  static LoaderTag unpack(std::uint64_t tag) {
    const std::uint64_t place = tag >> 1;
    return {static_cast<std::uint32_t>(place >> (entry_bits + position_bits)), static_cast<std::uint32_t>(place >> position_bits) % entries,
            static_cast<std::uint32_t>(place) % positions, (tag & 1U) != 0 ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no};
  }
};
static_assert(LoaderTag::generation_bits + LoaderTag::entry_bits + LoaderTag::position_bits + 1 == 64);

/// The entry of work that waits in the shuffle window instead; its position is the window's place.
constexpr std::uint32_t in_window = LoaderTag::entries - 1;

}  // namespace dsanalyze
