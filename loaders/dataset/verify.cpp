#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "format_names.hpp"
#include "jpeg_file.hpp"
#include "parallel_ranges.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t failures_named = 100;

/// A sum of 128-bit digests, so that the order in which threads finish does not matter.
struct DigestSum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  void add(std::uint64_t other_low, std::uint64_t other_high) {
    low += other_low;
    high += other_high + (low < other_low ? 1 : 0);
  }
};

/// Reads the record's bytes; returns the cause when they cannot be had.
std::string read_record(const fs::path& file, const IndexRecord& record, std::vector<std::byte>& bytes) {
  const FileDescriptor descriptor(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) return describe_errno(errno);
  struct stat facts {};
  if (fstat(descriptor.get(), &facts) != 0) return describe_errno(errno);
  if (!S_ISREG(facts.st_mode)) return "it is no file";
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (record.offset > size || record.length > size - record.offset) {
    return fmt::format("it has {} bytes, fewer than when the index was made ({} at {})", size, record.length, record.offset);
  }
  bytes.resize(record.length);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(descriptor.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(record.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return describe_errno(errno);
    if (got == 0) return "it became shorter while it was read";
    done += static_cast<std::size_t>(got);
  }
  return {};
}

std::string decode_failure(std::span<const std::byte> bytes, const std::string& cause) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_jpeg_bytes(text) || text.empty()) return cause;
  const UnreadFormat* format = unread_format_of_bytes(text);
  return format == nullptr ? "not a JPEG file" : "not a JPEG file but " + std::string(format->name);
}

/// What one thread found, joined at the end of its piece.
class Findings {
 public:
  explicit Findings(std::uint64_t samples) { m_report.samples = samples; }

  struct Piece {
    Bytes bytes = 0;
    std::uint64_t pixels = 0;
    DigestSum digest;
    std::map<SampleId, VerifyReport::Failure> failures;
  };
  void join(Piece piece, std::size_t samples) {
    const std::scoped_lock lock(m_mutex);
    m_report.bytes += piece.bytes;
    m_report.pixels += piece.pixels;
    m_report.failed += piece.failures.size();
    m_digest.add(piece.digest.low, piece.digest.high);
    m_failures.merge(piece.failures);
    while (m_failures.size() > failures_named) m_failures.erase(std::prev(m_failures.end()));
    m_done += samples;
  }
  [[nodiscard]] std::uint64_t done() const {
    const std::scoped_lock lock(m_mutex);
    return m_done;
  }
  [[nodiscard]] VerifyReport finish() {
    for (auto& [sample, failure] : m_failures) m_report.failures.push_back(std::move(failure));
    m_report.content_digest = fmt::format("{:016x}{:016x}", m_digest.high, m_digest.low);
    return std::move(m_report);
  }

 private:
  mutable std::mutex m_mutex;
  VerifyReport m_report;
  DigestSum m_digest;
  std::map<SampleId, VerifyReport::Failure> m_failures;  ///< the first ones in index order
  std::uint64_t m_done = 0;
};

Findings::Piece verify_piece(const DatasetIndex& index, std::size_t first, std::size_t last, const std::stop_token& stop) {
  Findings::Piece piece;
  std::vector<std::byte> bytes;
  for (std::size_t place = first; place < last && !stop.stop_requested(); ++place) {
    const auto sample = static_cast<SampleId>(place);
    const std::string path(index.file_path(index[sample].file));
    std::string cause = read_record(fs::path(index.facts().root) / path, index[sample], bytes);
    if (cause.empty()) {
      piece.bytes += bytes.size();
      const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
      piece.digest.add(hash.low64, hash.high64);
      const JpegCheck check = check_jpeg(bytes);
      piece.pixels += check.pixels;
      if (!check.cause.empty()) cause = decode_failure(bytes, check.cause);
    }
    if (!cause.empty()) piece.failures.emplace(sample, VerifyReport::Failure{path, cause});
  }
  return piece;
}

}  // namespace

VerifyReport verify_dataset(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop) {
  if (index.facts().format == "emulated") {
    throw UsageError("the dataset " + index.facts().root + " is emulated: it has sizes but no bytes that could be verified");
  }
  const Clock& clock = *system_timing().clock;
  const Nanoseconds begin = clock.now();
  Findings findings(index.size());
  constexpr std::size_t piece_samples = 32;
  parallel_ranges(index.size(), piece_samples, threads, stop, [&](std::size_t first, std::size_t last) {
    findings.join(verify_piece(index, first, last, stop), last - first);
    const double share = static_cast<double>(findings.done()) / index.size();
    const double elapsed = to_seconds(clock.now() - begin);
    events.progress({fmt::format("verifying {}", index.facts().root), share, elapsed * (1 - share) / share});
  });
  VerifyReport report = findings.finish();
  report.seconds = to_seconds(clock.now() - begin);
  return report;
}

}  // namespace dsanalyze
