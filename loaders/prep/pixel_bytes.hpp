#pragma once

// Plain, for the reason given in resize_kernels.hpp.

#include <cstddef>

namespace dsanalyze {

/// Of decoded and resized pixels: red, green, blue and one without meaning.
constexpr std::ptrdiff_t bytes_per_pixel = 4;

}  // namespace dsanalyze
