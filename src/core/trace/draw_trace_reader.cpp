#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "access_trace_format.hpp"
#include "base/error.hpp"
#include "draw_trace_format.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t draws_at_once = 4096;

FileDescriptor open_draws(const std::filesystem::path& path) {
  FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC);
  if (!file.valid()) throw_errno("cannot read", path.native(), errno);
  return file;
}

/// How many bytes there were, up to `size`.
std::size_t read_up_to(int file, std::uint64_t offset, void* into, std::size_t size, const std::string& name) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(file, static_cast<char*>(into) + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", name, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

bool draws(DrawRecordKind kind) { return kind >= DrawRecordKind::first_draw && kind <= DrawRecordKind::next_stored; }
bool continues(DrawRecordKind kind) { return kind == DrawRecordKind::next_draw || kind == DrawRecordKind::next_stored; }

}  // namespace

struct DrawTraceReader::State {
  State(FileDescriptor opened, std::string given_name) : file(std::move(opened)), name(std::move(given_name)) {
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0) throw_errno("cannot read", name, errno);
    if (!S_ISREG(facts.st_mode)) throw Error(name + ": not a file: a trace of draws is read from one");
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    constexpr std::uint64_t least = sizeof(DrawFileHeader) + sizeof(TraceFileTrailer);
    if (size < least) throw Error(fmt::format("{}: at byte {}: the file ends, expected at least the {} bytes of an empty trace", name, size, least));
    DrawFileHeader head{};
    read_at(0, &head, sizeof head);
    header = unpacked_header(head, name);
    checksum.add(&head, sizeof head);
    check_end(size);
  }

  void read_at(std::uint64_t offset, void* into, std::size_t size) const {
    if (read_up_to(file.get(), offset, into, size, name) != size)
      throw Error(fmt::format("{}: at byte {}: the file became shorter while it was read", name, offset));
  }

  void check_end(std::uint64_t size) {
    const std::uint64_t end = size - sizeof(TraceFileTrailer);
    read_at(end, &trailer, sizeof trailer);
    records = (end - sizeof(DrawFileHeader)) / sizeof(DrawFileRecord);
    const bool ends = std::memcmp(trailer.magic, trace_end_magic, sizeof trailer.magic) == 0;
    if (!ends || (end - sizeof(DrawFileHeader)) % sizeof(DrawFileRecord) != 0 || trailer.records != records)
      throw Error(fmt::format("{}: at byte {}: found no end of a trace after {} records: the file is torn (it has {} bytes); copy or record it again",
                              name, end, records, size));
  }

  const DrawFileRecord* peek() {
    if (at == records) return nullptr;
    if (at == first_buffered + buffer.size()) {
      first_buffered = at;
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(draws_at_once, records - at)));
      read_at(offset(), buffer.data(), buffer.size() * sizeof(DrawFileRecord));
      checksum.add(buffer.data(), buffer.size() * sizeof(DrawFileRecord));
    }
    return &buffer[static_cast<std::size_t>(at - first_buffered)];
  }
  [[nodiscard]] std::uint64_t offset() const { return sizeof(DrawFileHeader) + at * sizeof(DrawFileRecord); }
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw Error(fmt::format("{}: at byte {}: found {}, expected {}", name, offset(), found, expected));
  }

  void take_epoch(const DrawFileRecord& record, DrawRecorder& into) {
    const auto job = static_cast<std::uint32_t>(record.jobs);
    const std::uint32_t count = record.value;
    if (count == 0) fail("an epoch of no samples", "at least one range");
    ranges.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      ++at;
      const DrawFileRecord* const range = peek();
      if (range == nullptr || range->kind != DrawRecordKind::range) fail("no range", "one of an epoch's samples");
      const std::uint64_t first = range->value;
      if ((!ranges.empty() && first <= ranges.back().end) || first >= range->jobs || range->jobs > header.samples)
        fail(fmt::format("samples from {} up to {}", first, range->jobs), fmt::format("ascending ranges of the dataset's {}", header.samples));
      ranges.push_back({range->value, static_cast<SampleId>(range->jobs)});
    }
    into.began(job, ranges);
  }

  /// A round, from its first draw on: one that continues another is none.
  void take_round(DrawRecorder& into) {
    round.clear();
    JobSet jobs = 0;
    for (const DrawFileRecord* record = peek(); record != nullptr && draws(record->kind); record = peek()) {
      if (continues(record->kind) == round.empty()) break;
      if (record->value >= header.samples) fail(fmt::format("sample {}", record->value), fmt::format("one of the dataset's {}", header.samples));
      if (record->jobs == 0 || (record->jobs & jobs) != 0) fail("a draw for no job, or for one that has drawn in its round", "one for other jobs");
      jobs |= record->jobs;
      const bool prepared = record->kind == DrawRecordKind::first_draw || record->kind == DrawRecordKind::next_draw;
      round.push_back({record->value, record->jobs, prepared});
      ++at;
    }
    if (round.empty()) fail("a draw that continues no round", "the first of a round");
    into.drew(round);
  }

  void take(const DrawFileRecord& record, DrawRecorder& into) {
    if (draws(record.kind)) {
      take_round(into);
      return;
    }
    const bool about_job = record.kind == DrawRecordKind::began || record.kind == DrawRecordKind::ended;
    if (!about_job) fail(fmt::format("a record of kind {}", static_cast<std::uint32_t>(record.kind)), "an epoch, an end or a draw");
    if (record.jobs >= most_dependent_jobs) fail(fmt::format("job {}", record.jobs), fmt::format("one below {}", most_dependent_jobs));
    if (record.kind == DrawRecordKind::began) {
      take_epoch(record, into);
    } else {
      into.ended(static_cast<std::uint32_t>(record.jobs));
    }
    ++at;
  }

  FileDescriptor file;
  std::string name;
  DrawTraceHeader header;
  TraceFileTrailer trailer{};
  std::uint64_t records = 0;
  TraceChecksum checksum;
  std::vector<DrawFileRecord> buffer;
  std::uint64_t first_buffered = 0;  ///< the number of the buffer's first record
  std::uint64_t at = 0;              ///< records given out
  std::vector<SampleRange> ranges;
  std::vector<DrawRecorder::Drawn> round;
};

namespace {

/// Errors of the recorder with their place in the file; the reader's own have it.
class PlacedErrors final : public DrawRecorder {
 public:
  PlacedErrors(DrawRecorder& into, std::function<std::string()> place) : m_into(into), m_place(std::move(place)) {}
  void began(std::uint32_t job, std::span<const SampleRange> samples) override {
    placed([&] { m_into.began(job, samples); });
  }
  void ended(std::uint32_t job) override {
    placed([&] { m_into.ended(job); });
  }
  void drew(std::span<const Drawn> round) override {
    placed([&] { m_into.drew(round); });
  }

 private:
  template <typename Call>
  void placed(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", m_place(), error.what()));
    }
  }

  DrawRecorder& m_into;
  std::function<std::string()> m_place;
};

}  // namespace

DrawTraceReader::DrawTraceReader(const std::filesystem::path& path) : DrawTraceReader(open_draws(path), path.native()) {}
DrawTraceReader::DrawTraceReader(FileDescriptor file, std::string name) : m_state(std::make_unique<State>(std::move(file), std::move(name))) {}
DrawTraceReader::~DrawTraceReader() = default;

const DrawTraceHeader& DrawTraceReader::header() const { return m_state->header; }
std::uint64_t DrawTraceReader::records() const { return m_state->records; }

void DrawTraceReader::replay(DrawRecorder& into) {
  State& state = *m_state;
  PlacedErrors placed(into, [&state] { return fmt::format("{}: at byte {}", state.name, state.offset()); });
  for (const DrawFileRecord* record = state.peek(); record != nullptr; record = state.peek()) state.take(*record, placed);
  if (state.checksum.value() != state.trailer.checksum)
    throw Error(fmt::format("{}: at byte {}: the checksum is not that of the records: the file is damaged", state.name, state.offset()));
}

bool is_draw_trace(const std::filesystem::path& path) {
  const FileDescriptor file = open_draws(path);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  char magic[sizeof(DrawFileHeader::magic)] = {};
  return read_up_to(file.get(), 0, magic, sizeof magic, path.native()) == sizeof magic && std::memcmp(magic, draw_magic, sizeof magic) == 0;
}

}  // namespace dsanalyze
