#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "group_rig.hpp"

namespace dsanalyze {
namespace {

using testing::EventLog;
using testing::group_terms;
using testing::host_parts;
using testing::in_time;
using testing::MemberProcess;
using testing::MemberRun;
using testing::TemporaryFolder;
using testing::wait_until;

GroupHost::Parts named(GroupTerms terms, const std::filesystem::path& socket, EventLog* log = nullptr) {
  GroupHost::Parts parts = host_parts(std::move(terms), log);
  parts.socket = socket;
  return parts;
}

TEST_CASE("jobs find a group by its socket's name, which only this user may use and which is gone at the end" *
          doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  const std::filesystem::path socket = folder.path() / "group";
  {
    GroupHost host(named(group_terms(2, 2), socket));
    CHECK(host.address() == "unix:" + socket.string());
    struct stat made {};
    REQUIRE(::lstat(socket.c_str(), &made) == 0);
    CHECK((made.st_mode & 0777U) == 0600);
    std::vector<MemberProcess> members;
    for (int i = 0; i < 2; ++i) {
      members.emplace_back(host, [&](FileDescriptor) { return MemberRun{2}(connect_group(host.address(), system_timing())); });
    }
    for (MemberProcess& member : members) CHECK(member.end() == 0);
  }
  CHECK_FALSE(std::filesystem::exists(socket));
}

TEST_CASE("a member learns the terms, the index and the way to the server's cache") {
  ServerHolder server({}, system_timing());
  GroupHost::Parts parts = host_parts(group_terms(1, 1));
  parts.server = &server;
  GroupHost host(std::move(parts));
  GroupMember member({host.connect(), {4, 7, "digest", {}}, system_timing(), {}});
  CHECK(member.terms().seed == 7);
  CHECK(member.terms().settings == R"({"any": "thing"})");
  CHECK(member.terms().staging == group_terms(1, 1).staging);
  REQUIRE(member.index() != nullptr);
  CHECK(dataset_digest(*member.index()) == dataset_digest(*testing::group_index()));
  const auto attached = attach_server(member.take_server_line(), system_timing());
  attached->devices().cores[0].next_free.store(77);
  CHECK(server.devices().cores[0].next_free.load() == 77);
  CHECK_THROWS_WITH_AS(static_cast<void>(member.job()), doctest::Contains("has not entered"), Error);
}

TEST_CASE("a host knows of each job which command its process says that it belongs to, and its process group") {
  GroupHost host(host_parts(group_terms(2, 0)));
  GroupMember numbered({host.connect(), {}, system_timing(), {}, 0xfedcba9876543210});
  REQUIRE(numbered.enter(in_time()).ok());
  GroupMember other({host.connect(), {}, system_timing(), {}});
  REQUIRE(other.enter(in_time()).ok());
  const std::vector<GroupJobAccount> jobs = host.accounts();
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].origin.command == 0xfedcba9876543210);
  CHECK(jobs[1].origin.command == 0);
  CHECK(jobs[1].origin.process_group == ::getpgrp());
}

TEST_CASE("a job that wants something else is refused with the difference, and the others do not notice") {
  EventLog log;
  GroupHost host(host_parts(group_terms(1, 1), &log));
  const std::vector<std::pair<GroupDemands, std::string>> wrong{{{.batch_size = 8}, "batch size of the group is 4, this job asks for 8"},
                                                                {{.seed = 8}, "seed of the group is 7, this job asks for 8"},
                                                                {{.dataset_digest = "x"}, "digest of the group is digest, this job asks for x"},
                                                                {{.prep = "y"}, "prep of the group is"}};
  for (const auto& [demands, text] : wrong) {
    CHECK_THROWS_WITH_AS(GroupMember({host.connect(), demands, system_timing(), {}}), doctest::Contains(text.c_str()), UsageError);
  }
  CHECK(MemberRun{1}(host.connect()) == 0);
  wait_until([&] { return log.of(GroupEvent::Kind::refused).size() == wrong.size(); });
  CHECK(log.of(GroupEvent::Kind::refused).front().process == ::getpid());
  CHECK(host.wait_over(in_time()));
  CHECK(host.state().joined == 1);
}

TEST_CASE("a job that comes in mid-epoch is told for which epoch it waits, and takes part from there on") {
  EventLog log;
  GroupTerms terms = group_terms(2, 3);
  terms.staging.prefetch = 0;
  GroupHost host(host_parts(terms, &log));
  std::atomic<bool> newcomer_placed{false};
  MemberRun first{3};
  // Holds its second batch until the other one has come.
  first.on_batch = [&](GroupMember&, const Batch& batch) {
    if (batch.sequence == 1) wait_until([&] { return newcomer_placed.load(); });
  };
  std::atomic<int> first_result{-1};
  std::jthread early([&] { first_result = first(host.connect()); });
  wait_until([&] { return host.state().waiting == 1; });
  host.begin();
  wait_until([&] { return host.state().opened_epochs == 1; });

  GroupMember member({host.connect(), {}, system_timing(), {}});
  std::optional<std::uint64_t> told;
  REQUIRE(member.enter(in_time(), [&](std::uint64_t epoch, double) { told = epoch; }).ok());
  CHECK(told == 1);
  newcomer_placed = true;
  std::atomic<bool> over{false};
  std::jthread producer([&] { testing::produce(member.job(), over); });
  {
    GroupBatches batches(member, 1);
    Batch batch;
    std::uint64_t taken = 0;
    while (batches.next(batch, in_time()).ok()) {
      CHECK(batch.epoch == 1 + taken / 7);
      CHECK(batch.sequence == taken++);
      batches.release(batch.token);
    }
    CHECK(taken == 14);
  }
  over = true;
  early.join();
  CHECK(first_result.load() == 0);
  const auto waits = log.of(GroupEvent::Kind::waiting);
  REQUIRE(waits.size() == 1);
  CHECK(waits.front().text.find("takes part from epoch 1 on") != std::string::npos);
}

TEST_CASE("a full group lets a job in when another has gone, and says meanwhile which epoch it waits for") {
  EventLog log;
  GroupHost host(host_parts(group_terms(1, 0), &log));
  std::atomic<bool> told{false};
  std::atomic<int> first_result{-1};
  std::atomic<std::uint64_t> told_epoch{UINT64_MAX};
  std::atomic<std::uint64_t> later_taken{0};
  std::jthread first([&] {
    MemberRun run;
    // Trains until somebody waits for its place, then goes in the middle of an epoch.
    run.on_batch = [&](GroupMember& member, const Batch& batch) {
      if (told && batch.sequence % 7 == 3) member.job().leave();
    };
    first_result = run(host.connect());
  });
  wait_until([&] { return host.state().jobs == 1; });
  std::jthread later([&] {
    GroupMember member({host.connect(), {}, system_timing(), {}});
    const Status status = member.enter(in_time(), [&](std::uint64_t epoch, double) {
      told_epoch = epoch;
      told = true;
    });
    if (!status.ok()) return host.end();
    std::atomic<bool> over{false};
    std::jthread producer([&] { testing::produce(member.job(), over); });
    GroupBatches batches(member, 1);
    Batch batch;
    for (Status next = batches.next(batch, in_time()); next.ok(); next = batches.next(batch, in_time())) {
      if (++later_taken == 20) host.end();
      batches.release(batch.token);
    }
    over = true;
  });
  first.join();
  later.join();
  CHECK((first_result == 0 || first_result == 10 + static_cast<int>(StatusCode::cancelled)));
  CHECK(told_epoch.load() != UINT64_MAX);
  CHECK(later_taken.load() >= 20);
  CHECK(later_taken.load() % 7 == 0);
  CHECK(host.wait_over(in_time()));
  CHECK(host.state().joined == 2);
  CHECK(log.of(GroupEvent::Kind::waiting).size() >= 1);
  CHECK(log.of(GroupEvent::Kind::ended).size() == 1);
}

TEST_CASE("a job that waits for a place is told when the group ends, and keeps no memory for it") {
  GroupHost host(host_parts(group_terms(1, 0)));
  GroupMember first({host.connect(), {}, system_timing(), {}});
  REQUIRE(first.enter(in_time()).ok());
  wait_until([&] { return host.state().shared_bytes > 0 && host.state().jobs == 1; });
  const Bytes shared = host.state().shared_bytes;
  GroupMember second({host.connect(), {}, system_timing(), {}});
  CHECK(second.enter(Deadline{0}).code == StatusCode::timeout);
  wait_until([&] { return host.state().waiting == 1; });
  CHECK(host.state().shared_bytes == shared);
  host.end();
  CHECK(second.enter(in_time()).code == StatusCode::end);
}

TEST_CASE("a group's memory is its board, a page a job and the slots") {
  GroupHost host(host_parts(group_terms(3, 0)));
  const Bytes empty = host.state().shared_bytes;
  CHECK(empty > 0);
  std::vector<std::unique_ptr<GroupMember>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<GroupMember>(GroupMember::Parts{host.connect(), {}, system_timing(), {}}));
    REQUIRE(members.back()->enter(in_time()).ok());
  }
  wait_until([&] { return host.state().jobs == 3; });
  const Bytes whole = host.state().shared_bytes;
  CHECK(whole >= empty + group_terms(3, 0).staging.staged_bytes());
  CHECK(whole <= empty + group_terms(3, 0).staging.staged_bytes() + Bytes{3} * 65536);
  members.clear();
  wait_until([&] { return host.state().shared_bytes == empty; });
  CHECK(host.state().shared_bytes == empty);
}

TEST_CASE("addresses and sockets that cannot be are refused with the reason") {
  const TemporaryFolder folder;
  const auto connecting = [](const std::string& address) {
    try {
      connect_group(address, system_timing());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(connecting("tcp:1.2.3.4").find("expected unix:PATH") != std::string::npos);
  CHECK(connecting("unix:").find("1 to 107") != std::string::npos);
  CHECK(connecting("unix:" + std::string(108, 'x')).find("it has 108 bytes") != std::string::npos);
  CHECK(connecting("unix:" + (folder.path() / "none").string()).find("there is no such socket") != std::string::npos);
  CHECK_THROWS_WITH_AS(GroupHost(named(group_terms(1, 1), std::string(108, 'x'))), doctest::Contains("use a shorter one"), UsageError);
  CHECK_THROWS_AS(GroupHost(named(group_terms(1, 1), folder.path() / "no" / "folder")), Error);
  GroupHost::Parts without_index = host_parts(group_terms(1, 1));
  without_index.index = nullptr;
  CHECK_THROWS_WITH_AS(GroupHost(std::move(without_index)), doctest::Contains("index"), UsageError);
}

TEST_CASE("a running host is not robbed of its socket, a dead one's is replaced, and another file is left alone" *
          doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  const std::filesystem::path socket = folder.path() / "group";
  {
    GroupHost first(named(group_terms(1, 1), socket));
    CHECK_THROWS_WITH_AS(GroupHost(named(group_terms(1, 1), socket)), doctest::Contains("another process listens there"), UsageError);
    CHECK(MemberRun{1}(connect_group(first.address(), system_timing())) == 0);
  }
  const pid_t dying = ::fork();
  if (dying == 0) {
    const GroupHost host(named(group_terms(1, 1), socket));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(dying, nullptr, 0);
  REQUIRE(std::filesystem::exists(socket));
  CHECK_THROWS_WITH_AS(connect_group("unix:" + socket.string(), system_timing()), doctest::Contains("its host is gone"), Error);
  {
    GroupHost second(named(group_terms(1, 1), socket));
    CHECK(MemberRun{1}(connect_group(second.address(), system_timing())) == 0);
  }
  CHECK_FALSE(std::filesystem::exists(socket));
  write_file_atomically(socket, "precious");
  CHECK_THROWS_WITH_AS(GroupHost(named(group_terms(1, 1), socket)), doctest::Contains("left alone"), UsageError);
  CHECK(read_file(socket) == "precious");
}

TEST_CASE("a host leaves alone what somebody else has put in the place of its socket") {
  const TemporaryFolder folder;
  const std::filesystem::path socket = folder.path() / "group";
  {
    const GroupHost host(named(group_terms(1, 1), socket));
    std::filesystem::remove(socket);
    write_file_atomically(socket, "precious");
  }
  CHECK(std::filesystem::exists(socket));
}

}  // namespace
}  // namespace dsanalyze
