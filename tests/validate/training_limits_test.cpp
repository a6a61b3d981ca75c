#include "validate/training_limits.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

constexpr Bytes data_bytes = 200'000;

/// A training that reads two files, of storage that supplies 100 MB/s to one reader and 150 MB/s to four.
ProfileResult reading_profile(const TemporaryFolder& folder) {
  folder.write("a", std::string(data_bytes / 2, 'a'));
  folder.write("more/b", std::string(data_bytes / 2, 'b'));
  ProfileResult profile;
  RateRecord storage;
  storage.bytes_per_s = 1e8;
  profile.storage = storage;
  profile.storage_by_request = {{100'000, 1, 1e8}, {100'000, 4, 1.5e8}};
  ReadsRecord reads;
  reads.dataset_bytes = data_bytes;
  reads.page_cache_bytes = Bytes{1} << 30;
  reads.dataset_path = folder.path().native();
  profile.reads = reads;
  return profile;
}

WhatIfChange with_cache(double fraction, Bytes bytes) {
  WhatIfChange change;
  change.cache_fraction = fraction;
  change.cache_bytes = bytes;
  return change;
}

}  // namespace

TEST_CASE("what cannot be limited here is said why") {
  const TemporaryFolder folder;
  ProfileResult profile = reading_profile(folder);
  CHECK(limits_refused(profile, {}).empty());
  CHECK(limits_refused(profile, with_cache(1, data_bytes)).empty());
  CHECK(limits_refused(profile, with_cache(0.5, Bytes{1} << 20)).find("below 32 MiB") != std::string::npos);
  CHECK(limits_refused(profile, with_cache(0.5, Bytes{2} << 30)).find("this machine has 1 GiB") != std::string::npos);
  profile.reads->page_cache_bytes = data_bytes / 2;
  CHECK(limits_refused(profile, with_cache(1, data_bytes)).find("this machine has") != std::string::npos);
  profile.reads->page_cache_bytes = Bytes{1} << 30;
  WhatIfChange change;
  change.storage_factor = 2;
  CHECK(limits_refused(profile, change).find("given as a rate") != std::string::npos);
  change = {};
  change.storage_bytes_per_s = 1.49e8;
  CHECK(limits_refused(profile, change).find("150 MB/s at most") != std::string::npos);
  change.storage_bytes_per_s = 5e7;
  profile.reads->dataset_bytes = data_bytes * 10;
  CHECK(limits_refused(profile, change).find("an epoch reads") != std::string::npos);
  profile.reads->dataset_bytes = data_bytes / 10;
  CHECK(limits_refused(profile, change).find("holds more than") != std::string::npos);
  profile.reads->dataset_path.clear();
  CHECK(limits_refused(profile, change).find("not in the profile") != std::string::npos);
  profile.reads.reset();
  CHECK(limits_refused(profile, change).find("not in the profile") != std::string::npos);
}

TEST_CASE("the page cache is filled by four epochs where it is limited, by one where all fits, and not where nothing is known") {
  const TemporaryFolder folder;
  ProfileResult profile = reading_profile(folder);
  CHECK(fill_seconds(profile, {}) == doctest::Approx(0.002));
  CHECK(fill_seconds(profile, with_cache(0.5, data_bytes / 2)) == doctest::Approx(0.008));
  CHECK(settling_seconds({}) == 0);
  CHECK(settling_seconds(with_cache(0.5, data_bytes / 2)) > 0);
  profile.reads->page_cache_bytes = data_bytes / 2;
  CHECK(fill_seconds(profile, {}) == 0);
  profile.storage.reset();
  CHECK(fill_seconds(profile, with_cache(0.5, data_bytes / 2)) == 0);
}

TEST_CASE("a training whose data is not known starts as it does, and a stop ends the filling") {
  const TemporaryFolder folder;
  ProfileResult profile = reading_profile(folder);
  const std::stop_source stop;
  { const TrainingLimits none(profile, {}, 1, stop.get_token(), system_timing()); }
  profile.reads->dataset_path = "/no/such/folder";
  { const TrainingLimits none(profile, {}, 1, stop.get_token(), system_timing()); }
  CHECK_THROWS_AS(TrainingLimits(profile, with_cache(0.5, Bytes{40} << 20), 1, stop.get_token(), system_timing()), Error);
  std::stop_source stopped;
  stopped.request_stop();
  const ProfileResult whole = reading_profile(folder);
  CHECK_THROWS_AS(TrainingLimits(whole, {}, 1, stopped.get_token(), system_timing()), Interrupted);
}

TEST_CASE("a storage that has become far slower than the profile says ends the filling") {
  /// A minute passes between two looks.
  struct Hasty : Clock {
    [[nodiscard]] Nanoseconds now() const override { return m_now += to_nanoseconds(60); }
    mutable Nanoseconds m_now = 0;
  };
  const TemporaryFolder folder;
  ProfileResult profile = reading_profile(folder);
  const Hasty hasty;
  const Timing timing{&hasty, system_timing().waiter};
  const auto message = [&] {
    try {
      const TrainingLimits filled(profile, {}, 1, {}, timing);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("filled");
  };
  CHECK(message() == "the data was not read into the page cache within 30 s: storage is far slower than when the training was profiled");
  profile.storage->bytes_per_s = 10;  // One that supplies 10 B/s would take hours.
  CHECK(message() == "filled");
  profile.storage.reset();  // not known: then nothing is said of how fast it was
  CHECK(message().starts_with("the data was not read into the page cache within 30 s: storage supplies less than "));
}

TEST_CASE("less memory counts from when the start is over, and what is not limited is held for ever") {
  const TemporaryFolder folder;
  const ProfileResult profile = reading_profile(folder);
  const std::stop_source stop;
  const WhatIfChange change = with_cache(0.5, Bytes{40} << 20);
  CHECK(TrainingLimits(profile, {}, 1, stop.get_token(), system_timing()).held_for(1e9));
  if (const std::string refused = limits_refused(profile, change); !refused.empty()) {
    MESSAGE("not tested here: ", refused);
    return;
  }
  CHECK_FALSE(TrainingLimits(profile, change, 1e6, stop.get_token(), system_timing()).held_for(0));
  const TrainingLimits limited(profile, change, 0, stop.get_token(), system_timing());
  const Deadline soon = system_timing().clock->after(10);
  while (!limited.held_for(0) && system_timing().clock->now() < soon.at) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(limited.held_for(0));
  CHECK_FALSE(limited.held_for(1e6));
}

TEST_CASE("a limited page cache is filled within its limit, as a long run leaves it") {
  const TemporaryFolder folder;
  constexpr int files = 12;
  constexpr Bytes each = Bytes{8} << 20;
  constexpr Bytes size = Bytes{40} << 20;
  for (int file = 0; file < files; ++file) folder.write(std::to_string(file), std::string(each, 'a'));
  ProfileResult profile = reading_profile(folder);
  profile.reads->dataset_bytes = files * each + data_bytes;
  const WhatIfChange change = with_cache(0.4, size);
  struct statfs system {};
  REQUIRE(::statfs(folder.path().c_str(), &system) == 0);
  const bool in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
  if (const std::string refused = in_memory ? "the folder is in memory" : limits_refused(profile, change); !refused.empty()) {
    MESSAGE("not tested here: ", refused);
    return;
  }
  ::sync();
  const std::stop_source stop;
  const TrainingLimits limited(profile, change, 1e6, stop.get_token(), system_timing());
  Bytes resident = 0;
  for (int file = 0; file < files; ++file) {
    const FileDescriptor descriptor(::open((folder.path() / std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC));
    void* const map = ::mmap(nullptr, each, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    REQUIRE(map != MAP_FAILED);
    std::vector<unsigned char> pages(each / 4096);
    if (::mincore(map, each, pages.data()) == 0)
      resident += 4096 * static_cast<Bytes>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
    ::munmap(map, each);
  }
  CHECK(resident > size / 2);
  CHECK(resident < size + (Bytes{8} << 20));
}
