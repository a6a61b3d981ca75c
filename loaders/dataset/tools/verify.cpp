#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/index_dependencies.hpp"
#include "loaders/dataset/readers/member_keys.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"
#include "loaders/dataset/readers/tar_shard.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "sample_files.hpp"

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

/// In index order.
using NamedSamples = std::map<SampleId, VerifyReport::Failure>;

void keep_first(NamedSamples& all, NamedSamples& more) {
  all.merge(more);
  while (all.size() > failures_named) all.erase(std::prev(all.end()));
}

/// What one thread found, joined at the end of its piece.
class Findings {
 public:
  explicit Findings(std::uint64_t samples) { m_report.samples = samples; }

  struct Piece {
    Bytes bytes = 0;
    std::uint64_t pixels = 0;
    DigestSum digest;
    NamedSamples failures;
    NamedSamples patches;
  };
  void join(Piece piece, std::size_t samples) {
    const std::scoped_lock lock(m_mutex);
    m_report.bytes += piece.bytes;
    m_report.pixels += piece.pixels;
    m_report.failed += piece.failures.size();
    m_report.patched += piece.patches.size();
    m_digest.add(piece.digest.low, piece.digest.high);
    keep_first(m_failures, piece.failures);
    keep_first(m_patches, piece.patches);
    m_done += samples;
  }
  [[nodiscard]] std::uint64_t done() const {
    const std::scoped_lock lock(m_mutex);
    return m_done;
  }
  [[nodiscard]] VerifyReport finish() {
    for (auto& [sample, failure] : m_failures) m_report.failures.push_back(std::move(failure));
    for (auto& [sample, patch] : m_patches) m_report.patches.push_back(std::move(patch));
    m_report.content_digest = fmt::format("{:016x}{:016x}", m_digest.high, m_digest.low);
    return std::move(m_report);
  }

 private:
  mutable std::mutex m_mutex;
  VerifyReport m_report;
  DigestSum m_digest;
  NamedSamples m_failures;
  NamedSamples m_patches;
  std::uint64_t m_done = 0;
};

/// The cause when the sample cannot be used; what is counted of it goes to the piece.
std::string verify_image(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes, ImageChecker& images, Findings::Piece& piece) {
  std::string cause = read_sample_bytes(index, sample, bytes);
  if (!cause.empty()) return cause;
  piece.bytes += bytes.size();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  piece.digest.add(hash.low64, hash.high64);
  std::uint64_t pixels = 0;
  cause = images.check(bytes, pixels);
  piece.pixels += pixels;
  if (const std::string& damage = images.patched_damage(); !damage.empty())
    piece.patches.emplace(sample, VerifyReport::Failure{sample_name(index, sample), damage});
  return cause;
}

/// An array may be larger than memory: nothing is decoded, so it is read piece by piece.
std::string verify_array(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes, const std::stop_token& stop,
                         Findings::Piece& piece) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::string cause = read_sample_pieces(index, sample, bytes, [&](std::span<const std::byte> part) {
    XXH3_128bits_update(state.get(), part.data(), part.size());
    return !stop.stop_requested();
  });
  if (!cause.empty()) return cause;
  piece.bytes += index[sample].length;
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  piece.digest.add(hash.low64, hash.high64);
  return {};
}

Findings::Piece verify_piece(const DatasetIndex& index, std::size_t first, std::size_t last, const std::stop_token& stop) {
  Findings::Piece piece;
  std::vector<std::byte> bytes;
  ImageChecker images;
  for (std::size_t place = first; place < last && !stop.stop_requested(); ++place) {
    const auto sample = static_cast<SampleId>(place);
    std::string cause = index.facts().array ? verify_array(index, sample, bytes, stop, piece) : verify_image(index, sample, bytes, images, piece);
    if (cause.empty()) cause = label_cause(index, sample);
    if (!cause.empty()) piece.patches.erase(sample);  // it is counted once, as failed
    if (!cause.empty()) piece.failures.emplace(sample, VerifyReport::Failure{sample_name(index, sample), cause});
  }
  return piece;
}

/// Looks at the shards, as opening does, whatever an index file says of them: why each is damaged, or nothing.
std::vector<std::string> verify_shards(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop) {
  std::vector<std::string> causes(index.file_count());
  const MemberKeys keys({index.facts().image_key, index.facts().label_key});
  parallel_ranges(index.file_count(), 1, threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t file = first; file < last; ++file) {
      const std::string name(index.file_path(static_cast<std::uint32_t>(file)));
      try {
        const TarShard shard = scan_tar_shard(fs::path(index.facts().root) / name, name, keys, BehindEnd::all, stop);
        if (shard.damage) causes[file] = shard.damage->text;
      } catch (const Interrupted&) {
        throw;
      } catch (const Error& error) {
        causes[file] = error.what();
      }
      events.progress({fmt::format("verifying the shards of {}", index.facts().root), -1, -1});
    }
  });
  return causes;
}

/// Shards that are damaged, and whatever is not any more what the index was made of.
void verify_files(const DatasetIndex& index, int threads, EventSink& events, const std::stop_token& stop, VerifyReport& report) {
  std::set<std::string> named;
  if (index.facts().format == "tar") {
    const std::vector<std::string> causes = verify_shards(index, threads, events, stop);
    for (std::uint32_t file = 0; file < index.file_count(); ++file) {
      if (causes[file].empty()) continue;
      report.damaged_files.push_back({std::string(index.file_path(file)), causes[file]});
      named.insert(report.damaged_files.back().path);
    }
  }
  for (const std::string& file : changes_since(index, threads, stop).files) {
    if (!named.contains(file)) report.damaged_files.push_back({file, "it changed after the index was made"});
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
  verify_files(index, threads, events, stop, report);
  report.seconds = to_seconds(clock.now() - begin);
  return report;
}

}  // namespace dsanalyze
