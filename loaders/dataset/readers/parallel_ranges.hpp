#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

namespace dsanalyze {

/// Calls body(first, last) for pieces of at most `piece` items that cover [0, count) once each, on up to `threads` threads (the caller's is one).
/// An exception ends the work; the one of the lowest piece that failed is thrown again here. Throws Interrupted when a stop is requested.
void parallel_ranges(std::size_t count, std::size_t piece, int threads, const std::stop_token& stop,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace dsanalyze
