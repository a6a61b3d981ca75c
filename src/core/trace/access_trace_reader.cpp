#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "access_trace_format.hpp"
#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t block_records = 4096;
constexpr std::uint32_t decision_count = 3;

FileDescriptor open_trace(const std::filesystem::path& path) {
  FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC);
  if (!file.valid()) throw_errno("cannot read", path.native(), errno);
  return file;
}

/// All of it; the file was that long when it was opened.
void read_at(int file, std::uint64_t offset, void* into, std::size_t size, const std::string& name) {
  auto* at = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::pread(file, at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", name, errno);
    if (got == 0) throw Error(fmt::format("{}: at byte {}: the file became shorter while it was read", name, offset));
    at += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
}

}  // namespace

struct AccessTraceReader::State {
  State(FileDescriptor opened, std::string given_name) : file(std::move(opened)), name(std::move(given_name)) {
    struct stat facts {};
    if (::fstat(file.get(), &facts) != 0) throw_errno("cannot read", name, errno);
    if (!S_ISREG(facts.st_mode)) throw Error(name + ": not a file: a trace is read more than once");
    const auto size = static_cast<std::uint64_t>(facts.st_size);
    const std::uint64_t least = sizeof(TraceFileHeader) + sizeof(TraceFileTrailer);
    if (size < least) throw Error(fmt::format("{}: at byte {}: the file ends, expected at least the {} bytes of an empty trace", name, size, least));
    TraceFileHeader head{};
    read_at(file.get(), 0, &head, sizeof head, name);
    header = unpacked_header(head, name);
    check_end(size);
    jobs.resize(header.jobs);
    restart();
  }

  void check_end(std::uint64_t size) {
    const std::uint64_t end = size - sizeof(TraceFileTrailer);
    read_at(file.get(), end, &trailer, sizeof trailer, name);
    records = (end - sizeof(TraceFileHeader)) / sizeof(TraceFileRecord);
    const bool ends = std::memcmp(trailer.magic, trace_end_magic, sizeof trailer.magic) == 0;
    if (!ends || (end - sizeof(TraceFileHeader)) % sizeof(TraceFileRecord) != 0)
      throw Error(
          fmt::format("{}: at byte {}: found no end of a trace: the file is torn (it has {} bytes); copy or record it again", name, end, size));
    if (trailer.records != records)
      throw Error(fmt::format("{}: at byte {}: found an end after {} accesses, expected one after {}: the file is torn", name, end, trailer.records,
                              records));
  }

  void restart() {
    TraceFileHeader head{};
    read_at(file.get(), 0, &head, sizeof head, name);
    checksum.restart();
    checksum.add(&head, sizeof head);
    std::ranges::fill(jobs, Job{});
    epochs.assign(header.jobs, 0);
    first_buffered = 0;
    buffer.clear();
    at = 0;
    bytes = 0;
  }

  /// The record at `at`; nullptr at the end.
  const TraceFileRecord* peek() {
    if (at == records) return nullptr;
    if (at == first_buffered + buffer.size()) {
      first_buffered = at;
      buffer.resize(static_cast<std::size_t>(std::min<std::uint64_t>(block_records, records - at)));
      read_at(file.get(), offset(), buffer.data(), buffer.size() * sizeof(TraceFileRecord), name);
      checksum.add(buffer.data(), buffer.size() * sizeof(TraceFileRecord));
    }
    return &buffer[static_cast<std::size_t>(at - first_buffered)];
  }
  [[nodiscard]] std::uint64_t offset() const { return sizeof(TraceFileHeader) + at * sizeof(TraceFileRecord); }

  void check(const TraceFileRecord& record) {
    if (record.sample >= header.samples) fail(fmt::format("sample {}", record.sample), fmt::format("one of the dataset's {}", header.samples));
    if (record.job() >= header.jobs) fail(fmt::format("job {}", record.job()), fmt::format("one of {}", header.jobs));
    if (record.decision() >= decision_count) fail(fmt::format("decision {}", record.decision()), "0 to 2");
    const Job& job = jobs[record.job()];
    if (job.seen && record.epoch < epochs[record.job()])
      fail(fmt::format("epoch {} after epoch {}", record.epoch, epochs[record.job()]), "a job's epochs to rise");
    if (record.bytes() > most_trace_bytes - bytes) fail("more than 2^62 bytes in all", "fewer");
  }
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw Error(fmt::format("{}: at byte {}: found {}, expected {}", name, offset(), found, expected));
  }

  bool next(AccessBlock& block) {
    accesses.clear();
    decisions.clear();
    while (accesses.size() < block_records) {
      const TraceFileRecord* const record = peek();
      if (record == nullptr) break;
      check(*record);
      const std::uint32_t job = record->job();
      if (!jobs[job].seen || epochs[job] != record->epoch) {
        if (!accesses.empty()) break;  // the block before it has another epoch of this job
        jobs[job].seen = true;
        epochs[job] = record->epoch;
      }
      accesses.push_back({record->sample, record->bytes(), job, header.storage_cost.access_priority(record->bytes())});
      decisions.push_back(static_cast<CacheDecision>(record->decision()));
      bytes += record->bytes();
      ++at;
    }
    if (accesses.empty() && checksum.value() != trailer.checksum)
      throw Error(fmt::format("{}: at byte {}: the checksum is not that of the accesses: the file is damaged", name, offset()));
    block = {accesses, epochs};
    return !accesses.empty();
  }

  struct Job {
    bool seen = false;
  };

  FileDescriptor file;
  std::string name;
  AccessTraceHeader header;
  TraceFileTrailer trailer{};
  std::uint64_t records = 0;
  TraceChecksum checksum;
  std::vector<TraceFileRecord> buffer;
  std::uint64_t first_buffered = 0;  // the number of the buffer's first record
  std::uint64_t at = 0;              // records given out
  Bytes bytes = 0;                   // of them
  std::vector<Job> jobs;
  std::vector<std::uint32_t> epochs;
  std::vector<CacheAccess> accesses;
  std::vector<CacheDecision> decisions;
};

AccessTraceReader::AccessTraceReader(const std::filesystem::path& path) : AccessTraceReader(open_trace(path), path.native()) {}
AccessTraceReader::AccessTraceReader(FileDescriptor file, std::string name) : m_state(std::make_unique<State>(std::move(file), std::move(name))) {}
AccessTraceReader::~AccessTraceReader() = default;

const AccessTraceHeader& AccessTraceReader::header() const { return m_state->header; }
std::uint64_t AccessTraceReader::accesses() const { return m_state->records; }
void AccessTraceReader::rewind() { m_state->restart(); }
bool AccessTraceReader::next(AccessBlock& block) { return m_state->next(block); }
std::uint64_t AccessTraceReader::key_count() const { return m_state->header.samples; }
std::uint32_t AccessTraceReader::jobs() const { return m_state->header.jobs; }
std::span<const CacheDecision> AccessTraceReader::decisions() const { return m_state->decisions; }

CaseCounts recorded_counts(AccessTraceReader& trace) {
  CaseCounts counts;
  counts.cache = trace.header().cache;
  counts.jobs.resize(trace.jobs());
  trace.rewind();
  AccessBlock block;
  while (trace.next(block)) {
    for (std::size_t i = 0; i < block.accesses.size(); ++i) {
      const CacheAccess& access = block.accesses[i];
      const bool hit = trace.decisions()[i] == CacheDecision::hit;
      counts.of(access.job, block.epoch_of_job[access.job]).add({1, hit ? 1U : 0U, access.bytes, hit ? 0 : access.bytes});
    }
  }
  counts.add_up();
  return counts;
}

}  // namespace dsanalyze
