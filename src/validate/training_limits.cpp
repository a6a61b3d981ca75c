#include "training_limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr Bytes least_page_cache = Bytes{32} << 20;  ///< beside processes that work
constexpr Bytes room_to_start = Bytes{1} << 30;
constexpr std::chrono::milliseconds between_looks{100};
/// Until each misses as much as the next, by the policy page-model:linux and a random order of which a quarter fits.
constexpr int epochs_before = 4;
constexpr double most_of_storage = 0.98;  ///< a limit above this is none

struct DataFile {
  fs::path path;
  Bytes bytes = 0;
};

/// Below the path, in no order, and no more than a little beyond `expected`: then these are not the dataset's.
struct DataFiles {
  std::vector<DataFile> files;
  Bytes bytes = 0;
};
DataFiles data_files(const fs::path& place, Bytes expected) {
  constexpr std::size_t most_entries = 5'000'000;
  std::size_t entries = 0;
  DataFiles found;
  const auto add = [&](const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    found.files.push_back({path, static_cast<Bytes>(info.st_size)});
    found.bytes += found.files.back().bytes;
  };
  std::error_code error;
  if (!fs::is_directory(place, error)) {
    add(place);
    return found;
  }
  for (fs::recursive_directory_iterator
           entry(place, fs::directory_options::follow_directory_symlink | fs::directory_options::skip_permission_denied, error),
       end;
       !error && entry != end && found.bytes <= 2 * expected; entry.increment(error)) {
    if (++entries > most_entries)
      throw Error(fmt::format("which files its epochs read is not known: {} holds more than {} files and folders", printable(place.native()),
                              format_number(static_cast<double>(most_entries))));
    add(entry->path());
  }
  return found;
}

/// The files of the profile's dataset. Throws Error where they are not what its epochs read.
std::vector<DataFile> files_of(const ProfileResult& profile) {
  constexpr double alike = 0.1;
  if (!profile.reads || !profile.reads->dataset_bytes || profile.reads->dataset_path.empty())
    throw Error("which files its epochs read is not in the profile");
  const auto expected = static_cast<double>(*profile.reads->dataset_bytes);
  DataFiles found = data_files(profile.reads->dataset_path, *profile.reads->dataset_bytes);
  if (static_cast<double>(found.bytes) < (1 - alike) * expected || static_cast<double>(found.bytes) > (1 + alike) * expected)
    throw Error(fmt::format("which files its epochs read is not known: {} holds {}{}, and an epoch reads {}", printable(profile.reads->dataset_path),
                            static_cast<double>(found.bytes) > 2 * expected ? "more than " : "", format_bytes(found.bytes),
                            format_bytes(*profile.reads->dataset_bytes)));
  return std::move(found.files);
}

void drop(const DataFile& file) {
  const FileDescriptor descriptor(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.valid()) ::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
}

/// Reads all of them, each time in another order. Throws Interrupted, and Error where that takes far longer than `expected_seconds`, by the profile.
void read_whole(std::vector<DataFile>& files, int times, double expected_seconds, const std::stop_token& stop, const Clock& clock) {
  constexpr double slack_seconds = 30;
  constexpr double slack = 3;
  constexpr double slowest = 20e6;  ///< bytes a second, of a storage that the profile does not know
  double bytes = 0;
  for (const DataFile& file : files) bytes += static_cast<double>(file.bytes);
  const double most_seconds = slack_seconds + slack * (expected_seconds > 0 ? expected_seconds : times * bytes / slowest);
  const Deadline read_by = clock.after(most_seconds);
  const std::string slow = expected_seconds > 0 ? "storage is far slower than when the training was profiled"
                                                : "storage supplies less than " + format_bytes_per_second(times * bytes / most_seconds);
  constexpr std::uint64_t seed = 7;
  RandomStream random(seed);
  static thread_local std::array<char, std::size_t{256} << 10> buffer;
  for (int time = 0; time < times; ++time) {
    for (std::size_t at = files.size(); at > 1; --at) std::swap(files[at - 1], files[random.below(at)]);
    for (const DataFile& file : files) {
      const FileDescriptor descriptor(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
      while (descriptor.valid() && ::read(descriptor.get(), buffer.data(), buffer.size()) > 0) {
        if (stop.stop_requested()) throw Interrupted();
        if (clock.now() > read_by.at)
          throw Error(fmt::format("the data was not read into the page cache within {}: {}", format_seconds(most_seconds), slow));
      }
    }
  }
}

/// The memory for page cache that the change leaves, where it is less than the dataset.
std::optional<Bytes> page_cache_of(const WhatIfChange& change) {
  if (!change.cache_bytes || change.cache_fraction.value_or(0) >= 1) return std::nullopt;
  return change.cache_bytes;
}

bool fits_in_memory(const ProfileResult& profile) {
  return profile.reads && profile.reads->dataset_bytes && profile.reads->page_cache_bytes &&
         *profile.reads->dataset_bytes <= *profile.reads->page_cache_bytes;
}

/// What storage supplies, at best.
double best_bytes_per_s(const ProfileResult& profile) {
  double best = profile.storage ? profile.storage->bytes_per_s : 0;
  for (const StoragePoint& point : profile.storage_by_request) best = std::max(best, point.bytes_per_s);
  return best;
}

std::string memory_here(const ProfileResult& profile) {
  return fmt::format("this machine has {} for the page cache", format_bytes(profile.reads->page_cache_bytes.value_or(0)));
}

std::string page_cache_refused(const ProfileResult& profile, Bytes size) {
  if (size < least_page_cache) return fmt::format("a page cache below {} cannot be held beside processes that work", format_bytes(least_page_cache));
  if (size > profile.reads->page_cache_bytes.value_or(0)) return memory_here(profile);
  files_of(profile);
  const MemoryGroup permitted;
  return "";
}

std::string order_refused(const WhatIfChange& change) {
  if (change.order.empty()) return "";
  return change.order == "shards"
             ? "the samples would have to be packed into shards first (docs/datasets.md); then profile the script that reads them"
             : "the script chooses the order in which it reads (shuffle=, sampler=): change it, and profile it again";
}

std::string storage_refused(const ProfileResult& profile, const WhatIfChange& change) {
  if (change.storage_factor && *change.storage_factor != 1)
    return "another storage can be run here only where it is slower and given as a rate (--storage 200MB/s)";
  if (!change.storage_bytes_per_s) return "";
  if (*change.storage_bytes_per_s > most_of_storage * best_bytes_per_s(profile))
    return fmt::format("storage here supplies {} at most: a faster one cannot be run", format_bytes_per_second(best_bytes_per_s(profile)));
  files_of(profile);
  const StorageGroup permitted(profile.reads->dataset_path, *change.storage_bytes_per_s);
  return "";
}

}  // namespace

std::string limits_refused(const ProfileResult& profile, const WhatIfChange& change) {
  try {
    if (const auto size = page_cache_of(change)) {
      if (std::string reason = page_cache_refused(profile, *size); !reason.empty()) return reason;
    } else if (change.cache_bytes && profile.reads && !fits_in_memory(profile)) {
      return memory_here(profile);
    }
    if (std::string reason = order_refused(change); !reason.empty()) return reason;
    return storage_refused(profile, change);
  } catch (const Error& error) {
    return error.what();
  }
}

double fill_seconds(const ProfileResult& profile, const WhatIfChange& change) {
  // One reader fills it.
  const auto fewest = std::ranges::min_element(profile.storage_by_request, {}, &StoragePoint::concurrency);
  const double best = profile.storage ? profile.storage->bytes_per_s : 0;
  const double supplied = fewest != profile.storage_by_request.end() ? std::min(fewest->bytes_per_s, best) : best;
  const bool limited = page_cache_of(change).has_value();
  if (supplied <= 0 || !profile.reads || !profile.reads->dataset_bytes || (!limited && !fits_in_memory(profile))) return 0;
  return (limited ? epochs_before : 1) * static_cast<double>(*profile.reads->dataset_bytes) / supplied;
}

double settling_seconds(const WhatIfChange& change) {
  constexpr double seconds = 3;
  return page_cache_of(change) ? seconds : 0;
}

TrainingLimits::TrainingLimits(const ProfileResult& profile, const WhatIfChange& change, double start_seconds, const std::stop_token& stop,
                               Timing timing) {
  m_clock = timing.clock;
  const auto size = page_cache_of(change);
  std::vector<DataFile> files;
  try {
    if (size || fits_in_memory(profile)) files = files_of(profile);
  } catch (const Error&) {
    if (size) throw;  // A training whose data is not known starts as it does.
  }
  if (size) {
    for (const DataFile& file : files) drop(file);
    m_memory = std::make_unique<MemoryGroup>();
    hold(*size);
    m_follower = std::jthread([this, target = *size](const std::stop_token& ending) { follow(target, ending); });
  }
  read_whole(files, size ? epochs_before : 1, fill_seconds(profile, change), stop, *timing.clock);
  if (change.storage_bytes_per_s) m_storage = std::make_unique<StorageGroup>(profile.reads->dataset_path, *change.storage_bytes_per_s);
  if (!size) return;
  {
    const std::lock_guard lock(m_limiting);
    m_started_by = timing.clock->after(start_seconds).at;
  }
  hold(*size);
}

bool TrainingLimits::hold(Bytes target) {
  const std::lock_guard lock(m_limiting);
  const bool filled = m_started_by != never_held;
  const bool starting = filled && m_clock->now() < m_started_by;
  const MemoryGroup::Use use = m_memory->use();
  m_memory->limit(target + std::max(use.total - std::min(use.total, use.page_cache), starting ? room_to_start : 0));
  return filled && !starting;
}

void TrainingLimits::follow(Bytes target, const std::stop_token& ending) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  while (!ending.stop_requested()) {
    try {
      if (hold(target) && m_held_since == never_held) m_held_since = m_clock->now();
    } catch (const Error&) {
      m_held_since = never_held;  // The group is as large as it was.
      return;
    }
    woken.wait_for(lock, ending, between_looks, [] { return false; });
  }
}

bool TrainingLimits::held_for(double seconds) const {
  if (!m_memory) return true;
  const Nanoseconds since = m_held_since;
  return since != never_held && to_seconds(m_clock->now() - since) >= seconds;
}

}  // namespace dsanalyze
