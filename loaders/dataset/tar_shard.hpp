#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "dsanalyze/core/index.hpp"
#include "named_count.hpp"

namespace dsanalyze {

enum class TarSampleKind : std::uint8_t { image, array };

/// A sample of a tar shard: its data member's bytes (of an array: those behind the .npy header) and the number in its .cls member.
struct TarSample {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::optional<std::int64_t> label;
  TarSampleKind kind = TarSampleKind::image;
};

/// What is not as it should be with the shard as a file; the samples before it stay.
struct TarDamage {
  std::string code;  ///< of a Finding: "tar-torn", "tar-damaged", "tar-joined"
  std::string text;  ///< "ends within the data of 000012.jpg (at offset 40960)"
};

/// One shard in WebDataset's layout, as its headers tell.
struct TarShard {
  std::vector<TarSample> samples;         ///< in file order
  std::optional<ArrayDescription> array;  ///< of the samples that are arrays; all have the same
  std::optional<TarDamage> damage;
  NamedCount keys_without_data;
  NamedCount keys_with_several_data;
  NamedCount labels_unreadable;
  NamedCount links;
  NamedCount other_members;  ///< devices, names without a dot
  std::uint64_t bytes = 0;   ///< of the file
  std::int64_t modified_nanoseconds = 0;
};

/// Reads the headers (and labels), not the data. A torn sample is there with a length that goes past the file's end, so that fetching it fails.
/// `name` is the shard's in messages. Throws Error naming shard and cause: no tar; a compressed one; members of one key that are not side by side;
/// sparse members; arrays of different kinds. Threads: any, one shard each.
TarShard scan_tar_shard(const std::filesystem::path& file, const std::string& name, const std::stop_token& stop);

/// A member's name as WebDataset takes it apart: the key goes up to the first dot of the last component. Both are empty where there is no key.
struct TarMemberName {
  std::string_view key;
  std::string_view extension;  ///< all behind that dot
};
TarMemberName split_member_name(std::string_view name);

/// The name of the member whose data hold [offset, offset + length); "" when no header before it says so. Reads the file; throws Error when it
/// cannot.
std::string tar_member_at(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t length);

/// "gzip, zstd ..." when the bytes begin a compressed file, with the command that undoes it ('{}' stands for the file); both empty when not.
struct Compression {
  std::string_view name;
  std::string_view command;
};
Compression compression_of_bytes(std::string_view first_bytes);

}  // namespace dsanalyze
