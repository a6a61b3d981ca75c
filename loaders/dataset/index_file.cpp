#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "dataset.hpp"
#include "loaders/dataset/readers/dataset_source.hpp"
#include "loaders/dataset/readers/member_keys.hpp"

// An index file: header, records, path offsets, facts, paths; each section follows the one before it without a gap, so that the counts in the header
// give every place. Records and path offsets are used where they are mapped.

namespace dsanalyze {
namespace {

static_assert(std::endian::native == std::endian::little, "index files are little-endian and used as they lie");

constexpr std::array<char, 8> index_magic{'D', 'S', 'I', 'D', 'X', '1', '\n', '\0'};
constexpr std::uint32_t index_version = 4;

struct IndexFileHeader {
  std::array<char, 8> magic = index_magic;
  std::uint32_t version = index_version;
  std::uint32_t record_count = 0;
  std::uint32_t file_count = 0;
  std::uint32_t label_count = 0;
  std::uint64_t facts_bytes = 0;
  std::uint64_t paths_bytes = 0;
  std::uint64_t reserved = 0;
  std::uint64_t checksum_low = 0;  ///< XXH3-128 of header (with the two checksums 0) and all sections
  std::uint64_t checksum_high = 0;
};
static_assert(sizeof(IndexFileHeader) == 64 && std::is_trivially_copyable_v<IndexFileHeader>);

template <typename Item>
std::string_view bytes_of(std::span<const Item> items) {
  return {reinterpret_cast<const char*>(items.data()), items.size_bytes()};
}

XXH128_hash_t checksum_of(IndexFileHeader header, std::string_view sections) {
  header.checksum_low = 0;
  header.checksum_high = 0;
  const std::uint64_t head = XXH3_64bits(&header, sizeof header);
  return XXH3_128bits_withSeed(sections.data(), sections.size(), head);
}

/// Texts and numbers of the facts, one after another.
class FactsWriter {
 public:
  void number(std::uint64_t value) { m_out.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    m_out.append(value);
  }
  [[nodiscard]] std::string finish() {
    m_out.append((8 - m_out.size() % 8) % 8, '\0');
    return std::move(m_out);
  }

 private:
  std::string m_out;
};

class FactsReader {
 public:
  explicit FactsReader(std::string_view in) : m_in(in) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }
  /// A count of entries that take at least `entry_bytes` each: a lie is caught before memory is taken for it.
  std::uint64_t count(std::uint64_t entry_bytes) {
    const std::uint64_t entries = number();
    if (entries > m_in.size() / entry_bytes) throw Error("its facts are cut off");
    return entries;
  }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > m_in.size()) throw Error("its facts are cut off");
    const std::string_view taken = m_in.substr(0, bytes);
    m_in.remove_prefix(bytes);
    return taken;
  }
  std::string_view m_in;
};

std::string write_facts(const DatasetIndex& index) {
  const DatasetIndex::Facts& facts = index.facts();
  FactsWriter writer;
  writer.text(facts.root);
  writer.text(facts.format);
  writer.text(facts.digest);
  writer.number(facts.total_samples);
  writer.number(facts.total_bytes);
  writer.number(facts.sizes_sampled ? 1 : 0);
  writer.number(facts.skipped_count);
  writer.number(facts.skipped.size());
  for (const std::string& name : facts.skipped) writer.text(name);
  writer.number(facts.folders.size());
  for (const auto& folder : facts.folders) {
    writer.text(folder.path);
    writer.number(static_cast<std::uint64_t>(folder.changed_nanoseconds));
  }
  writer.text(facts.source);
  writer.number(facts.files.size());
  for (const auto& one : facts.files) {
    writer.text(one.path);
    writer.number(one.bytes);
    writer.number(static_cast<std::uint64_t>(one.changed_nanoseconds));
    writer.number(one.inode);
  }
  writer.number(facts.absent.size());
  for (const std::string& name : facts.absent) writer.text(name);
  writer.text(facts.image_key);
  writer.text(facts.label_key);
  writer.number(facts.findings.size());
  for (const Finding& finding : facts.findings) {
    writer.text(finding.code);
    writer.number(static_cast<std::uint64_t>(finding.severity));
    writer.text(finding.message);
  }
  writer.number(facts.array ? 1 : 0);
  if (facts.array) {
    writer.text(facts.array->dtype);
    writer.number(facts.array->shape.size());
    for (const std::uint64_t length : facts.array->shape) writer.number(length);
    writer.number(facts.array->sample_bytes);
  }
  for (const std::string& label : index.labels()) writer.text(label);
  return writer.finish();
}

Finding read_finding(FactsReader& reader) {
  Finding finding;
  finding.code = reader.text();
  const std::uint64_t severity = reader.number();
  if (severity > static_cast<std::uint64_t>(Finding::Severity::error)) throw Error("a finding of its has no known severity");
  finding.severity = static_cast<Finding::Severity>(severity);
  finding.message = reader.text();
  return finding;
}

ArrayDescription read_array(FactsReader& reader) {
  ArrayDescription array;
  array.dtype = reader.text();
  array.shape.resize(reader.count(8));
  for (std::uint64_t& length : array.shape) length = reader.number();
  array.sample_bytes = reader.number();
  return array;
}

DatasetIndex::Facts read_facts(FactsReader& reader) {
  DatasetIndex::Facts facts;
  facts.root = reader.text();
  facts.format = reader.text();
  facts.digest = reader.text();
  facts.total_samples = reader.number();
  facts.total_bytes = reader.number();
  facts.sizes_sampled = reader.number() != 0;
  facts.skipped_count = reader.number();
  facts.skipped.resize(reader.count(8));
  for (std::string& name : facts.skipped) name = reader.text();
  facts.folders.resize(reader.count(16));
  for (auto& folder : facts.folders) {
    folder.path = reader.text();
    folder.changed_nanoseconds = static_cast<std::int64_t>(reader.number());
  }
  facts.source = reader.text();
  facts.files.resize(reader.count(32));
  for (auto& file : facts.files) {
    file.path = reader.text();
    file.bytes = reader.number();
    file.changed_nanoseconds = static_cast<std::int64_t>(reader.number());
    file.inode = reader.number();
  }
  facts.absent.resize(reader.count(8));
  for (std::string& name : facts.absent) name = reader.text();
  facts.image_key = reader.text();
  facts.label_key = reader.text();
  facts.findings.resize(reader.count(24));
  for (Finding& finding : facts.findings) finding = read_finding(reader);
  if (reader.number() != 0) facts.array = read_array(reader);
  return facts;
}

void check_records(std::span<const IndexRecord> records, const IndexFileHeader& header) {
  std::uint32_t most_file = 0;
  std::uint32_t most_label = 0;
  bool overflow = false;
  for (const IndexRecord& record : records) {
    most_file = std::max(most_file, record.file);
    if (record.has_label()) most_label = std::max(most_label, record.label);
    overflow |= record.offset + record.length < record.offset;
  }
  if (records.empty()) throw Error("it holds no samples");
  if (most_file >= header.file_count) throw Error(fmt::format("a sample lies in file {} of {}", most_file, header.file_count));
  if (most_label >= std::max(header.label_count, 1U)) throw Error(fmt::format("a sample has label {} of {}", most_label, header.label_count));
  if (overflow) throw Error("a sample lies beyond any file's end");
}

bool leads_out_of_the_root(std::string_view path) {
  if (path.starts_with('/')) return true;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

void check_paths(std::span<const std::uint64_t> offsets, std::string_view paths) {
  std::uint64_t before = 0;
  bool falling = offsets.front() != 0;
  for (const std::uint64_t offset : offsets) {
    falling |= offset < before;
    before = offset;
  }
  if (falling || before != paths.size()) throw Error("its table of paths is broken");
  if (paths.find('\0') != std::string_view::npos) throw Error("a path holds a zero byte");
  const bool may_climb = paths.find("..") != std::string_view::npos;
  for (std::size_t file = 0; file + 1 < offsets.size(); ++file) {
    if (offsets[file] < offsets[file + 1] && paths[offsets[file]] != '/' && !may_climb) continue;
    const std::string_view path = paths.substr(offsets[file], offsets[file + 1] - offsets[file]);
    if (leads_out_of_the_root(path)) throw Error(fmt::format("the path '{}' leads out of the dataset", path));
  }
}

/// Samples of an array dataset all have its size: prep copies so many bytes.
void check_array(const DatasetIndex::Facts& facts, std::span<const IndexRecord> records) {
  if (!facts.array) return;
  const bool same =
      std::all_of(records.begin(), records.end(), [&](const IndexRecord& record) { return record.length == facts.array->sample_bytes; });
  if (!same) throw Error("a sample has not the size of the array's rows");
}

}  // namespace

std::shared_ptr<const DatasetIndex> parse_index_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  IndexFileHeader header;
  if (rest.size() < sizeof header) throw Error("it is no index file (too short)");
  if (reinterpret_cast<std::uintptr_t>(rest.data()) % alignof(IndexRecord) != 0) throw Error("it lies at an address that is no multiple of 8");
  std::memcpy(&header, rest.data(), sizeof header);
  if (header.magic != index_magic) throw Error("it is no index file");
  if (header.version != index_version)
    throw Error(fmt::format("it has version {}, and this program reads version {}", header.version, index_version));
  rest.remove_prefix(sizeof header);

  const std::uint64_t record_bytes = std::uint64_t{header.record_count} * sizeof(IndexRecord);
  const std::uint64_t offset_bytes = (std::uint64_t{header.file_count} + 1) * sizeof(std::uint64_t);
  const std::uint64_t fixed_bytes = record_bytes + offset_bytes;
  if (fixed_bytes > rest.size() || header.facts_bytes > rest.size() - fixed_bytes ||
      header.paths_bytes != rest.size() - fixed_bytes - header.facts_bytes) {
    throw Error("it is cut off or longer than its header says");
  }
  const XXH128_hash_t checksum = checksum_of(header, rest);
  if (checksum.low64 != header.checksum_low || checksum.high64 != header.checksum_high) throw Error("its checksum is wrong: the file is damaged");

  const std::string_view facts_section = rest.substr(fixed_bytes, header.facts_bytes);
  DatasetIndex::Tables tables;
  tables.records = {reinterpret_cast<const IndexRecord*>(rest.data()), header.record_count};
  tables.path_offsets = {reinterpret_cast<const std::uint64_t*>(rest.data() + record_bytes), std::size_t{header.file_count} + 1};
  tables.paths = rest.substr(fixed_bytes + header.facts_bytes);
  check_records(tables.records, header);
  check_paths(tables.path_offsets, tables.paths);

  FactsReader reader(facts_section);
  DatasetIndex::Facts facts = read_facts(reader);
  if (header.label_count > facts_section.size() / sizeof(std::uint64_t)) throw Error("its facts are cut off");
  tables.labels.resize(header.label_count);
  for (std::string& label : tables.labels) label = reader.text();
  check_array(facts, tables.records);
  return std::make_shared<const DatasetIndex>(std::move(tables), std::move(facts), std::move(owner));
}

std::string make_index_bytes(const DatasetIndex& index) {
  std::vector<std::uint64_t> offsets{0};
  std::string paths;
  for (std::uint32_t number = 0; number < index.file_count(); ++number) {
    paths.append(index.file_path(number));
    offsets.push_back(paths.size());
  }
  const std::string facts = write_facts(index);
  IndexFileHeader header;
  header.record_count = index.size();
  header.file_count = index.file_count();
  header.label_count = static_cast<std::uint32_t>(index.labels().size());
  header.facts_bytes = facts.size();
  header.paths_bytes = paths.size();

  std::string content(sizeof header, '\0');
  content.reserve(sizeof header + index.records().size_bytes() + offsets.size() * sizeof(std::uint64_t) + facts.size() + paths.size());
  content.append(bytes_of(index.records()));
  content.append(bytes_of(std::span<const std::uint64_t>(offsets)));
  content.append(facts);
  content.append(paths);
  const XXH128_hash_t checksum = checksum_of(header, std::string_view(content).substr(sizeof header));
  header.checksum_low = checksum.low64;
  header.checksum_high = checksum.high64;
  std::memcpy(content.data(), &header, sizeof header);
  return content;
}

void write_index_file(const DatasetIndex& index, const std::filesystem::path& file) {
  std::error_code failure;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failure);
  if (failure) throw_errno("cannot create the folder", file.parent_path().string(), failure.value());
  write_file_atomically(file, make_index_bytes(index));
}

std::shared_ptr<const DatasetIndex> read_index_file(const std::filesystem::path& file) {
  auto mapped = std::make_shared<const MappedFile>(file);
  try {
    const std::string_view content = mapped->view();
    return parse_index_bytes(std::as_bytes(std::span(content)), std::move(mapped));
  } catch (const Error& error) {
    throw Error("cannot use the index file " + file.string() + ": " + error.what() + "; make it anew with `dsanalyze dataset index`");
  }
}

MemorySegment share_index(const DatasetIndex& index) {
  const std::string content = make_index_bytes(index);
  MemorySegment segment = MemorySegment::create("dataset index", content.size(), HugePages::never);
  std::memcpy(segment.data(), content.data(), content.size());
  segment.forbid_future_writers();
  return segment;
}

std::shared_ptr<const DatasetIndex> attach_index(FileDescriptor shared) {
  const auto mapped = std::make_shared<const MemorySegment>(MemorySegment::attach(std::move(shared), Access::read_only, sizeof(IndexFileHeader)));
  try {
    return parse_index_bytes(mapped->span(), mapped);
  } catch (const Error& error) {
    throw Error(std::string("cannot use the index that another process shares: ") + error.what() + "; are both programs of the same version?");
  }
}

std::filesystem::path default_index_file(const std::filesystem::path& root, const SampleKeys& keys) {
  std::string whole = absolute_name(root);
  const std::string name = std::filesystem::path(whole).filename().string();
  const SampleKeys given = MemberKeys(keys).given();
  if (given != SampleKeys{}) whole += fmt::format("\n{}\n{}", given.image, given.label);
  return user_cache_directory() / "index" /
         fmt::format("{}-{:016x}.dsidx", name.empty() ? "root" : name.substr(0, 100), XXH3_64bits(whole.data(), whole.size()));
}

}  // namespace dsanalyze
