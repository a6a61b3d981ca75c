#include "dsanalyze/loaders/server_scope.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "dsanalyze/base/shared_memory.hpp"
#include "made_dataset.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t samples = 100;
constexpr std::uint32_t sample_bytes = 1000;

CacheOptions minio(Bytes capacity) { return {CacheKind::minio, capacity, samples, samples * sample_bytes, sample_bytes, 64}; }

std::vector<std::byte> content_of(std::uint64_t key) {
  std::vector<std::byte> bytes(sample_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key * 31 + i);
  return bytes;
}

CacheLookup look_up(RawCache& cache, std::uint64_t key) {
  const CacheAccess access{key, sample_bytes, 0, 0};
  CacheLookup lookup;
  cache.lookup({&access, 1}, {&lookup, 1});
  return lookup;
}

/// Looks up keys in order; stores what the cache wants. Returns how many were hits with the right bytes.
int fill(RawCache& cache, std::uint64_t first, std::uint64_t last) {
  int right = 0;
  std::vector<std::byte> scratch(sample_bytes);
  for (std::uint64_t key = first; key < last; ++key) {
    const CacheLookup lookup = look_up(cache, key);
    if (lookup.decision == CacheDecision::admit) static_cast<void>(cache.store(key, content_of(key)).ok());
    if (lookup.decision == CacheDecision::hit) {
      const auto bytes = cache.read(lookup, scratch);
      if (std::ranges::equal(bytes, content_of(key))) ++right;
      cache.release({&lookup, 1});
    }
  }
  return right;
}

/// A child process with its end of a socket to the holder; kill() is SIGKILL.
class Child {
 public:
  template <typename Body>
  Child(ServerHolder& holder, const Body& body) {
    auto [mine, theirs] = socket_pair();
    m_pid = ::fork();
    if (m_pid == 0) {
      mine.reset();
      int status = 98;
      try {
        status = body(std::move(theirs));
      } catch (const std::exception&) {
        status = 99;
      }
      ::_exit(status);
    }
    theirs.reset();
    holder.serve(std::move(mine));
  }
  int wait() {
    int status = 0;
    while (::waitpid(m_pid, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill() const { ::kill(m_pid, SIGKILL); }

 private:
  pid_t m_pid = -1;
};

/// Waits until the holder has let go of all clients.
bool all_gone(const ServerHolder& holder) {
  const Deadline deadline = system_timing().clock->after(10);
  std::atomic<std::uint32_t> word{0};
  while (holder.clients() > 0 && system_timing().clock->now() < deadline.at)
    system_timing().waiter->wait(word, 0, system_timing().clock->after(0.005));
  return holder.clients() == 0;
}

TEST_CASE("a second process attaches to cache and emulated devices; the one that filled them is killed, and the work goes on") {
  ServerHolder holder(minio(samples * sample_bytes), system_timing());
  auto [signal_out, signal_in] = socket_pair();
  Child filler(holder, [&](FileDescriptor socket) {
    const auto server = attach_server(std::move(socket), system_timing());
    fill(server->cache(), 0, 60);
    look_up(server->cache(), 60);  // promised, never stored
    const StorageDeviceSpec disk{1e6, 0, 1};
    storage_request_end(server->devices().storage, disk, 1'000'000, system_timing().clock->now());
    const std::byte done{1};
    static_cast<void>(send_message(signal_in.get(), {&done, 1}, {}, system_timing().clock->after(5)).ok());
    ::pause();
    return 0;
  });
  std::byte done{};
  std::size_t size = 0;
  std::vector<FileDescriptor> none;
  REQUIRE(receive_message(signal_out.get(), {&done, 1}, size, none, system_timing().clock->after(10)).ok());
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
    fill(server->cache(), 60, samples);
    return right == 60 && fill(server->cache(), 0, samples) == samples ? 0 : 1;
  });
  CHECK(second.wait() == 0);
  REQUIRE(all_gone(holder));
  CHECK(fill(holder.cache(), 0, samples) == samples);
}

TEST_CASE("several processes that fill one MinIO cache together never exceed its capacity, and agree on what is held") {
  ServerHolder holder(minio(37 * sample_bytes + 500), system_timing());
  std::vector<std::unique_ptr<Child>> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(std::make_unique<Child>(holder, [child](FileDescriptor socket) {
      const auto server = attach_server(std::move(socket), system_timing());
      for (int round = 0; round < 3; ++round) fill(server->cache(), static_cast<std::uint64_t>(child) * 20, samples);
      return 0;
    }));
  }
  for (auto& child : children) CHECK(child->wait() == 0);
  REQUIRE(all_gone(holder));
  CHECK(holder.cache().totals().items == 37);
  CHECK(holder.cache().totals().bytes == 37 * sample_bytes);
  CHECK(fill(holder.cache(), 0, samples) == 37);
}

TEST_CASE("a client that sends garbage loses its connection and harms nobody") {
  ServerHolder holder(minio(samples * sample_bytes), system_timing());
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

TEST_CASE("eight processes on one emulated disk get its bandwidth once") {
  ServerHolder holder({}, system_timing());
  const StorageDeviceSpec disk{100e6, 0, 4};
  const Nanoseconds begun = system_timing().clock->now();
  // Reservations only: the recurrence says when the last of them would be served.
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (int i = 0; i < 100; ++i) storage_request_end(holder.devices().storage, disk, 1'000'000, begun);
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
  const double seconds = to_seconds(holder.devices().storage.transfer.next_free.load() - begun);
  CHECK(seconds == doctest::Approx(8 * 100 * 1e6 / 100e6).epsilon(0.001));
}

}  // namespace
}  // namespace dsanalyze
