#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.hpp"

/// What the fuzzer calls, and what replay.cpp calls for each file of a corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dsanalyze::fuzz {

/// Ends the process unless the claim holds: the fuzzer then keeps the input.
inline void require(bool holds, std::string_view claim) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(claim.size()), claim.data());
  std::abort();
}

/// Whether `work` came to its end; false when it refused its input by an Error with a message. Any other exception escapes and ends the process.
template <typename Work>
bool accepts(const Work& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    require(*error.what() != '\0', "an error has a message");
    return false;
  }
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const std::byte*>(data), size}; }
inline std::string_view text_of(const std::uint8_t* data, std::size_t size) { return {reinterpret_cast<const char*>(data), size}; }

}  // namespace dsanalyze::fuzz
