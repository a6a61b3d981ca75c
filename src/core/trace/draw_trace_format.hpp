#pragma once

#include <cstdint>
#include <string>

#include "draw_trace.hpp"

namespace dsanalyze {

// The file: a header of 112 bytes, records of 16, a trailer as of an access trace (TraceFileTrailer). Little-endian.

constexpr std::uint32_t draw_trace_version = 1;
constexpr std::size_t max_draw_digest = 56;  ///< characters

struct DrawFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t record_bytes;
  std::uint32_t samples;
  std::uint32_t policy;  // a StagingPolicy
  std::uint64_t seed;
  std::uint64_t place_bytes;
  std::uint32_t store_places;
  std::uint32_t reserved[3];
  char digest[max_draw_digest];  // printable, zeros behind it
};
static_assert(sizeof(DrawFileHeader) == 112);

/// What a record is. A job that begins is followed by its ranges; the draws of a round follow its first one.
enum class DrawRecordKind : std::uint32_t {
  began = 1,       ///< value: number of ranges; jobs: the job's number
  range = 2,       ///< value: first sample; jobs: the one behind the last
  ended = 3,       ///< jobs: the job's number
  first_draw = 4,  ///< value: sample; jobs: a bit each
  next_draw = 5,
  first_stored = 6,  ///< as first_draw, from the store
  next_stored = 7
};

struct DrawFileRecord {
  std::uint32_t value;
  DrawRecordKind kind;
  std::uint64_t jobs;
};
static_assert(sizeof(DrawFileRecord) == 16);

constexpr char draw_magic[] = "dsadraws";

DrawFileHeader packed_header(const DrawTraceHeader& header);
/// Throws Error that names the file, the field's offset, what was found and what was expected.
DrawTraceHeader unpacked_header(const DrawFileHeader& file, const std::string& name);

}  // namespace dsanalyze
