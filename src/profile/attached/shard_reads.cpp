#include "shard_reads.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>

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

bool is_large_beside(const std::filesystem::path& file, const std::filesystem::path& like) {
  constexpr Bytes block = 512;  // of st_blocks
  struct ::stat wanted = {};
  struct ::stat found = {};
  if (::stat(like.c_str(), &wanted) != 0 || ::stat(file.c_str(), &found) != 0) return false;
  const auto size = static_cast<Bytes>(found.st_size);
  return S_ISREG(found.st_mode) && found.st_dev == wanted.st_dev && size >= least_file && static_cast<Bytes>(found.st_blocks) * block >= size;
}

std::optional<std::filesystem::path> large_file_beside(const std::filesystem::path& folder, const std::filesystem::path& like) {
  std::optional<std::filesystem::path> largest;
  std::uintmax_t most = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!is_large_beside(entry->path(), like)) continue;
    std::error_code gone;
    const std::uintmax_t size = entry->file_size(gone);
    if (gone || size <= most) continue;
    most = size;
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
  for (const int count : std::set{1, readers}) {
    if (size < static_cast<Bytes>(count) * request) continue;
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
