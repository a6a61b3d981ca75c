#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/system/files.hpp"
#include "fuzz.hpp"
#include "loaders/dataset/readers/tar_header.hpp"
#include "loaders/dataset/readers/tar_shard.hpp"

namespace dsanalyze::fuzz {
namespace {

constexpr std::size_t checksum_at = 148;
constexpr std::size_t checksum_bytes = 8;

/// A file in memory: shards are scanned by path.
class MemoryFile {
 public:
  MemoryFile() : m_descriptor(::memfd_create("shard", MFD_CLOEXEC)), m_path(fmt::format("/proc/self/fd/{}", m_descriptor.get())) {
    require(m_descriptor.valid(), "there is memory for a file");
  }
  void set(std::span<const std::byte> bytes) {
    require(::ftruncate(m_descriptor.get(), 0) == 0, "a file can be emptied");
    require(::pwrite(m_descriptor.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "a file can be written");
  }
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  FileDescriptor m_descriptor;
  std::filesystem::path m_path;
};

/// Gives every header that a reader comes by the right checksum, so that a mutation elsewhere in a header is not refused for that alone.
std::vector<std::byte> with_right_checksums(std::span<const std::byte> bytes) {
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  for (std::uint64_t at = 0; at + tar_block_bytes <= mended.size();) {
    const std::span<std::byte, tar_block_bytes> block(mended.data() + at, tar_block_bytes);
    TarHeader header;
    if (parse_tar_block(block, header) == TarBlockKind::zeros) break;
    std::memset(block.data() + checksum_at, ' ', checksum_bytes);
    unsigned sum = 0;
    for (const std::byte byte : block) sum += static_cast<unsigned>(byte);
    const std::string digits = fmt::format("{:06o}", sum);
    std::memcpy(block.data() + checksum_at, digits.c_str(), digits.size() + 1);
    if (parse_tar_block(block, header) != TarBlockKind::header) break;
    const auto next = tar_next_header(at + tar_block_bytes, tar_kind_has_data(header.kind) ? header.size : 0);
    if (!next) break;
    at = *next;
  }
  return mended;
}

void check_block(TarBlock block) {
  TarHeader header;
  if (parse_tar_block(block, header) != TarBlockKind::header) return;
  require(header.size <= INT64_MAX, "a size is below 2^63");
  require(header.name.size() <= 100 + 1 + 155 && header.link.size() <= 100, "names come from their fields");
  require(header.name.find('\0') == std::string::npos, "a name ends at its zero byte");
  const auto next = tar_next_header(tar_block_bytes, header.size);
  require(
      !next || (*next % tar_block_bytes == 0 && *next - tar_block_bytes >= header.size && *next - tar_block_bytes < header.size + tar_block_bytes),
      "the next header is on the first block behind the data");
}

std::string pax_record(std::string_view key, std::string_view value) {
  std::size_t length = key.size() + value.size() + 3;
  for (std::size_t before = 0; before != length;) {
    before = length;
    length = fmt::formatted_size("{} {}={}\n", before, key, value);
  }
  return fmt::format("{} {}={}\n", length, key, value);
}

void check_pax(std::span<const std::byte> bytes) {
  PaxRecords records;
  if (!parse_pax_records(bytes, records)) return;
  require(!records.size || *records.size <= INT64_MAX, "a size is below 2^63");
  std::string written;
  if (records.path) written += pax_record("path", *records.path);
  if (records.link) written += pax_record("linkpath", *records.link);
  if (records.size) written += pax_record("size", std::to_string(*records.size));
  PaxRecords again;
  require(parse_pax_records(std::as_bytes(std::span(written)), again), "records that were read can be written and read");
  require(again.path == records.path && again.link == records.link && again.size == records.size, "and say the same");
}

struct Member {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Where the members' data lie, by a walk that knows of sizes alone.
std::vector<Member> members_of(std::span<const std::byte> bytes) {
  std::vector<Member> members;
  std::optional<std::uint64_t> global;
  std::optional<std::uint64_t> size;
  for (std::uint64_t at = 0; at + tar_block_bytes <= bytes.size();) {
    TarHeader header;
    if (parse_tar_block(bytes.subspan(at).first<tar_block_bytes>(), header) != TarBlockKind::header) break;
    const std::uint64_t data = at + tar_block_bytes;
    const bool is_pax = header.kind == TarKind::pax || header.kind == TarKind::pax_global;
    const bool is_name = is_pax || header.kind == TarKind::long_name || header.kind == TarKind::long_link;
    std::uint64_t length = header.size;
    if (!is_name) length = tar_kind_has_data(header.kind) ? size.value_or(global.value_or(header.size)) : 0;
    const auto next = tar_next_header(data, length);
    if (!next) break;
    if (is_pax && *next <= bytes.size()) {
      PaxRecords records;
      if (!parse_pax_records(bytes.subspan(data, length), records)) break;
      std::optional<std::uint64_t>& noted = header.kind == TarKind::pax ? size : global;
      if (records.size) noted = records.size;
    }
    if (!is_name) {
      members.push_back({data, data + length});
      size.reset();
    }
    at = *next;
  }
  return members;
}

void check_samples(const TarShard& shard, std::span<const std::byte> bytes) {
  const std::size_t file_bytes = bytes.size();
  const std::vector<Member> members = members_of(bytes);
  require(shard.bytes == file_bytes, "a shard has its file's size");
  const bool is_torn = shard.damage && shard.damage->code == "tar-torn";
  std::uint64_t end = 0;
  for (std::size_t number = 0; number < shard.samples.size(); ++number) {
    const TarSample& sample = shard.samples[number];
    require(sample.offset >= end, "samples follow one another and do not overlap");
    require(sample.length <= INT64_MAX && sample.offset <= file_bytes, "a sample begins in its file");
    if (is_torn && number + 1 == shard.samples.size()) break;
    end = sample.offset + sample.length;
    require(end <= file_bytes, "a sample that is not torn lies in its file");
    const auto is_home = [&](const Member& member) { return member.begin <= sample.offset && end <= member.end; };
    require(std::any_of(members.begin(), members.end(), is_home), "a sample lies in one member");
    require(sample.kind == TarSampleKind::image || (shard.array && sample.length == shard.array->sample_bytes), "arrays have the size of all");
  }
}

void check_shard(std::span<const std::byte> bytes) {
  static MemoryFile file;
  file.set(bytes);
  TarShard shard;
  if (!accepts([&] { shard = scan_tar_shard(file.path(), "shard.tar", MemberKeys(), BehindEnd::probed, {}); })) return;
  check_samples(shard, bytes);
  for (const TarSample& sample : shard.samples) {
    if (sample.offset + sample.length > bytes.size()) continue;
    require(accepts([&] { tar_member_at(file.path(), sample.offset, sample.length); }), "a sample's name can be asked for");
  }
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  const auto bytes = bytes_of(data, size);
  for (std::size_t at = 0; at + dsanalyze::tar_block_bytes <= size; at += dsanalyze::tar_block_bytes) {
    check_block(bytes.subspan(at).first<dsanalyze::tar_block_bytes>());
  }
  check_pax(bytes);
  check_shard(bytes);
  check_shard(with_right_checksums(bytes));
  return 0;
}
