#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "base/system/files.hpp"
#include "base/system/shared_memory.hpp"
#include "core/index.hpp"
#include "core/workload.hpp"

namespace dsanalyze {

/// Which members of tar shards are a sample's data and its label, as WebDataset names them: by extension, which is all that follows the first dot of
/// the name's last part ("x.coarse.cls": "coarse.cls"), in any case of the letters. Several are separated by ';', the preferred one first.
struct SampleKeys {
  std::string image;  ///< empty: jpg, jpeg, jpe, png, webp or npy, of which a sample has one
  std::string label;  ///< empty: cls; "none" in any dataset: no labels are read, and all samples have label 0
  [[nodiscard]] bool wants_labels() const { return label != "none"; }
  bool operator==(const SampleKeys&) const = default;
};

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
  SampleKeys keys;
};

/// Opens a dataset by its index file, or by looking at what is there:
/// - a folder of images (.jpg .jpeg .png .webp, in any case and mixture): each file is a sample. Labels are those of torchvision's ImageFolder: the
///   root's sub-folders in byte order, also those without samples. Files directly in the root have the label behind them (0 where there are none);
/// - tar shards in WebDataset's layout: one .tar file, a folder that holds them (sub-folders too), or a brace range
/// ("/data/train-{000000..000146}.tar").
///   Members side by side whose names are the same up to the first dot of the last part are a sample. Its data and its label are the members that
///   OpenOptions::keys name; the label is a whole number from 0 to 2147483647. Where no sample has a label, all have 0; where others have, a sample
///   without a valid one has IndexRecord::no_label, unless labels are not wanted (SampleKeys::label). Two members of a sample with one extension, and
///   two that could both be its data, are an Error that names them. Samples come in byte order of the shards' paths, then as they lie;
/// - NumPy arrays: one .npy file, whose rows are samples (labels from x.labels.npy beside x.npy, their names from x.labels.txt); or a folder of .npy
///   files, each a sample, all of one shape and type (a folder that holds samples.npy alone, as `dataset convert` makes it, counts as that file).
/// In a folder with several of these the one that nine in ten files have is read, with a finding that counts what is left out; otherwise it is an
/// Error. What the index found worth knowing (torn shards, samples without data or label) goes to `events` at each opening and stays in
/// Facts::findings. Throws Error that says what is there: no such path; unreadable (permission); empty; a format that is not read yet, by its name
/// and with the way to convert it ("TFRecord: not yet; convert with ..."), never "empty dataset" when files are there; Interrupted on a stop. Throws
/// UsageError for keys that are none, or for a dataset without members.
/// An index file is used while what it depends on is as it was: its folders; shards and arrays too, by size, inode and
/// the time of their last change (which, unlike the time of modification, no program can set back), and whether there are
/// files of labels. One that the user named is an Error when shards, arrays or labels changed, or when it was made with other keys; with changed
/// folders it is used, with a finding.
std::shared_ptr<const DatasetIndex> open_dataset(const std::filesystem::path& path, const OpenOptions& options, EventSink& events,
                                                 const std::stop_token& stop);

/// A dataset that exists by its figures alone; sizes are log-normal, a pure function of (seed, sample). `samples` 0 means the spec's own count;
/// `scale` divides the bytes of a sample (at least 1 byte stays).
std::shared_ptr<const DatasetIndex> make_emulated_index(const DatasetSpec& spec, std::uint64_t samples, double scale, std::uint64_t seed);

/// The index whose file has these bytes; the tables stay where they lie, and `owner` keeps them. Throws Error with the cause alone: not an index,
/// other version, cut off, damaged, offsets out of bounds, paths that lead out of the root, an address that is no multiple of 8.
std::shared_ptr<const DatasetIndex> parse_index_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
/// The bytes of the index's file.
std::string make_index_bytes(const DatasetIndex& index);
/// Writes the index to a file: header (magic, version, digest, counts), records, path table, labels; atomically. Opens by mapping: no parsing, so
/// 1.28 M samples open in well under 0.1 s.
void write_index_file(const DatasetIndex& index, const std::filesystem::path& file);
/// Throws Error naming file and cause (not an index, other version, cut off, offsets out of bounds). Hostile files are refused, not read past.
std::shared_ptr<const DatasetIndex> read_index_file(const std::filesystem::path& file);
/// The index in memory that other processes of this server can map; no process can change it any more. Throws Error without the memory.
MemorySegment share_index(const DatasetIndex& index);
/// The index that another process shares: mapped, not copied. Throws Error as read_index_file() does.
std::shared_ptr<const DatasetIndex> attach_index(FileDescriptor shared);
/// Where the user's index of this dataset lives: <user cache>/index/<name>-<hash of the absolute path and the keys>.dsidx
std::filesystem::path default_index_file(const std::filesystem::path& path, const SampleKeys& keys = {});

/// Why a sample with IndexRecord::no_label fails.
constexpr const char* no_label_cause =
    "its label is missing, or is no whole number from 0 to 2147483647 (pass --label-key none to train without labels)";

/// What a message calls a sample: "class/0001.jpg" of a folder, "train-000003.tar: 000123.jpg (offset 1536)" of a tar shard, "x.npy: row 17" of an
/// array. May read the shard's header before the sample. Never throws for what it reads. Threads: any.
std::string sample_name(const DatasetIndex& index, SampleId sample);

/// What a few samples hold, in one digest: the index's own digest is over names, sizes and labels alone.
struct ContentSample {
  std::string digest;              ///< XXH3-128 over which samples were drawn and what they hold, in hex
  std::uint32_t samples = 0;       ///< that were drawn
  std::uint32_t unreadable = 0;    ///< of these; the digest tells them from readable ones
  std::string first_unreadable{};  ///< sample_name() and the cause
};
/// Draws at most 64 samples, by the seed and the index's digest, and reads them, at most 128 KiB of each. nullopt for an emulated dataset, which
/// holds nothing. Throws Error that names sample and cause where not one of them can be read, Interrupted when asked to stop.
std::optional<ContentSample> sample_contents(const DatasetIndex& index, std::uint64_t seed, const std::stop_token& stop);

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
  std::uint64_t patched = 0;           ///< JPEG images that decode only because libjpeg patched damaged image data; none of the failed
  std::vector<Failure> patches;        ///< the first hundred of them, the cause in libjpeg's words
  std::vector<Failure> damaged_files;  ///< shards that are torn or whose headers are damaged; files that changed after the index was made
  std::string content_digest;          ///< XXH3-128 over every sample's bytes in index order (sum of per-sample digests, order-independent)
  double seconds = 0;
};
/// Reads every sample and decodes images fully, on `threads` threads; reads the headers of tar shards anew.
VerifyReport verify_dataset(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop);

}  // namespace dsanalyze
