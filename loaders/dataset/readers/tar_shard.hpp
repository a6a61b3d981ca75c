#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "dataset_source.hpp"
#include "file_window.hpp"
#include "label_table.hpp"
#include "member_keys.hpp"

namespace dsanalyze {

enum class TarSampleKind : std::uint8_t { image, array };

/// A sample of a tar shard: its data member's bytes (of an array: those behind the .npy header) and the number in its label member.
struct TarSample {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  SampleLabel label;
  TarSampleKind kind = TarSampleKind::image;
};

/// How much is read of what lies behind an archive's end, where only zeros may lie.
enum class BehindEnd : std::uint8_t {
  probed,  ///< all of the first MiB; of more, its begin, its end and places between
  all
};

/// What is not as it should be with the shard as a file; the samples before it stay.
struct TarDamage {
  std::string code;  ///< of a Finding: "tar-torn", "tar-damaged", "tar-joined", "tar-zero-tail", "tar-without-members"
  std::string text;  ///< "ends within the data of 000012.jpg (at offset 40960)"
};

/// How many members have which extension (lower-case), of the first few extensions: what a message offers where none fits.
struct ExtensionCount {
  static constexpr std::size_t max_extensions = 32;
  std::map<std::string, std::uint64_t> members;

  void add(const std::string& extension, std::uint64_t count = 1) {
    if (members.size() < max_extensions || members.contains(extension)) members[extension] += count;
  }
};

/// One shard in WebDataset's layout, as its headers tell.
struct TarShard {
  std::vector<TarSample> samples;         ///< in file order
  std::optional<ArrayDescription> array;  ///< of the samples that are arrays; all have the same
  std::optional<TarDamage> damage;
  NamedCount keys_without_data;
  NamedCount keys_repeated;  ///< that come again whole: a sample each time
  NamedCount labels_unreadable;
  NamedCount links;
  NamedCount other_members;  ///< devices, names without a dot
  ExtensionCount extensions;
  std::uint64_t labelled = 0;  ///< keys with a label member
  std::uint64_t bytes = 0;     ///< of the file
  std::int64_t changed_nanoseconds = 0;
  std::uint64_t inode = 0;
};

/// Reads the headers (and labels), not the data. A torn sample is there with a length that goes past the file's end, so that fetching it fails.
/// `name` is the shard's in messages. Throws Error naming shard and cause: no tar; a compressed one; members of a sample that are not side by side;
/// two members of a sample with one extension, or that could both be its data; sparse members; arrays of different kinds. Threads: any, one shard
/// each.
TarShard scan_tar_shard(const std::filesystem::path& file, const std::string& name, const MemberKeys& keys, BehindEnd behind_end,
                        const std::stop_token& stop);

/// A member's name as WebDataset takes it apart: the key goes up to the first dot of the last component. Both are empty where there is no key.
struct TarMemberName {
  std::string_view key;
  std::string_view extension;  ///< all behind that dot
};
TarMemberName split_member_name(std::string_view name);

/// Whether WebDataset keeps members of this name for itself: "__meta__", and what lies below a folder of such a name.
bool is_about_the_shard(std::string_view name);

/// The name of the member whose data hold [offset, offset + length); "" when no header before it says so. Reads the file; throws Error when it
/// cannot.
std::string tar_member_at(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t length);

/// "gzip, zstd ..." when the bytes begin a compressed file, with the command that undoes it ('{}' stands for the file); both empty when not.
struct Compression {
  std::string_view name;
  std::string_view command;
};
Compression compression_of_bytes(std::string_view first_bytes);

/// Where a byte lies behind the archive's end at `end` that is not zero; nothing where none was found. Archives may be followed by any number of
/// zeros. BehindEnd::all finds the first such byte; holes of the file are not read. Throws Error naming path and cause, Interrupted on a stop.
std::optional<std::uint64_t> find_nonzero_behind(FileWindow& window, std::uint64_t end, BehindEnd behind_end, const std::stop_token& stop);

}  // namespace dsanalyze
