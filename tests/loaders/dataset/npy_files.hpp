#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loaders/dataset/readers/npy_header.hpp"

namespace dsanalyze::testing {

using Shape = std::vector<std::uint64_t>;

/// The bytes of a .npy file.
inline std::string npy_array(const std::string& dtype, const Shape& shape, const std::string& data) { return make_npy_header(dtype, shape) + data; }

}  // namespace dsanalyze::testing
