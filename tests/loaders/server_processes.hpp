#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "loaders/server/server_scope.hpp"

namespace dsanalyze::testing {

constexpr std::uint32_t server_samples = 100;
constexpr std::uint32_t sample_bytes = 1000;
constexpr Bytes all_bytes = Bytes{server_samples} * sample_bytes;

inline CacheOptions minio(Bytes capacity) { return {CacheKind::minio, capacity, server_samples, all_bytes, sample_bytes, 64}; }

inline std::vector<std::byte> content_of(std::uint64_t key) {
  std::vector<std::byte> bytes(sample_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key * 31 + i);
  return bytes;
}

inline CacheLookup look_up(RawCache& cache, std::uint64_t key, float priority = 0) {
  const CacheAccess access{key, sample_bytes, 0, priority};
  CacheLookup lookup;
  cache.lookup({&access, 1}, {&lookup, 1});
  return lookup;
}

/// Looks up keys in order; stores what the cache wants. Returns how many were hits with the right bytes.
inline int fill(RawCache& cache, std::uint64_t first, std::uint64_t last) {
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
inline bool all_gone(const ServerHolder& holder) {
  const Deadline deadline = system_timing().clock->after(10);
  std::atomic<std::uint32_t> word{0};
  while (holder.clients() > 0 && system_timing().clock->now() < deadline.at)
    system_timing().waiter->wait(word, 0, system_timing().clock->after(0.005));
  return holder.clients() == 0;
}

}  // namespace dsanalyze::testing
