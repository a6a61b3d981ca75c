#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/units.hpp"

namespace dsanalyze {

/// Where a configured number comes from. Nothing without a source is shipped.
enum class Provenance { measured, paper, derived, assumed };
constexpr std::array<const char*, 4> names_of(Provenance /*type*/) { return {"measured", "paper", "derived", "assumed"}; }
std::string provenance_name(Provenance provenance);

struct SourcedNumber {
  double value = 0;
  Provenance provenance = Provenance::assumed;
  std::string source;  ///< paper and figure, document, or the arithmetic for derived
};

/// What prep does to one image. The defaults are the training transform of ImageNet classifiers: random-resized-crop, flip, normalise.
struct ImagePrep {
  int crop_size = 224;                                ///< output is crop_size x crop_size, 3 channels
  std::array<double, 2> scale{0.08, 1.0};             ///< crop area as a share of the image's
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  ///< crop width / height
  double flip_probability = 0.5;
  std::array<double, 3> mean{0.485, 0.456, 0.406};  ///< subtracted after scaling to [0, 1]; float32 output only
  std::array<double, 3> deviation{0.229, 0.224, 0.225};

  /// Throws UsageError naming the field.
  void validate() const;
};

/// Kinds of prep task that a workload may name; only image_classification runs for real today, all can be emulated.
enum class PrepTaskKind { image_classification, object_detection, audio_classification };
constexpr std::array<const char*, 3> names_of(PrepTaskKind /*type*/) { return {"image_classification", "object_detection", "audio_classification"}; }

/// A network and its prep task [DS-Analyzer, Table 1].
struct Workload {
  std::string name;
  std::string description;
  std::string dataset;  ///< name in configs/datasets that the rates were taken with
  PrepTaskKind task = PrepTaskKind::image_classification;
  ImagePrep image_prep;     ///< for image tasks
  std::string torchvision;  ///< the network's name in torchvision.models; empty: it is none of those
  int batch_size = 256;     ///< per accelerator
  /// Ingestion rate of ONE accelerator by kind ("v100", "1080ti", "a100", ...), samples/s.
  std::map<std::string, SourcedNumber> accelerator_rates;
  /// Prep rate of ONE physical core, samples/s, of the loader that the source used.
  std::optional<SourcedNumber> prep_rate_per_core;
};

/// A server: what profile and whatif need to stand in for it [DS-Analyzer, Table 2].
struct StorageSpec {
  std::string name;
  SourcedNumber bandwidth_bytes_per_s;    ///< of a long sequential or deeply queued read
  SourcedNumber request_latency_seconds;  ///< a request's fixed cost before its transfer
  int queue_depth = 32;                   ///< requests whose fixed costs overlap
};

struct Server {
  std::string name;
  std::string description;
  std::string accelerator;  ///< kind, key of Workload::accelerator_rates
  int accelerators = 8;
  int cores = 24;
  Bytes memory_bytes = 0;
  Bytes cache_bytes = 0;  ///< what of the memory can hold the dataset
  StorageSpec storage;
  double network_bytes_per_s = 0;
  std::string source;  ///< of each number but storage's, which carry their own
};

/// A dataset by its figures, for emulation.
struct DatasetSpec {
  std::string name;
  std::string description;
  std::uint64_t samples = 0;
  Bytes mean_sample_bytes = 0;
  double sample_bytes_deviation = 0;  ///< of a log-normal distribution of sizes, as a share of the mean
  std::uint32_t labels = 1000;
  std::string source;

  [[nodiscard]] Bytes total_bytes() const { return samples * mean_sample_bytes; }
};

// Readers of configs/*/NAME.json. `text` is the file's content, `source` its path for messages. Throw UsageError naming file and JSON pointer.
Workload parse_workload(std::string_view text, const std::string& source);
/// "prep" of a workload file, and back.
std::string to_json(const ImagePrep& prep);
ImagePrep image_prep_from_json(std::string_view text, const std::string& source);
Server parse_server(std::string_view text, const std::string& source);
StorageSpec parse_storage(std::string_view text, const std::string& source);
DatasetSpec parse_dataset_spec(std::string_view text, const std::string& source);

/// "530MB/s" (no latency) or a preset that `find` knows: what --storage emulated:X means. Presets: the storage of the servers, "ssd" and "hdd".
StorageSpec storage_from_bandwidth(double bytes_per_second);

}  // namespace dsanalyze
