#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "base/text/units.hpp"
#include "batch.hpp"

namespace dsanalyze {

/// Where a sample's bytes are, in every format: so many bytes at an offset of a file.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t file = 0;
};

/// Fixed record of the index file, 24 bytes, little-endian.
struct IndexRecord {
  /// Instead of a label: the sample has none although others have, or one that is no class. It fails wherever it is used.
  static constexpr std::uint32_t no_label = UINT32_MAX;

  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t file = 0;
  std::uint32_t label = 0;

  [[nodiscard]] Extent extent() const { return {offset, length, file}; }
  [[nodiscard]] bool has_label() const { return label != no_label; }
};
static_assert(sizeof(IndexRecord) == 24);

/// One sample of a dataset of arrays; all samples of a dataset have the same.
struct ArrayDescription {
  std::string dtype;                 ///< NumPy's: "<f4", "|u1"
  std::vector<std::uint64_t> shape;  ///< of one sample; empty for a single number
  Bytes sample_bytes = 0;
  bool operator==(const ArrayDescription&) const = default;
};

/// A dataset as the loader sees it: samples in index order, the files that hold them, the labels' names. Immutable. Threads: any.
/// The tables may be views of a mapped index file (loaders keep that alive through `owner`) or of memory.
class DatasetIndex {
 public:
  struct Tables {
    std::span<const IndexRecord> records;
    std::span<const std::uint64_t> path_offsets;  ///< files + 1 offsets into `paths`
    std::string_view paths;                       ///< relative to the root, concatenated
    std::vector<std::string> labels;
  };
  struct Facts {
    std::string root;                  ///< absolute folder that file paths are relative to, or "emulated:NAME"
    std::string source;                ///< what the user opened, absolute, when it is not the root: one file, or a brace range of shards
    std::string format;                ///< "folder", "tar", "npy", "emulated"
    std::uint64_t total_samples = 0;   ///< of the whole dataset; more than records when the index is a random subset
    Bytes total_bytes = 0;             ///< of the whole dataset; an estimate from the subset when `sizes_sampled`
    bool sizes_sampled = false;        ///< records are a random subset: only its files were asked for their size
    std::string digest;                ///< as dataset_digest(); "sampled:..." of a subset
    std::vector<std::string> skipped;  ///< files that are no samples of this format, at most a few names, for messages
    std::uint64_t skipped_count = 0;
    // What the index depends on; its reader declares it, and the index is current while all of it holds.
    /// The folders that were listed (relative; "" is the root) and when each had last changed.
    struct Folder {
      std::string path;
      std::int64_t changed_nanoseconds = 0;
    };
    std::vector<Folder> folders;
    /// The files that were looked into (shards, arrays, labels), as they were: places in them mean nothing once they change.
    struct File {
      std::string path;
      std::uint64_t bytes = 0;
      std::int64_t changed_nanoseconds = 0;
      std::uint64_t inode = 0;  ///< tells a file from another that took its name
      bool operator==(const File&) const = default;
    };
    std::vector<File> files;
    std::vector<std::string> absent;  ///< files that were not there and would be read if they were: labels
    std::string image_key;            ///< of tar shards: which members are used, as OpenOptions::keys; empty: the default
    std::string label_key;
    std::vector<Finding> findings;          ///< what a user of the dataset should know: torn shards, samples without label, what was left out
    std::optional<ArrayDescription> array;  ///< of formats whose samples are plain numbers ("npy")
  };

  DatasetIndex(Tables tables, Facts facts, std::shared_ptr<const void> owner);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(m_tables.records.size()); }
  [[nodiscard]] const IndexRecord& operator[](SampleId id) const { return m_tables.records[id]; }
  [[nodiscard]] std::span<const IndexRecord> records() const { return m_tables.records; }
  [[nodiscard]] std::uint32_t file_count() const {
    return static_cast<std::uint32_t>(m_tables.path_offsets.empty() ? 0 : m_tables.path_offsets.size() - 1);
  }
  [[nodiscard]] std::string_view file_path(std::uint32_t file) const;  ///< relative to facts().root
  [[nodiscard]] const std::vector<std::string>& labels() const { return m_tables.labels; }
  [[nodiscard]] const Facts& facts() const { return m_facts; }
  /// Bytes of the records here (of the subset, if it is one).
  [[nodiscard]] Bytes bytes() const { return m_bytes; }

 private:
  Tables m_tables;
  Facts m_facts;
  std::shared_ptr<const void> m_owner;
  Bytes m_bytes = 0;
};

/// Bytes of the largest sample; 0 of none.
std::uint64_t largest_sample(const DatasetIndex& index);

/// Builds the tables of a DatasetIndex in memory.
class DatasetIndexBuilder {
 public:
  std::uint32_t add_file(std::string_view relative_path);
  void add_sample(const IndexRecord& record) { m_records.push_back(record); }
  std::uint32_t add_label(const std::string& name);
  /// Facts left at 0 or empty that follow from the records (total_samples, total_bytes, digest) are filled in.
  std::shared_ptr<const DatasetIndex> build(DatasetIndex::Facts facts) &&;

 private:
  std::vector<IndexRecord> m_records;
  std::vector<std::uint64_t> m_path_offsets{0};
  std::string m_paths;
  std::vector<std::string> m_labels;
};

/// The subset of `index` with the given samples (in that order), its files renumbered; total facts are kept, digest becomes "sampled:...".
std::shared_ptr<const DatasetIndex> subset_index(const DatasetIndex& index, std::span<const SampleId> samples);
/// XXH3-128 over relative path, size and label of every sample in index order, in hex; and over its offset, where it is not the file's begin.
std::string dataset_digest(const DatasetIndex& index);

/// An order-independent digest of a set of samples: each sample's hash added up. Two epochs that used the same samples, once each, have the same.
class SampleSetDigest {
 public:
  void add(SampleId id);
  void add(const SampleSetDigest& other) {
    m_sum += other.m_sum;
    m_count += other.m_count;
  }
  [[nodiscard]] std::string text() const;  ///< "<count>-<hex>"
  /// Of text(). Throws UsageError for anything else.
  static SampleSetDigest parse(std::string_view text);
  bool operator==(const SampleSetDigest&) const = default;

 private:
  std::uint64_t m_sum = 0;
  std::uint64_t m_count = 0;
};

}  // namespace dsanalyze
