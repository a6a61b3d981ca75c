#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "access_trace.hpp"

struct XXH3_state_s;

namespace dsanalyze {

// The file: a header of 128 bytes, records of 16, a trailer of 24. Little-endian.

constexpr std::uint32_t trace_version = 1;
constexpr std::uint64_t most_trace_samples = std::numeric_limits<std::uint32_t>::max() - 1;  // what a cache policy numbers
constexpr Bytes most_trace_bytes = Bytes{1} << 62;
constexpr Bytes trace_access_bytes_limit = Bytes{1} << 48;
constexpr std::size_t most_digest_characters = 56;

struct TraceFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t record_bytes;
  std::uint64_t samples;
  std::uint64_t dataset_bytes;
  std::uint32_t jobs;
  std::uint32_t policy;  // a ReplayPolicy
  std::uint64_t capacity;
  double seconds_per_request;
  double seconds_per_byte;
  float least_priority;
  std::uint32_t reserved;
  char digest[most_digest_characters];  // printable, zeros behind it
};
static_assert(sizeof(TraceFileHeader) == 128);

struct TraceFileRecord {
  std::uint32_t sample;
  std::uint32_t epoch;
  std::uint64_t packed;  // from the lowest bit: bytes (48), job (14), decision (2)

  [[nodiscard]] Bytes bytes() const { return packed & (trace_access_bytes_limit - 1); }
  [[nodiscard]] std::uint32_t job() const { return static_cast<std::uint32_t>(packed >> 48 & 0x3fff); }
  [[nodiscard]] std::uint32_t decision() const { return static_cast<std::uint32_t>(packed >> 62); }
};
static_assert(sizeof(TraceFileRecord) == 16);

struct TraceFileTrailer {
  char magic[8];
  std::uint64_t records;
  std::uint64_t checksum;  // XXH3-64 of header and records
};
static_assert(sizeof(TraceFileTrailer) == 24);

constexpr char trace_magic[] = "dsatrace";
constexpr char trace_end_magic[] = "dsatrend";

TraceFileHeader packed_header(const AccessTraceHeader& header);
/// Throws Error that names the file, the field's offset, what was found and what was expected.
AccessTraceHeader unpacked_header(const TraceFileHeader& file, const std::string& name);

/// XXH3-64 of what is added, piece by piece.
class TraceChecksum {
 public:
  TraceChecksum();
  TraceChecksum(const TraceChecksum&) = delete;
  TraceChecksum& operator=(const TraceChecksum&) = delete;
  ~TraceChecksum();
  void restart();
  void add(const void* data, std::size_t size);
  [[nodiscard]] std::uint64_t value() const;

 private:
  XXH3_state_s* m_state;
};

}  // namespace dsanalyze
