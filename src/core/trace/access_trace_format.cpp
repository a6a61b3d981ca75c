#include "access_trace_format.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <new>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

struct Field {
  const std::string& file;
  std::size_t offset;

  void require(bool holds, const std::string& found, std::string_view expected) const {
    if (!holds) throw Error(fmt::format("{}: at byte {}: found {}, expected {}", file, offset, found, expected));
  }
};

/// Up to the zeros; nullopt for what is no text, or has something behind the zeros.
std::optional<std::string> digest_of(const TraceFileHeader& file) {
  const char* const end = file.digest + most_digest_characters;
  const char* const last = std::find(file.digest, end, '\0');
  const bool printable = std::all_of(file.digest, last, [](char c) { return c > ' ' && c < 0x7f; });
  const bool padded = std::all_of(last, end, [](char c) { return c == '\0'; });
  if (!printable || !padded) return std::nullopt;
  return std::string(static_cast<const char*>(file.digest), last);
}

bool is_cost(double seconds) { return std::isfinite(seconds) && seconds >= 0; }

}  // namespace

TraceFileHeader packed_header(const AccessTraceHeader& header) {
  TraceFileHeader file{};
  std::memcpy(file.magic, trace_magic, sizeof file.magic);
  file.version = trace_version;
  file.record_bytes = sizeof(TraceFileRecord);
  file.samples = header.samples;
  file.dataset_bytes = header.dataset_bytes;
  file.jobs = header.jobs;
  file.policy = static_cast<std::uint32_t>(header.cache.policy);
  file.capacity = header.cache.capacity;
  file.seconds_per_request = header.storage_cost.seconds_per_request;
  file.seconds_per_byte = header.storage_cost.seconds_per_byte;
  file.least_priority = header.cache.least_priority;
  std::memcpy(file.digest, header.digest.data(), std::min(header.digest.size(), most_digest_characters));
  return file;
}

AccessTraceHeader unpacked_header(const TraceFileHeader& file, const std::string& name) {
  const auto at = [&name](std::size_t offset) { return Field{name, offset}; };
  at(0).require(std::memcmp(file.magic, trace_magic, sizeof file.magic) == 0, "other bytes",
                "\"dsatrace\": is it a trace that `dsanalyze profile --trace` wrote?");
  at(offsetof(TraceFileHeader, version))
      .require(file.version == trace_version, fmt::format("version {}", file.version), fmt::format("version {}", trace_version));
  at(offsetof(TraceFileHeader, record_bytes))
      .require(file.record_bytes == sizeof(TraceFileRecord), fmt::format("{} bytes a record", file.record_bytes), "16");
  at(offsetof(TraceFileHeader, samples))
      .require(file.samples > 0 && file.samples <= most_trace_samples, fmt::format("{} samples", file.samples), "1 to 4294967294");
  at(offsetof(TraceFileHeader, dataset_bytes))
      .require(file.dataset_bytes <= most_trace_bytes, fmt::format("a dataset of {} bytes", file.dataset_bytes), "at most 2^62");
  at(offsetof(TraceFileHeader, jobs)).require(file.jobs > 0 && file.jobs <= most_replay_jobs, fmt::format("{} jobs", file.jobs), "1 to 1024");
  at(offsetof(TraceFileHeader, policy))
      .require(file.policy < replay_policy_names().size(), fmt::format("cache policy number {}", file.policy), "a known one");
  at(offsetof(TraceFileHeader, seconds_per_request))
      .require(is_cost(file.seconds_per_request) && is_cost(file.seconds_per_byte),
               fmt::format("storage costs of {} and {} s", file.seconds_per_request, file.seconds_per_byte), "0 or more");
  at(offsetof(TraceFileHeader, least_priority))
      .require(is_cost(file.least_priority), fmt::format("a least priority of {}", file.least_priority), "0 or more");
  at(offsetof(TraceFileHeader, reserved)).require(file.reserved == 0, fmt::format("{}", file.reserved), "0");
  const std::optional<std::string> digest = digest_of(file);
  at(offsetof(TraceFileHeader, digest)).require(digest.has_value(), "a digest that is no text", "letters and figures");

  AccessTraceHeader header;
  header.samples = file.samples;
  header.dataset_bytes = file.dataset_bytes;
  header.digest = *digest;
  header.jobs = file.jobs;
  header.cache = {static_cast<ReplayPolicy>(file.policy), file.capacity, file.least_priority};
  header.storage_cost = {file.seconds_per_request, file.seconds_per_byte};
  return header;
}

TraceChecksum::TraceChecksum() : m_state(XXH3_createState()) {
  if (m_state == nullptr) throw std::bad_alloc();
  restart();
}
TraceChecksum::~TraceChecksum() { XXH3_freeState(m_state); }
void TraceChecksum::restart() { XXH3_64bits_reset(m_state); }
void TraceChecksum::add(const void* data, std::size_t size) { XXH3_64bits_update(m_state, data, size); }
std::uint64_t TraceChecksum::value() const { return XXH3_64bits_digest(m_state); }

namespace {

constexpr std::size_t buffered_records = 16'384;

template <typename Plain>
std::string_view bytes_of(std::span<const Plain> items) {
  return {reinterpret_cast<const char*>(items.data()), items.size_bytes()};
}

}  // namespace

bool AccessTraceHeader::operator==(const AccessTraceHeader& other) const {
  return samples == other.samples && dataset_bytes == other.dataset_bytes && digest == other.digest && jobs == other.jobs && cache == other.cache &&
         storage_cost.seconds_per_request == other.storage_cost.seconds_per_request &&
         storage_cost.seconds_per_byte == other.storage_cost.seconds_per_byte;
}

struct AccessTraceWriter::State {
  State(const std::filesystem::path& path, const TraceFileHeader& header) : file(path) {
    buffer.reserve(buffered_records);
    write(bytes_of(std::span(&header, 1)));
  }
  void write(std::string_view bytes) {
    checksum.add(bytes.data(), bytes.size());
    whole = file.write(bytes) && whole;
  }
  void flush() {
    write(bytes_of(std::span<const TraceFileRecord>(buffer)));
    buffer.clear();
  }

  AtomicFile file;
  TraceChecksum checksum;
  std::vector<TraceFileRecord> buffer;
  std::uint64_t records = 0;
  bool whole = true;
};

AccessTraceWriter::AccessTraceWriter(const std::filesystem::path& path, const AccessTraceHeader& header) {
  const TraceFileHeader packed = packed_header(header);
  if (!(unpacked_header(packed, path.native()) == header)) throw Error("the dataset's digest is too long for a trace: " + header.digest);
  m_state = std::make_unique<State>(path, packed);
}
AccessTraceWriter::~AccessTraceWriter() = default;

void AccessTraceWriter::record(std::span<const CacheAccess> accesses, std::span<const CacheDecision> decisions, std::uint64_t epoch) {
  State& s = *m_state;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const CacheAccess& access = accesses[i];
    const Bytes bytes = std::min(access.bytes, trace_access_bytes_limit - 1);  // no sample has 281 TB
    const std::uint64_t packed = bytes | std::uint64_t{access.job} << 48 | std::uint64_t{static_cast<std::uint8_t>(decisions[i])} << 62;
    s.buffer.push_back({static_cast<std::uint32_t>(access.key), static_cast<std::uint32_t>(epoch), packed});
    if (s.buffer.size() == buffered_records) s.flush();
  }
  s.records += accesses.size();
}

bool AccessTraceWriter::failed() const { return !m_state->whole; }
std::uint64_t AccessTraceWriter::recorded() const { return m_state->records; }

void AccessTraceWriter::finish() {
  State& s = *m_state;
  s.flush();
  TraceFileTrailer trailer{{}, s.records, s.checksum.value()};
  std::memcpy(trailer.magic, trace_end_magic, sizeof trailer.magic);
  s.write(bytes_of(std::span<const TraceFileTrailer>(&trailer, 1)));
  s.file.commit();
}

}  // namespace dsanalyze
