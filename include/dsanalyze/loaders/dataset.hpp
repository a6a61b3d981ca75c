#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dsanalyze/base/events.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/core/index.hpp"
#include "dsanalyze/core/workload.hpp"

namespace dsanalyze {

/// How to open a dataset.
struct OpenOptions {
  /// Files whose sizes may be asked for. When asking for all would take longer (measured on the first thousand, in random order), a random
  /// subset is asked instead and the index holds that subset alone: a folder of 1.28 M files on a slow filer is listed and sampled.
  double stat_budget_seconds = 10;
  /// At most this many samples in a sampled index.
  std::uint32_t sampled_samples = 50'000;
  std::uint64_t seed = 1;
  /// An index file to use (made by `dataset index`); without it the one in the user's cache directory is used if it is not older than the folder.
  std::optional<std::filesystem::path> index_file;
  int threads = 4;
};

/// Opens a dataset by its index file, or by looking at what is there:
/// - a folder of images (.jpg .jpeg .png .webp, in any case and mixture): each file is a sample, class sub-folders give labels, files directly in the
///   root have label 0;
/// - tar shards in WebDataset's layout: one .tar file, a folder that holds them (sub-folders too), or a brace range
/// ("/data/train-{000000..000146}.tar").
///   The members up to the first dot of whose base name is the same are a sample; they lie side by side. Its data are the first member with an image
///   extension or .npy; its label is the whole number in the .cls member (0 without). Samples come in byte order of the shards' paths, then as they
///   lie;
/// - NumPy arrays: one .npy file, whose rows are samples (labels from x.labels.npy beside x.npy, their names from x.labels.txt); or a folder of .npy
///   files, each a sample, all of one shape and type (a folder that holds samples.npy alone, as `dataset convert` makes it, counts as that file).
/// In a folder with several of these the one that nine in ten files have is read, with a finding that counts what is left out; otherwise it is an
/// Error. What the index found worth knowing (torn shards, samples without data or label) goes to `events` at each opening and stays in
/// Facts::findings. Throws Error that says what is there: no such path; unreadable (permission); empty; a format that is not read yet, by its name
/// and with the way to convert it ("TFRecord: not yet; convert with ..."), never "empty dataset" when files are there; Interrupted on a stop.
std::shared_ptr<const DatasetIndex> open_dataset(const std::filesystem::path& path, const OpenOptions& options, EventSink& events,
                                                 const std::stop_token& stop);

/// A dataset that exists by its figures alone; sizes are log-normal, a pure function of (seed, sample). `samples` 0 means the spec's own count;
/// `scale` divides the bytes of a sample (at least 1 byte stays).
std::shared_ptr<const DatasetIndex> make_emulated_index(const DatasetSpec& spec, std::uint64_t samples, double scale, std::uint64_t seed);

/// Writes the index to a file: header (magic, version, digest, counts), records, path table, labels; atomically. Opens by mapping: no parsing, so
/// 1.28 M samples open in well under 0.1 s.
void write_index_file(const DatasetIndex& index, const std::filesystem::path& file);
/// Throws Error naming file and cause (not an index, other version, cut off, offsets out of bounds). Hostile files are refused, not read past.
std::shared_ptr<const DatasetIndex> read_index_file(const std::filesystem::path& file);
/// The index in memory that other processes of this server can map; nobody can change it any more. Throws Error without the memory.
MemorySegment share_index(const DatasetIndex& index);
/// The index that another process shares: mapped, not copied. Throws Error as read_index_file() does.
std::shared_ptr<const DatasetIndex> attach_index(FileDescriptor shared);
/// Where the user's index of this dataset lives: <user cache>/index/<name>-<hash of the absolute path>.dsidx
std::filesystem::path default_index_file(const std::filesystem::path& path);

/// What a message calls a sample: "class/0001.jpg" of a folder, "train-000003.tar: 000123.jpg (offset 1536)" of a tar shard, "x.npy: row 17" of an
/// array. May read the shard's header before the sample. Never throws for what it reads. Threads: any.
std::string sample_name(const DatasetIndex& index, SampleId sample);

/// What `dataset verify` found.
struct VerifyReport {
  struct Failure {
    std::string path;  ///< as sample_name()
    std::string cause;
  };
  std::uint64_t samples = 0;
  Bytes bytes = 0;
  std::uint64_t pixels = 0;
  std::uint64_t failed = 0;
  std::vector<Failure> failures;       ///< the first hundred
  std::vector<Failure> damaged_files;  ///< shards that are torn or whose headers are damaged, whatever their samples
  std::string content_digest;          ///< XXH3-128 over every sample's bytes in index order (sum of per-sample digests, order-independent)
  double seconds = 0;
};
/// Reads every sample and decodes images fully, on `threads` threads; reads the headers of tar shards anew.
VerifyReport verify_dataset(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop);

}  // namespace dsanalyze
