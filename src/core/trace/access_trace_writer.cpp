#include <algorithm>
#include <cstring>

#include "access_trace_format.hpp"
#include "base/error.hpp"

namespace dsanalyze {
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
