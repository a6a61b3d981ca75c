#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "base/text/units.hpp"
#include "core/index.hpp"

namespace dsanalyze {

enum class ConvertFormat { folder, tar, npy };
/// The order in which samples lie in what is written. Random: a permutation by the seed, so that reading shards one after another is not reading
/// class after class.
enum class ConvertOrder { index, random };
enum class BadSamples { fail, skip };

struct ConvertOptions {
  ConvertFormat format = ConvertFormat::tar;
  Bytes shard_bytes = Bytes{256} << 20;              ///< tar: a shard ends before the sample that would take it past this
  std::optional<ConvertOrder> order = std::nullopt;  ///< without: random for tar, index for npy
  int side = 224;                                    ///< npy: images become side x side pixels (shorter side resized, middle cut out), RGB, 8 bits
  BadSamples bad = BadSamples::fail;
  std::uint64_t seed = 1;
  int threads = 4;
};

struct ConvertReport {
  struct Failure {
    std::string path;  ///< as sample_name()
    std::string cause;
  };
  std::uint64_t samples = 0;      ///< written
  Bytes bytes = 0;                ///< of their data, as written
  std::uint64_t files = 0;        ///< that hold samples
  std::uint64_t failed = 0;       ///< left out with BadSamples::skip
  std::vector<Failure> failures;  ///< the first hundred
  double seconds = 0;
};

/// Writes the dataset anew in another format, into the folder `destination`, which must not be there or be empty.
/// - folder: each sample a file under its own name below the folder of its label's name.
/// - tar: shard-000000.tar ... in WebDataset's layout, KEY.jpg and KEY.cls side by side; label names in labels.txt. The same seed gives the same
/// bytes.
/// - npy: samples.npy, samples.labels.npy, label names in samples.labels.txt.
/// All is written to a hidden folder beside the destination, which gets its name when it is whole: an error or an interrupt leaves nothing, a kill
/// leaves the hidden folder, which the next conversion to the same place removes. Reads several samples at a time on `threads` threads. Throws
/// UsageError for a source that is in that format already or emulated; Error naming path and cause: destination not empty, inside the source, not
/// writable; too little room; a sample that cannot be read or (to npy) decoded, or whose name leads out of the destination, unless they are skipped.
ConvertReport convert_dataset(const DatasetIndex& source, const std::filesystem::path& destination, const ConvertOptions& options, EventSink& events,
                              const std::stop_token& stop);

}  // namespace dsanalyze
