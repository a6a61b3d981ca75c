#include "draw_trace_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "access_trace_format.hpp"
#include "base/error.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t buffered_draws = 16'384;
constexpr Bytes max_place_bytes = std::numeric_limits<std::int32_t>::max();

void require_field(bool holds, const std::string& name, std::size_t offset, const std::string& found, std::string_view expected) {
  if (!holds) throw Error(fmt::format("{}: at byte {}: found {}, expected {}", name, offset, found, expected));
}

}  // namespace

DrawFileHeader packed_header(const DrawTraceHeader& header) {
  DrawFileHeader file{};
  std::memcpy(file.magic, draw_magic, sizeof file.magic);
  file.version = draw_trace_version;
  file.record_bytes = sizeof(DrawFileRecord);
  file.samples = header.samples;
  file.policy = static_cast<std::uint32_t>(header.policy);
  file.seed = header.seed;
  file.place_bytes = header.place_bytes;
  file.store_places = header.store_places;
  std::memcpy(file.digest, header.digest.data(), std::min(header.digest.size(), max_draw_digest));
  return file;
}

DrawTraceHeader unpacked_header(const DrawFileHeader& file, const std::string& name) {
  const auto require = [&name](bool holds, std::size_t offset, const std::string& found, std::string_view expected) {
    require_field(holds, name, offset, found, expected);
  };
  require(std::memcmp(file.magic, draw_magic, sizeof file.magic) == 0, 0, "other bytes",
          "\"dsadraws\": is it a trace that `dsanalyze share --share dependent --trace` wrote?");
  require(file.version == draw_trace_version, offsetof(DrawFileHeader, version), fmt::format("version {}", file.version),
          fmt::format("version {}", draw_trace_version));
  require(file.record_bytes == sizeof(DrawFileRecord), offsetof(DrawFileHeader, record_bytes), fmt::format("{} bytes a record", file.record_bytes),
          "16");
  require(file.samples > 0 && file.samples < std::numeric_limits<std::uint32_t>::max(), offsetof(DrawFileHeader, samples),
          fmt::format("{} samples", file.samples), "1 to 4294967294");
  require(file.policy < enum_names<StagingPolicy>.size(), offsetof(DrawFileHeader, policy), fmt::format("policy number {}", file.policy),
          "a known one");
  require(file.place_bytes > 0 && file.place_bytes <= max_place_bytes, offsetof(DrawFileHeader, place_bytes),
          fmt::format("a prepared sample of {} bytes", file.place_bytes), "1 to 2^31 - 1");
  require(file.store_places <= file.samples, offsetof(DrawFileHeader, store_places), fmt::format("a store of {} samples", file.store_places),
          "at most the dataset's");
  require(file.reserved[0] == 0 && file.reserved[1] == 0 && file.reserved[2] == 0, offsetof(DrawFileHeader, reserved), "other bytes", "zeros");
  const char* const end = file.digest + max_draw_digest;
  const char* const last = std::find(file.digest, end, '\0');
  const bool is_text = std::all_of(file.digest, last, [](char c) { return c > ' ' && c < 0x7f; });
  const bool padded = std::all_of(last, end, [](char c) { return c == '\0'; });
  require(is_text && padded, offsetof(DrawFileHeader, digest), "a digest that is no text", "letters and figures");
  return {file.samples,    {static_cast<const char*>(file.digest), last}, file.seed, static_cast<StagingPolicy>(file.policy), file.store_places,
          file.place_bytes};
}

struct DrawTraceWriter::State {
  State(const std::filesystem::path& path, const DrawFileHeader& header) : file(path) {
    buffer.reserve(buffered_draws);
    write(&header, sizeof header);
  }
  void write(const void* bytes, std::size_t size) {
    checksum.add(bytes, size);
    file.write({static_cast<const char*>(bytes), size});  // commit() says what failed
  }
  void flush() {
    write(buffer.data(), buffer.size() * sizeof(DrawFileRecord));
    buffer.clear();
  }
  void add(DrawFileRecord record) {
    buffer.push_back(record);
    ++records;
    if (buffer.size() == buffered_draws) flush();
  }

  AtomicFile file;
  TraceChecksum checksum;
  std::vector<DrawFileRecord> buffer;
  std::uint64_t records = 0;
};

DrawTraceWriter::DrawTraceWriter(const std::filesystem::path& path, const DrawTraceHeader& header) {
  const DrawFileHeader packed = packed_header(header);
  if (!(unpacked_header(packed, path.native()) == header)) throw Error("the dataset's digest is too long for a trace: " + header.digest);
  m_state = std::make_unique<State>(path, packed);
}
DrawTraceWriter::~DrawTraceWriter() = default;

void DrawTraceWriter::began(std::uint32_t job, std::span<const SampleRange> samples) {
  m_state->add({static_cast<std::uint32_t>(samples.size()), DrawRecordKind::began, job});
  for (const SampleRange& range : samples) m_state->add({range.first, DrawRecordKind::range, range.end});
}

void DrawTraceWriter::ended(std::uint32_t job) { m_state->add({0, DrawRecordKind::ended, job}); }

void DrawTraceWriter::drew(std::span<const Drawn> round) {
  for (const Drawn& draw : round) {
    const bool first = &draw == round.data();
    const DrawRecordKind prepared = first ? DrawRecordKind::first_draw : DrawRecordKind::next_draw;
    const DrawRecordKind stored = first ? DrawRecordKind::first_stored : DrawRecordKind::next_stored;
    m_state->add({draw.sample, draw.prepared ? prepared : stored, draw.jobs});
  }
}

void DrawTraceWriter::finish() {
  State& state = *m_state;
  state.flush();
  TraceFileTrailer trailer{};
  std::memcpy(trailer.magic, trace_end_magic, sizeof trailer.magic);
  trailer.records = state.records;
  trailer.checksum = state.checksum.value();
  state.file.write({reinterpret_cast<const char*>(&trailer), sizeof trailer});
  state.file.commit();
}

}  // namespace dsanalyze
