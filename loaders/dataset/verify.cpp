#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "all_samples.hpp"
#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "parallel_ranges.hpp"
#include "sample_bytes.hpp"
#include "tar_shard.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// A sum of 128-bit digests, so that the order in which threads finish does not matter.
struct DigestSum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  void add(std::uint64_t other_low, std::uint64_t other_high) {
    low += other_low;
    high += other_high + (low < other_low ? 1 : 0);
  }
};

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
  ImageChecker images;
  for (std::size_t place = first; place < last && !stop.stop_requested(); ++place) {
    const auto sample = static_cast<SampleId>(place);
    std::string cause = read_sample_bytes(index, sample, bytes);
    if (cause.empty()) {
      piece.bytes += bytes.size();
      const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
      piece.digest.add(hash.low64, hash.high64);
      std::uint64_t pixels = 0;
      if (!index.facts().array) cause = images.check(bytes, pixels);
      piece.pixels += pixels;
    }
    if (!cause.empty()) piece.failures.emplace(sample, VerifyReport::Failure{sample_name(index, sample), cause});
  }
  return piece;
}

/// Looks at the files that hold the samples, as opening does, whatever an index file says of them.
void verify_shards(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop, VerifyReport& report) {
  std::vector<std::string> causes(index.file_count());
  parallel_ranges(index.file_count(), 1, threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t file = first; file < last; ++file) {
      const std::string name(index.file_path(static_cast<std::uint32_t>(file)));
      try {
        const TarShard shard = scan_tar_shard(fs::path(index.facts().root) / name, name, stop);
        if (shard.damage) causes[file] = shard.damage->text;
      } catch (const Interrupted&) {
        throw;
      } catch (const Error& error) {
        causes[file] = error.what();
      }
      events.progress({fmt::format("verifying the shards of {}", index.facts().root), -1, -1});
    }
  });
  for (std::uint32_t file = 0; file < index.file_count(); ++file) {
    if (!causes[file].empty()) report.damaged_files.push_back({std::string(index.file_path(file)), causes[file]});
  }
}

}  // namespace

VerifyReport verify_dataset(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop) {
  if (index.facts().format == "emulated") {
    throw UsageError("the dataset " + index.facts().root + " is emulated: it has sizes but no bytes that could be verified");
  }
  const Clock& clock = *system_timing().clock;
  const Nanoseconds begin = clock.now();
  Findings findings(index.size());
  parallel_ranges(index.size(), piece_samples, threads, stop, [&](std::size_t first, std::size_t last) {
    findings.join(verify_piece(index, first, last, stop), last - first);
    const double share = static_cast<double>(findings.done()) / index.size();
    const double elapsed = to_seconds(clock.now() - begin);
    events.progress({fmt::format("verifying {}", index.facts().root), share, elapsed * (1 - share) / share,
                     elapsed > 0 ? static_cast<double>(findings.done()) / elapsed : -1});
  });
  VerifyReport report = findings.finish();
  if (index.facts().format == "tar") verify_shards(index, threads, events, stop, report);
  report.seconds = to_seconds(clock.now() - begin);
  return report;
}

}  // namespace dsanalyze
