#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "../base/sanitizers.hpp"
#include "client_rig.hpp"
#include "dsanalyze/client.hpp"

namespace dsanalyze::testing {
namespace {

std::set<std::string> thread_names_of_tasks() {
  std::set<std::string> tasks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) tasks.insert(entry.path().filename());
  return tasks;
}

std::string blocked_signals(const std::string& task) {
  std::ifstream status("/proc/self/task/" + task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return line.substr(line.find_first_not_of(" \t", 7));
  }
  return {};
}

/// Where this process may write a segment of that name.
std::vector<char*> writable_segments(const std::string& name) {
  std::vector<char*> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:" + name) == std::string::npos || line.find(" rw-s ") == std::string::npos) continue;
    found.push_back(reinterpret_cast<char*>(std::stoull(line.substr(0, line.find('-')), nullptr, 16)));
  }
  return found;
}

/// A part of a process's address space.
struct Mapping {
  std::string protection;
  std::string inode;
  std::uint64_t offset = 0;  ///< of the file, where the address looked for lies
  std::string name;
};

std::vector<Mapping> mappings(const std::string& process, const std::function<bool(std::uint64_t, std::uint64_t, const Mapping&)>& wanted) {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    char dash = 0;
    std::string device;
    std::istringstream fields(line);
    fields >> std::hex >> begin >> dash >> end >> mapping.protection >> mapping.offset >> device >> mapping.inode >> mapping.name;
    if (wanted(begin, end, mapping)) found.push_back(mapping);
  }
  return found;
}

Mapping mapping_at(const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const auto found = mappings("self", [at](std::uint64_t begin, std::uint64_t end, const Mapping&) { return begin <= at && at < end; });
  REQUIRE(found.size() == 1);
  return found.front();
}

}  // namespace

TEST_CASE("a coordinator that is killed is told to every job, in whatever call") {
  bool while_waiting = false;
  SUBCASE("while it waits") { while_waiting = true; }
  SUBCASE("while it holds a batch") {}
  CoordinatorProcess coordinator({.jobs = while_waiting ? 2 : 1, .epochs = 0});
  dsa_client* const client = coordinator.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  dsa_status status = DSA_OK;
  if (while_waiting) {
    std::jthread waiting([&] { status = next_batch(client, batch); });
    coordinator.kill();
    waiting.join();
  } else {
    REQUIRE(next_batch(client, batch) == DSA_OK);
    coordinator.kill();
    CHECK(dsa_release(client, batch.token) == DSA_OK);
    while ((status = next_batch(client, batch)) == DSA_OK) CHECK(dsa_release(client, batch.token) == DSA_OK);
  }
  CHECK(status == DSA_LOST);
  CHECK(std::string(dsa_error(client)).find("gone") != std::string::npos);
  CHECK(dsa_next(client, &batch, 0) == DSA_LOST);
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("a batch is read in the very pages that its producer writes: nothing is copied, and the reader cannot write") {
  const CoordinatorProcess producer({.jobs = 1, .epochs = 1, .producers = Producers::coordinator});
  dsa_client* const client = producer.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  for (const void* part : {batch.samples, static_cast<const void*>(batch.ids), static_cast<const void*>(batch.labels)}) {
    const Mapping mine = mapping_at(part);
    CHECK(mine.protection == "r--s");
    const auto theirs = mappings(producer.process(), [&mine](std::uint64_t, std::uint64_t, const Mapping& each) {
      return each.inode == mine.inode && each.name == mine.name && each.protection == "rw-s";
    });
    CHECK(theirs.size() == 1);
  }
  dsa_detach(client);
}

TEST_CASE("a child that was forked is no member, and its parent stays one" * doctest::skip(fork_may_hang)) {
  const Rig rig({.jobs = 1, .epochs = 2});
  dsa_client* const client = rig.attach();
  const int of_child = in_child([&] {
    dsa_batch batch = DSA_BATCH_INIT;
    dsa_terms terms = DSA_TERMS_INIT;
    if (dsa_next(client, &batch, 0) != DSA_FORKED || dsa_info(client, &terms) != DSA_FORKED || dsa_release(client, 1) != DSA_FORKED) return 1;
    if (dsa_leave(client) != DSA_FORKED || std::strstr(dsa_last_error(), "parent") == nullptr) return 2;
    return dsa_detach(client) == DSA_OK ? 0 : 3;
  });
  CHECK(of_child == 0);
  dsa_status ended = DSA_OK;
  CHECK(take_all(client, ended).size() == 2);
  CHECK(ended == DSA_END);
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("a child that was forked may become a job of its own" * doctest::skip(threads_only)) {
  const Rig rig({.jobs = 2, .epochs = 2});
  dsa_client* const client = rig.attach();
  const pid_t second = ::fork();
  if (second == 0) {
    dsa_detach(client);
    const dsa_options options = rig.options();
    dsa_client* own = nullptr;
    if (dsa_attach(&options, &own) != DSA_OK) ::_exit(1);
    dsa_status ended = DSA_OK;
    const auto taken = take_all(own, ended);
    ::_exit(ended == DSA_END && taken.size() == 2 && dsa_detach(own) == DSA_OK ? 0 : 2);
  }
  dsa_status ended = DSA_OK;
  CHECK(take_all(client, ended).size() == 2);
  CHECK(ended == DSA_END);
  int status = -1;
  CHECK(::waitpid(second, &status, 0) == second);
  CHECK(status == 0);
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("what a parent holds stays readable in a child") {
  const Rig rig({.jobs = 1, .epochs = 1});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  const std::uint32_t first = batch.ids[0];
  CHECK(in_child([&] { return batch.ids[0] == first ? 0 : 1; }) == 0);
  CHECK(dsa_release(client, batch.token) == DSA_OK);
  dsa_detach(client);
}

TEST_CASE("threads of the library take no signals") {
  const Rig rig({.jobs = 1, .epochs = 0});
  const std::set<std::string> before = thread_names_of_tasks();
  dsa_client* const client = rig.attach();
  int descriptor = -1;
  CHECK(dsa_event_fd(client, &descriptor) == DSA_OK);
  dsa_batch batch = DSA_BATCH_INIT;
  CHECK(next_batch(client, batch) == DSA_OK);
  int looked_at = 0;
  for (const std::string& task : thread_names_of_tasks()) {
    if (before.contains(task)) continue;
    const std::string blocked = blocked_signals(task);
    if (blocked.empty()) continue;  // it ended
    const std::uint64_t set = std::stoull(blocked, nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM, SIGPROF}) {
      // The rig's own threads serve the job: they have this thread's mask, and are not the library's.
      if ((set & (std::uint64_t{1} << (signal - 1))) == 0) CHECK_MESSAGE(set == 0, blocked);
    }
    looked_at += set != 0 ? 1 : 0;
  }
  CHECK(looked_at >= 3);  // listens, watches, prepares
  dsa_detach(client);
}

TEST_CASE("a job that writes over what it shares is put out, and told") {
  Rig rig({.jobs = 1, .epochs = 0});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  const std::vector<char*> pages = writable_segments("staging control page");
  REQUIRE(pages.size() == 1);
  std::memset(pages.front(), 0xAB, 4);
  dsa_status status = dsa_release(client, batch.token);
  while (status == DSA_OK) {
    status = next_batch(client, batch);
    if (status == DSA_OK) status = dsa_release(client, batch.token);
  }
  CHECK(status == DSA_EXPELLED);
  CHECK(std::string(dsa_last_error()).find("put out") != std::string::npos);
  CHECK(dsa_next(client, &batch, 0) == DSA_EXPELLED);
  CHECK(dsa_detach(client) == DSA_OK);
  CHECK(rig.run().wait_over(system_timing().clock->after(60)));
  CHECK(rig.run().finish().jobs.at(0).end == JobEnd::garbage);
}

TEST_CASE("the client for C++ takes batches, and gives each back when it goes out of scope") {
  const Rig rig({.jobs = 1, .epochs = 2});
  client::Client job({.address = rig.address(), .seed = 7});
  CHECK(job.terms().samples == rig_samples);
  std::uint64_t samples = 0;
  while (const auto batch = job.next()) {
    CHECK(batch->elements<std::uint8_t>().size() == batch->ids().size());
    CHECK(batch->labels().size() == batch->ids().size());
    CHECK(batch->shape().size() == 4);
    samples += batch->ids().size();
  }
  CHECK(samples == 2 * rig_samples);
  CHECK(job.next_within(0).first == DSA_END);
}

TEST_CASE("the client for C++ throws what went wrong, and what is told while it waits") {
  const Rig rig({.jobs = 1, .epochs = 0});
  try {
    const client::Client refused({.address = rig.address(), .batch_size = 17});
    FAIL("it was let in");
  } catch (const client::ClientError& error) {
    CHECK(error.status() == DSA_REFUSED);
    CHECK(std::string(error.what()).find("17") != std::string::npos);
  }
  client::Client job({.address = rig.address()});
  auto batch = job.next();
  REQUIRE(batch.has_value());
  CHECK_THROWS_AS(static_cast<void>(batch->elements<float>()), client::ClientError);
  CHECK_THROWS_AS(client::Client({.address = rig.address(), .timeout_ms = 200, .waiting = [](std::uint64_t, double) { throw std::string("told"); }}),
                  std::string);
  batch->release();
  CHECK_NOTHROW(batch->release());
}

}  // namespace dsanalyze::testing
