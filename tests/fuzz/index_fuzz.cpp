#include <xxhash.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "fuzz.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::fuzz {
namespace {

constexpr std::size_t header_bytes = 64;
constexpr std::size_t checksum_at = 48;

/// Bytes at an address that records may lie at, with the checksum that belongs to them, so that a mutation anywhere is not refused for that alone.
std::shared_ptr<std::vector<std::uint64_t>> with_right_checksum(std::span<const std::byte> bytes) {
  auto words = std::make_shared<std::vector<std::uint64_t>>((bytes.size() + 7) / 8);
  std::memcpy(words->data(), bytes.data(), bytes.size());
  if (bytes.size() < header_bytes) return words;
  auto* file = reinterpret_cast<char*>(words->data());
  std::memset(file + checksum_at, 0, 16);
  const XXH128_hash_t checksum = XXH3_128bits_withSeed(file + header_bytes, bytes.size() - header_bytes, XXH3_64bits(file, header_bytes));
  std::memcpy(file + checksum_at, &checksum.low64, 8);
  std::memcpy(file + checksum_at + 8, &checksum.high64, 8);
  return words;
}

std::shared_ptr<const DatasetIndex> parse(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  std::shared_ptr<const DatasetIndex> index;
  accepts([&] { index = parse_index_bytes(bytes, owner); });
  return index;
}

bool leads_out(std::string_view path) { return path.starts_with('/') || ("/" + std::string(path) + "/").find("/../") != std::string::npos; }

void check_index(const DatasetIndex& index) {
  require(index.size() > 0 && index.file_count() > 0, "an index has samples in files");
  for (const IndexRecord& record : index.records()) {
    require(record.file < index.file_count(), "a sample lies in a file of the index");
    require(!record.has_label() || record.label < index.labels().size() || (record.label == 0 && index.labels().empty()),
            "a sample's label is one of the index");
    require(record.offset + record.length >= record.offset, "a sample has an end");
    require(!index.facts().array || record.length == index.facts().array->sample_bytes, "a row has the array's size");
  }
  for (std::uint32_t file = 0; file < index.file_count(); ++file) {
    const std::string_view path = index.file_path(file);
    require(path.find('\0') == std::string_view::npos && !leads_out(path), "a path stays in its dataset");
  }
}

void check_round_trip(const DatasetIndex& index) {
  const std::string written = make_index_bytes(index);
  const auto copy = std::make_shared<std::vector<std::uint64_t>>((written.size() + 7) / 8);
  std::memcpy(copy->data(), written.data(), written.size());
  const auto again = parse(std::as_bytes(std::span(*copy)).first(written.size()), copy);
  require(again != nullptr, "an index that was read can be written and read");
  require(make_index_bytes(*again) == written, "and says the same");
  require(std::equal(index.records().begin(), index.records().end(), again->records().begin(), again->records().end(),
                     [](const IndexRecord& a, const IndexRecord& b) {
                       return a.offset == b.offset && a.length == b.length && a.file == b.file && a.label == b.label;
                     }),
          "its samples are the same");
  require(index.labels() == again->labels() && index.facts().root == again->facts().root && index.facts().digest == again->facts().digest &&
              index.facts().folders.size() == again->facts().folders.size() && index.facts().array == again->facts().array,
          "its facts are the same");
  require(dataset_digest(index) == dataset_digest(*again), "its digest is the same");
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze;
  using namespace dsanalyze::fuzz;
  if (size == 0) return 0;
  const auto as_it_is = std::make_shared<std::vector<std::uint64_t>>((size + 7) / 8);
  std::memcpy(as_it_is->data(), data, size);
  const bool is_good = parse(std::as_bytes(std::span(*as_it_is)).first(size), as_it_is) != nullptr;
  const auto mended = with_right_checksum(bytes_of(data, size));
  const auto index = parse(std::as_bytes(std::span(*mended)).first(size), mended);
  require(index || !is_good, "a right checksum makes nothing worse");
  if (!index) return 0;
  check_index(*index);
  check_round_trip(*index);
  return 0;
}
