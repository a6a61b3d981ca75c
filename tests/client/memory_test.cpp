#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "../base/sanitizers.hpp"
#include "client_rig.hpp"

namespace dsanalyze::testing {
namespace {

constexpr std::uint64_t page_bytes = 4096;

std::uint64_t address_space_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * page_bytes;
}

/// How a job ends that may take so much more memory than this process has, or less: the status of the first call that is neither well nor late.
int with_memory(std::int64_t bytes, const dsa_options& options, std::uint64_t batches) {
  return in_child([&] {
    const rlimit limit{address_space_bytes() + static_cast<std::uint64_t>(bytes), RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    dsa_client* client = nullptr;
    dsa_status status = dsa_attach(&options, &client);
    dsa_batch batch = DSA_BATCH_INIT;
    int descriptor = -1;
    if (status == DSA_OK && batches > 0) status = dsa_event_fd(client, &descriptor);
    for (std::uint64_t taken = 0; status == DSA_OK && taken < batches; ++taken) {
      while ((status = dsa_next(client, &batch, -1)) == DSA_TIMEOUT) continue;
      if (status == DSA_OK) status = dsa_release(client, batch.token);
    }
    return static_cast<int>(status);
  });
}

}  // namespace

TEST_CASE("a job that has not the memory to attach is told so, whichever part of it is missing" * doctest::skip(threads_only)) {
  const CoordinatorProcess group({.jobs = 2, .epochs = 0});
  const dsa_options options = group.options();
  std::map<int, int> ends;
  // Stacks of threads that have ended are memory that a job may take for others: none of it counts for the first one.
  constexpr std::int64_t stacks = 64 << 20;
  ++ends[with_memory(-stacks, options, 0)];
  for (std::int64_t kilobytes = 0; kilobytes < 96 << 10; kilobytes += kilobytes < 2048 ? 32 : 3072) {
    const int end = with_memory(kilobytes * 1024, options, 0);
    CAPTURE(kilobytes);
    CHECK((end == DSA_OK || end == DSA_NO_MEMORY));
    ++ends[end];
  }
  CHECK(ends[DSA_NO_MEMORY] > 0);
  CHECK(ends[DSA_OK] > 0);
}

TEST_CASE("a job that runs short of memory while it trains is told so" * doctest::skip(threads_only)) {
  const CoordinatorProcess group({.jobs = 1, .epochs = 0});
  const dsa_options options = group.options();
  for (std::int64_t megabytes = 0; megabytes < 96; megabytes += 8) {
    const int end = with_memory(megabytes << 20, options, 3 * rig_samples / rig_batch_size);
    CAPTURE(megabytes);
    CHECK((end == DSA_OK || end == DSA_NO_MEMORY));
  }
}

TEST_CASE("a process that may open no more files is told so, and not that there is no group" * doctest::skip(threads_only)) {
  const CoordinatorProcess group({.jobs = 2, .epochs = 0});
  const dsa_options options = group.options();
  for (const rlim_t more : {0, 1, 2, 3, 4, 5, 6, 8}) {
    CAPTURE(more);
    const int end = in_child([&] {
      const rlim_t open = static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})) - 1;
      const rlimit limit{open + more, open + more};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      dsa_client* client = nullptr;
      return static_cast<int>(dsa_attach(&options, &client));
    });
    CHECK((end == DSA_OK || end == DSA_FAILED));
    if (more == 0) CHECK(end == DSA_FAILED);
  }
}

TEST_CASE("a host that is gone before it has answered is lost") {
  const std::filesystem::path folder = Rig::made_folder();
  const std::string path = (folder / "group").string();
  const FileDescriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, sizeof place.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  const std::jthread host([&] { FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset(); });
  const std::string address = "unix:" + path;
  dsa_options options = DSA_OPTIONS_INIT;
  options.address = address.c_str();
  dsa_client* client = nullptr;
  CHECK(dsa_attach(&options, &client) == DSA_LOST);
  CHECK(std::string(dsa_last_error()).find("its host is gone") != std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace dsanalyze::testing
