#include "loaders/server/server_scope.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <limits>
#include <string>

#include "../base/moved_clock.hpp"
#include "../base/sanitizers.hpp"
#include "base/error.hpp"
#include "server_processes.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

std::unique_ptr<ServerScope> attach_here(ServerHolder& holder, Timing timing = system_timing()) {
  auto [mine, theirs] = socket_pair();
  holder.serve(std::move(mine));
  return attach_server(std::move(theirs), timing);
}

/// While it lives no file, so no segment either, can be made larger than `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) : m_handler(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &m_before);
    const rlimit limit{bytes, m_before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &m_before);
    ::signal(SIGXFSZ, m_handler);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t m_handler;
  rlimit m_before{};
};

TEST_CASE("a second process attaches to cache and emulated devices; the one that filled them is killed, and the work goes on" *
          doctest::skip(fork_may_hang)) {
  ServerHolder holder(minio(all_bytes), system_timing());
  const auto signal = socket_pair();
  Child filler(holder, [&](FileDescriptor socket) {
    const auto server = attach_server(std::move(socket), system_timing());
    fill(server->cache(), 0, 60);
    look_up(server->cache(), 60);  // promised, never stored
    const StorageDeviceSpec disk{1e6, 0, 1};
    storage_request_end(server->devices().storage, disk, 1'000'000, system_timing().clock->now());
    const std::byte done{1};
    static_cast<void>(send_message(signal.second.get(), {&done, 1}, {}, system_timing().clock->after(5)).ok());
    ::pause();
    return 0;
  });
  std::byte done{};
  std::size_t size = 0;
  std::vector<FileDescriptor> none;
  REQUIRE(receive_message(signal.first.get(), {&done, 1}, size, none, system_timing().clock->after(10)).ok());
  CHECK(holder.devices().storage.transfer.next_free.load() > system_timing().clock->now());  // the disk is busy for everyone
  filler.kill();
  CHECK(filler.wait() == -SIGKILL);
  REQUIRE(all_gone(holder));

  CHECK(holder.cache().totals().items == 60);
  CHECK(fill(holder.cache(), 0, 60) == 60);                             // the dead process's bytes, read by the holder
  CHECK(look_up(holder.cache(), 60).decision == CacheDecision::admit);  // what it had promised is free again
  holder.cache().abandon(60);

  Child second(holder, [](FileDescriptor socket) {
    const auto server = attach_server(std::move(socket), system_timing());
    const int right = fill(server->cache(), 0, 60);
    fill(server->cache(), 60, server_samples);
    return right == 60 && fill(server->cache(), 0, server_samples) == server_samples ? 0 : 1;
  });
  CHECK(second.wait() == 0);
  REQUIRE(all_gone(holder));
  CHECK(fill(holder.cache(), 0, server_samples) == server_samples);
}

TEST_CASE("several processes that fill one MinIO cache together never exceed its capacity, and agree on what is held" *
          doctest::skip(fork_may_hang)) {
  ServerHolder holder(minio(Bytes{37} * sample_bytes + 500), system_timing());
  std::vector<std::unique_ptr<Child>> children;
  children.reserve(4);
  for (int child = 0; child < 4; ++child) {
    children.push_back(std::make_unique<Child>(holder, [child](FileDescriptor socket) {
      const auto server = attach_server(std::move(socket), system_timing());
      for (int round = 0; round < 3; ++round) fill(server->cache(), static_cast<std::uint64_t>(child) * 20, server_samples);
      return 0;
    }));
  }
  for (auto& child : children) CHECK(child->wait() == 0);
  REQUIRE(all_gone(holder));
  CHECK(holder.cache().totals().items == 37);
  CHECK(holder.cache().totals().bytes == 37 * sample_bytes);
  CHECK(fill(holder.cache(), 0, server_samples) == 37);
}

TEST_CASE("cost-aware admission asks the same priority of every process") {
  CacheOptions options = minio(all_bytes);
  options.least_priority = 0.25F;
  ServerHolder holder(options, system_timing());
  const auto server = attach_here(holder);
  for (RawCache* cache : {&holder.cache(), &server->cache()}) {
    CHECK(look_up(*cache, 1, 0.2F).decision == CacheDecision::bypass);
    CHECK(look_up(*cache, 1, std::numeric_limits<float>::quiet_NaN()).decision == CacheDecision::bypass);
    REQUIRE(look_up(*cache, 1, 0.25F).decision == CacheDecision::admit);
    cache->abandon(1);
  }
  REQUIRE(look_up(server->cache(), 2, 0.25F).decision == CacheDecision::admit);
  REQUIRE(server->cache().store(2, content_of(2)).ok());
  REQUIRE(look_up(server->cache(), 3, 0.3F).decision == CacheDecision::admit);  // with the answer, what was published before is in the directory
  CHECK(look_up(holder.cache(), 2, 0).decision == CacheDecision::hit);
}

TEST_CASE("a client that sends garbage loses its connection and harms no other") {
  ServerHolder holder(minio(all_bytes), system_timing());
  fill(holder.cache(), 0, 10);
  auto [mine, theirs] = socket_pair();
  holder.serve(std::move(mine));
  const std::string garbage(5000, '\xff');
  static_cast<void>(send_message(theirs.get(), std::as_bytes(std::span(garbage)), {}, system_timing().clock->after(1)).ok());
  REQUIRE(all_gone(holder));
  CHECK(fill(holder.cache(), 0, 10) == 10);
}

TEST_CASE("attaching to a holder that is gone is a clear error") {
  auto [mine, theirs] = socket_pair();
  mine.reset();
  CHECK_THROWS_AS(attach_server(std::move(theirs), system_timing()), Error);
}

TEST_CASE("eight processes on one emulated disk get its bandwidth once, whatever the cache" * doctest::skip(fork_may_hang)) {
  ServerHolder holder({}, system_timing());
  const StorageDeviceSpec disk{100e6, 0, 4};
  const Nanoseconds begun = system_timing().clock->now();
  // Reservations only: the recurrence says when the last of them would be served.
  std::vector<std::unique_ptr<Child>> children;
  children.reserve(8);
  for (int child = 0; child < 8; ++child) {
    children.push_back(std::make_unique<Child>(holder, [&](FileDescriptor socket) {
      const auto server = attach_server(std::move(socket), system_timing());
      for (int i = 0; i < 100; ++i) storage_request_end(server->devices().storage, disk, 1'000'000, begun);
      return 0;
    }));
  }
  for (auto& child : children) CHECK(child->wait() == 0);
  const double seconds = to_seconds(holder.devices().storage.transfer.next_free.load() - begun);
  CHECK(seconds == doctest::Approx(8 * 100 * 1e6 / 100e6).epsilon(0.001));
}

TEST_CASE("attaching without a MinIO cache gives the devices and a cache that holds nothing") {
  for (const CacheKind kind : {CacheKind::none, CacheKind::page, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
    CAPTURE(cache_kind_name(kind));
    CacheOptions options = minio(all_bytes);
    options.kind = kind;
    ServerHolder holder(options, system_timing());
    const auto server = attach_here(holder);
    server->devices().storage.transfer.next_free.store(7);
    CHECK(holder.devices().storage.transfer.next_free.load() == 7);
    CHECK(look_up(server->cache(), 1).decision == CacheDecision::bypass);
    CHECK(server->cache().totals().capacity == 0);
  }
}

TEST_CASE("a process that cannot have memory for what it would keep keeps nothing, holds nothing back, and tries again later") {
  ServerHolder holder(minio(all_bytes), system_timing());
  MovedClock clock;
  const auto server = attach_here(holder, clock.timing());
  RawCache& cache = server->cache();
  {
    const FileSizeLimit limit(4096);
    REQUIRE(look_up(cache, 1).decision == CacheDecision::admit);
    REQUIRE(look_up(cache, 2).decision == CacheDecision::admit);
    CHECK_FALSE(cache.store(1, content_of(1)).ok());
    CHECK_FALSE(cache.store(2, content_of(2)).ok());
    CHECK(look_up(cache, 3).decision == CacheDecision::bypass);  // not asked for: it could not be kept
  }
  clock.move(1.5);
  fill(cache, 0, server_samples);
  CHECK(fill(cache, 0, server_samples) == server_samples);  // had 1 or 2 not been abandoned, they would be a bypass for ever
}

TEST_CASE("a process that comes when the cache is nearly full takes memory for the rest, not for the whole cache") {
  ServerHolder holder(minio(all_bytes), system_timing());
  fill(holder.cache(), 0, 90);
  const auto server = attach_here(holder);
  const FileSizeLimit limit(std::uint64_t{11} * (sample_bytes + 64));
  CHECK(fill(server->cache(), 0, server_samples) == 90);
  CHECK(fill(server->cache(), 90, server_samples) == 10);
  CHECK(fill(holder.cache(), 0, server_samples) == server_samples);
}

TEST_CASE("bytes that exceed what was admitted are not kept, and the item is free again") {
  ServerHolder holder(minio(all_bytes), system_timing());
  const auto server = attach_here(holder);
  const std::vector<std::byte> large(sample_bytes + 1);
  for (RawCache* cache : {&holder.cache(), &server->cache()}) {
    REQUIRE(look_up(*cache, 5).decision == CacheDecision::admit);
    CHECK(cache->store(5, large).code == StatusCode::corrupt);
  }
  REQUIRE(look_up(server->cache(), 5).decision == CacheDecision::admit);
  CHECK(server->cache().store(5, content_of(5)).ok());
  CHECK(fill(server->cache(), 5, 6) == 1);
}

TEST_CASE("keys that are no sample's are a bypass") {
  ServerHolder holder(minio(all_bytes), system_timing());
  const auto server = attach_here(holder);
  for (RawCache* cache : {&holder.cache(), &server->cache()}) {
    CHECK(look_up(*cache, server_samples).decision == CacheDecision::bypass);
    CHECK(look_up(*cache, UINT64_MAX).decision == CacheDecision::bypass);
    CHECK(look_up(*cache, 0).decision == CacheDecision::admit);  // the line still stands
    cache->abandon(0);
  }
}

TEST_CASE("when the holder is gone, what was found before stays readable and everything else is a bypass") {
  auto holder = std::make_unique<ServerHolder>(minio(all_bytes), system_timing());
  fill(holder->cache(), 0, 10);
  const auto server = attach_here(*holder);
  REQUIRE(fill(server->cache(), 0, 10) == 10);
  REQUIRE(look_up(server->cache(), 50).decision == CacheDecision::admit);
  holder.reset();
  CHECK_FALSE(server->cache().store(50, content_of(50)).ok());
  CHECK(fill(server->cache(), 0, 10) == 10);
  CHECK(look_up(server->cache(), 60).decision == CacheDecision::bypass);
}

}  // namespace
}  // namespace dsanalyze
