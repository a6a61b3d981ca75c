#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsanalyze/core/index.hpp"

namespace dsanalyze {

/// Reads a sample's bytes, outside of the data path. Returns the cause when they cannot be had, else "". Threads: any.
std::string read_sample_bytes(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes);

/// Why these bytes of an image file cannot be decoded; "" when every pixel can. `pixels` receives how many there are. Threads: one an object.
class ImageChecker {
 public:
  ImageChecker();
  ~ImageChecker();
  ImageChecker(const ImageChecker&) = delete;
  ImageChecker& operator=(const ImageChecker&) = delete;
  std::string check(const std::vector<std::byte>& bytes, std::uint64_t& pixels);

 private:
  struct Decoder;
  std::unique_ptr<Decoder> m_decoder;
};

}  // namespace dsanalyze
