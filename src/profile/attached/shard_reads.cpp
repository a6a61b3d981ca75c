#include "shard_reads.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/text/units.hpp"
#include "core/index.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "profile/storage_point.hpp"

namespace dsanalyze {
namespace {

constexpr Bytes least_file = Bytes{64} << 20;
constexpr Bytes request = Bytes{1} << 20;

/// Requests in the order in which so many readers ask for them that take turns, each in a part of its own.
std::shared_ptr<const DatasetIndex> parts_in_turn(const std::filesystem::path& file, Bytes size, int readers) {
  DatasetIndexBuilder builder;
  const std::uint32_t number = builder.add_file(file.relative_path().native());
  const Bytes each = size / request / static_cast<Bytes>(readers);
  for (Bytes at = 0; at < each; ++at)
    for (int reader = 0; reader < readers; ++reader) builder.add_sample({(static_cast<Bytes>(reader) * each + at) * request, request, number, 0});
  DatasetIndex::Facts facts;
  facts.root = "/";
  facts.format = facts.digest = "ranges";
  return std::move(builder).build(std::move(facts));
}

}  // namespace

std::optional<std::filesystem::path> large_file_beside(const std::filesystem::path& folder, const std::filesystem::path& like) {
  struct ::stat wanted = {};
  if (::stat(like.c_str(), &wanted) != 0) return std::nullopt;
  std::optional<std::filesystem::path> largest;
  Bytes most = least_file - 1;
  std::error_code error;
  constexpr std::size_t most_entries = 20'000;
  std::size_t entries = 0;
  for (std::filesystem::recursive_directory_iterator entry(folder, std::filesystem::directory_options::skip_permission_denied, error), end;
       !error && entry != end && ++entries < most_entries; entry.increment(error)) {
    struct ::stat found = {};
    if (::lstat(entry->path().c_str(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_dev != wanted.st_dev) continue;
    constexpr Bytes block = 512;  // of st_blocks
    const bool has_holes = static_cast<Bytes>(found.st_blocks) * block < static_cast<Bytes>(found.st_size);
    if (static_cast<Bytes>(found.st_size) <= most || has_holes) continue;
    most = static_cast<Bytes>(found.st_size);
    largest = entry->path();
  }
  return largest;
}

std::vector<StoragePoint> measure_shard_reads(const std::filesystem::path& file, int readers, double seconds, const std::stop_token& stop,
                                              Timing timing) {
  std::vector<StoragePoint> points;
  std::error_code error;
  const Bytes size = std::filesystem::file_size(file, error);
  if (error) return points;
  for (const int count : {1, readers}) {
    if (size < static_cast<Bytes>(count) * request || (count == 1 && readers == 1 && !points.empty())) continue;
    const auto requests = parts_in_turn(file, size, count);
    FetchOptions options;
    options.concurrency = count;
    options.capacity = 2 * static_cast<std::size_t>(count);
    options.read_mode = ReadMode::direct;
    const auto engine = make_thread_engine(requests, options, timing);
    const StoragePointRun point(*engine, *requests, count, seconds / 2, stop, timing);
    if (point.failed() > 0 || point.bytes_per_s() <= 0) return {};
    points.push_back({static_cast<double>(request), count, point.bytes_per_s()});
  }
  return points;
}

}  // namespace dsanalyze
