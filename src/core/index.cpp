#include "index.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t most_entries = std::numeric_limits<std::uint32_t>::max();

/// Memory that a built index's tables look into.
struct OwnedTables {
  std::vector<IndexRecord> records;
  std::vector<std::uint64_t> path_offsets;
  std::string paths;
};

template <typename Number>
void append_number(std::string& out, Number number) {
  for (std::size_t byte = 0; byte < sizeof(Number); ++byte) out.push_back(static_cast<char>((number >> (8 * byte)) & 0xff));
}

/// XXH3-128 in hex over path, size, label (and offset, unless 0) of the records that `record_at` names; hashed in pieces of some KiB, as most paths
/// are short.
template <typename RecordAt>
std::string digest_of(const DatasetIndex& index, std::size_t count, const RecordAt& record_at) {
  constexpr std::size_t piece = std::size_t{1} << 15;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::string buffer;
  for (std::size_t sample = 0; sample < count; ++sample) {
    const IndexRecord record = record_at(sample);
    buffer.append(index.file_path(record.file));
    buffer.push_back('\0');
    append_number(buffer, record.length);
    append_number(buffer, record.label);
    if (record.offset != 0) append_number(buffer, record.offset);
    if (buffer.size() < piece) continue;
    XXH3_128bits_update(state.get(), buffer.data(), buffer.size());
    buffer.clear();
  }
  XXH3_128bits_update(state.get(), buffer.data(), buffer.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

DatasetIndex::DatasetIndex(Tables tables, Facts facts, std::shared_ptr<const void> owner)
    : m_tables(std::move(tables)), m_facts(std::move(facts)), m_owner(std::move(owner)) {
  for (const IndexRecord& record : m_tables.records) m_bytes += record.length;
}

std::string_view DatasetIndex::file_path(std::uint32_t file) const {
  if (file >= file_count()) return {};
  const std::uint64_t first = m_tables.path_offsets[file];
  return m_tables.paths.substr(first, m_tables.path_offsets[file + 1] - first);
}

std::uint32_t DatasetIndexBuilder::add_file(std::string_view relative_path) {
  if (m_path_offsets.size() > most_entries) throw Error("the dataset has more than 4,294,967,294 files; an index holds no more: split it");
  m_paths.append(relative_path);
  m_path_offsets.push_back(m_paths.size());
  return static_cast<std::uint32_t>(m_path_offsets.size() - 2);
}

std::uint32_t DatasetIndexBuilder::add_label(const std::string& name) {
  m_labels.push_back(name);
  return static_cast<std::uint32_t>(m_labels.size() - 1);
}

std::shared_ptr<const DatasetIndex> DatasetIndexBuilder::build(DatasetIndex::Facts facts) && {
  if (m_records.size() > most_entries) throw Error("the dataset has more than 4,294,967,295 samples; an index holds no more: split it");
  auto owned = std::make_shared<OwnedTables>();
  owned->records = std::move(m_records);
  owned->path_offsets = std::move(m_path_offsets);
  owned->paths = std::move(m_paths);
  const DatasetIndex::Tables tables{owned->records, owned->path_offsets, owned->paths, std::move(m_labels)};
  const DatasetIndex draft(tables, {}, owned);
  if (facts.total_samples == 0) facts.total_samples = draft.size();
  if (facts.total_bytes == 0) facts.total_bytes = draft.bytes();
  if (facts.digest.empty()) facts.digest = dataset_digest(draft);
  return std::make_shared<const DatasetIndex>(tables, std::move(facts), std::move(owned));
}

std::shared_ptr<const DatasetIndex> subset_index(const DatasetIndex& index, std::span<const SampleId> samples) {
  DatasetIndexBuilder builder;
  for (const std::string& label : index.labels()) builder.add_label(label);
  std::unordered_map<std::uint32_t, std::uint32_t> new_number;
  for (const SampleId sample : samples) {
    IndexRecord record = index[sample];
    const auto [place, is_new] = new_number.try_emplace(record.file, 0);
    if (is_new) place->second = builder.add_file(index.file_path(record.file));
    record.file = place->second;
    builder.add_sample(record);
  }
  DatasetIndex::Facts facts = index.facts();
  facts.digest = "sampled:" + digest_of(index, samples.size(), [&](std::size_t place) { return index[samples[place]]; });
  return std::move(builder).build(std::move(facts));
}

std::string dataset_digest(const DatasetIndex& index) {
  return digest_of(index, index.size(), [&](std::size_t sample) { return index.records()[sample]; });
}

std::uint64_t largest_sample(const DatasetIndex& index) {
  std::uint64_t largest = 0;
  for (const IndexRecord& record : index.records()) largest = std::max(largest, record.length);
  return largest;
}

void SampleSetDigest::add(SampleId id) {
  m_sum += mix(id);
  ++m_count;
}

std::string SampleSetDigest::text() const { return fmt::format("{}-{:016x}", m_count, m_sum); }

SampleSetDigest SampleSetDigest::parse(std::string_view text) {
  SampleSetDigest digest;
  const std::size_t dash = std::min(text.find('-'), text.size());
  const char* const end = text.data() + text.size();
  const auto count = std::from_chars(text.data(), text.data() + dash, digest.m_count);
  const auto sum =
      dash < text.size() ? std::from_chars(text.data() + dash + 1, end, digest.m_sum, 16) : std::from_chars_result{end, std::errc::invalid_argument};
  const bool right = count.ec == std::errc() && count.ptr == text.data() + dash && sum.ec == std::errc() && sum.ptr == end;
  if (!right || digest.text() != text) throw UsageError(fmt::format("found '{}', expected a digest of samples: COUNT-HEX", text));
  return digest;
}

}  // namespace dsanalyze
