#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/text/units.hpp"
#include "core/index.hpp"

namespace dsanalyze {

/// What a sample may take of memory while every worker thread holds one, now. A file with a hole claims any size.
Bytes max_sample_bytes();

/// Reads a sample's bytes, outside of the data path. Returns the cause when they cannot be obtained, else "": also for a sample that would take more
/// of memory than each worker thread can have. Threads: any.
std::string read_sample_bytes(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes);
/// Why the sample cannot be used although it can be read: it has no valid label. "" for those that have one.
std::string label_cause(const DatasetIndex& index, SampleId sample);
/// Reads the sample's bytes as read_sample_bytes() does; then the cause is that of its label.
std::string read_usable_sample(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes);

/// Given a sample's next bytes; false ends the reading.
using TakePiece = std::function<bool(std::span<const std::byte>)>;
/// The same piece by piece, for samples of any size; `bytes` holds one piece. Threads: any.
std::string read_sample_pieces(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes, const TakePiece& take);
/// Some of a sample's bytes. Requires part.first + part.count <= the sample's length.
struct SamplePart {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};
/// Past the page cache where the filesystem has direct I/O: it stays as it was.
std::string read_sample_part(const DatasetIndex& index, SampleId sample, const SamplePart& part, std::vector<std::byte>& bytes);

/// Why these bytes of an image file cannot be decoded; "" when every pixel can. `pixels` receives how many there are. Threads: one an object.
class ImageChecker {
 public:
  ImageChecker();
  ~ImageChecker();
  ImageChecker(const ImageChecker&) = delete;
  ImageChecker& operator=(const ImageChecker&) = delete;
  std::string check(const std::vector<std::byte>& bytes, std::uint64_t& pixels);
  /// The first damage that libjpeg patched in the image checked last, which decodes nevertheless, in its words; "" for none.
  [[nodiscard]] const std::string& patched_damage() const;

 private:
  struct Decoder;
  std::unique_ptr<Decoder> m_decoder;
};

}  // namespace dsanalyze
