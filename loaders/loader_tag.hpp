#pragma once

#include <cstdint>

#include "loader_work.hpp"

namespace dsanalyze {

/// The entry of work that waits in the shuffle window instead; its position is the window's place.
constexpr std::uint32_t in_window = (std::uint32_t{1} << 31) - 1;

/// A fetch's tag: which batch entry, which position, and whether the cache wants the bytes.
struct LoaderTag {
  std::uint32_t entry;
  std::uint32_t position;
  LoaderWork::Keep keep;
  [[nodiscard]] std::uint64_t packed() const {
    return (std::uint64_t{entry} << 33) | (std::uint64_t{position} << 1) | (keep == LoaderWork::Keep::in_cache ? 1U : 0U);
  }
  static LoaderTag unpack(std::uint64_t tag) {
    return {static_cast<std::uint32_t>(tag >> 33), static_cast<std::uint32_t>(tag >> 1),
            (tag & 1U) != 0 ? LoaderWork::Keep::in_cache : LoaderWork::Keep::no};
  }
};

}  // namespace dsanalyze
