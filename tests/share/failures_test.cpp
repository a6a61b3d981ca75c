#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
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

constexpr int lost_its_host = 10 + static_cast<int>(StatusCode::io);

/// Sends itself the signal at its batch number `at`.
MemberRun struck(std::uint64_t epochs, int signal, std::uint64_t at) {
  MemberRun run{epochs};
  run.on_batch = [signal, at](GroupMember&, const Batch& batch) {
    if (batch.sequence == at) ::kill(::getpid(), signal);
  };
  return run;
}

TEST_CASE("a member that is killed while it holds a batch costs the others nothing" * doctest::skip(testing::threads_only)) {
  for (const std::uint64_t at : {0U, 5U, 7U, 13U}) {
    CAPTURE(at);
    EventLog log;
    GroupHost host(host_parts(group_terms(3, 3), &log));
    std::vector<MemberProcess> members;
    members.emplace_back(host, struck(3, SIGKILL, at));
    for (int i = 0; i < 2; ++i) members.emplace_back(host, MemberRun{3});
    CHECK(members[0].end() == -SIGKILL);
    CHECK(members[1].end() == 0);
    CHECK(members[2].end() == 0);
    CHECK(host.wait_over(in_time()));
    const auto died = log.of(GroupEvent::Kind::died);
    REQUIRE(died.size() == 1);
    CHECK(died.front().process == members[0].process());
    CHECK(log.of(GroupEvent::Kind::left).size() == 2);
    CHECK(log.of(GroupEvent::Kind::garbage).empty());
  }
}

TEST_CASE("two members that are killed at once cost the third nothing" * doctest::skip(testing::threads_only)) {
  GroupHost host(host_parts(group_terms(3, 2)));
  std::vector<MemberProcess> members;
  for (int i = 0; i < 2; ++i) members.emplace_back(host, struck(2, SIGKILL, 3));
  members.emplace_back(host, MemberRun{2});
  CHECK(members[2].end() == 0);
  CHECK(host.wait_over(in_time()));
}

TEST_CASE("a member is dead when its process is, though a child that it forked holds its line open" * doctest::skip(testing::threads_only)) {
  EventLog log;
  GroupHost host(host_parts(group_terms(2, 2), &log));
  std::array<int, 2> test_lives{};  // a pipe whose writing end closes with this test
  REQUIRE(::pipe2(test_lives.data(), O_CLOEXEC) == 0);
  FileDescriptor reading(test_lives[0]), writing(test_lives[1]);
  MemberRun forks{2};
  forks.on_batch = [&](GroupMember&, const Batch& batch) {
    if (batch.sequence != 4) return;
    if (::fork() == 0) {
      ::close(writing.get());
      char nothing = 0;
      static_cast<void>(::read(reading.get(), &nothing, 1) == 0);
      ::_exit(0);
    }
    ::kill(::getpid(), SIGKILL);
  };
  MemberProcess first(host, forks);
  MemberProcess second(host, MemberRun{2});
  CHECK(second.end() == 0);
  CHECK(host.wait_over(in_time()));
  CHECK(log.of(GroupEvent::Kind::died).size() == 1);
}

TEST_CASE("a forked child is no member: it gets nothing, and its end changes nothing" * doctest::skip(testing::threads_only)) {
  GroupHost host(host_parts(group_terms(1, 1)));
  GroupMember member({host.connect(), {}, system_timing(), {}});
  REQUIRE(member.enter(in_time()).ok());
  std::atomic<bool> over{false};
  std::jthread producer([&] { testing::produce(member.job(), over); });
  auto batches = std::make_unique<GroupBatches>(member, 1);
  Batch batch;
  REQUIRE(batches->next(batch, in_time()).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    int wrong = 0;
    Batch other;
    if (!member.lost() || member.failure().find("forked") == std::string::npos) wrong |= 1;
    if (batches->next(other, in_time()).code != StatusCode::io) wrong |= 2;
    batches->release(batch.token);
    if (member.enter(in_time()).code != StatusCode::io) wrong |= 4;
    try {
      static_cast<void>(member.job());
      wrong |= 8;
    } catch (const Error&) {
      wrong |= 0;
    }
    batches.reset();
    auto copy = std::unique_ptr<GroupMember>(&member);
    // Ends as the member's destructor does, on the child's copy.
    copy.release()->~GroupMember();
    ::_exit(wrong);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  std::uint64_t taken = 1;
  batches->release(batch.token);
  while (batches->next(batch, in_time()).ok()) {
    CHECK(batch.sequence == taken++);
    batches->release(batch.token);
  }
  CHECK(taken == 7);
  over = true;
}

TEST_CASE("a stopped member is waited for and told of, and nothing is made twice when it goes on" * doctest::skip(testing::threads_only)) {
  EventLog log;
  GroupHost host(host_parts(group_terms(2, 4), &log));
  MemberProcess stopped(host, struck(4, SIGSTOP, 9));
  MemberProcess other(host, MemberRun{4});
  wait_until([&] { return !log.of(GroupEvent::Kind::late).empty(); });
  REQUIRE_FALSE(log.of(GroupEvent::Kind::late).empty());
  CHECK(log.of(GroupEvent::Kind::died).empty());
  CHECK(log.of(GroupEvent::Kind::left).empty());
  stopped.signal(SIGCONT);
  CHECK(stopped.end() == 0);
  CHECK(other.end() == 0);
}

TEST_CASE("a member that is slow to start is told of as that, and not as late" * doctest::skip(testing::threads_only)) {
  EventLog log;
  GroupHost host(host_parts(group_terms(2, 2), &log));
  MemberRun slow{2};
  slow.observer = [told = false](StagingStep step) mutable {
    if (step == StagingStep::claim && !std::exchange(told, true)) ::raise(SIGSTOP);
  };
  MemberProcess stopped(host, slow);
  MemberProcess other(host, MemberRun{2});
  wait_until([&] { return !log.of(GroupEvent::Kind::slow_start).empty(); });
  CHECK_FALSE(log.of(GroupEvent::Kind::slow_start).empty());
  CHECK(log.of(GroupEvent::Kind::late).empty());
  stopped.signal(SIGCONT);
  CHECK(stopped.end() == 0);
  CHECK(other.end() == 0);
}

TEST_CASE("what a member that was killed had not made is counted as taken over" * doctest::skip(testing::threads_only)) {
  GroupTerms terms = group_terms(2, 2);
  terms.staging.prefetch = 0;
  GroupHost host(host_parts(terms));
  MemberProcess killed(host, struck(2, SIGKILL, 1));
  MemberProcess other(host, MemberRun{2});
  CHECK(killed.end() == -SIGKILL);
  CHECK(other.end() == 0);
  CHECK(host.wait_over(in_time()));
  const auto accounts = host.accounts();
  REQUIRE(accounts.size() == 2);
  for (const GroupJobAccount& job : accounts) {
    // Two slots, and batch 1 unreleased: of its three or four batches of the first epoch it cannot have made the last.
    CHECK(job.counts.batches_taken_over >= (job.end == GroupJobAccount::End::died ? 0 : 1));
    CHECK(job.counts.batches_taken_over <= (job.end == GroupJobAccount::End::died ? 0 : 8));
    if (job.end != GroupJobAccount::End::died) CHECK(job.counts.control_time > 0);
  }
}

/// A host in a process of its own, found by its socket.
class HostProcess {
 public:
  HostProcess(const GroupTerms& terms, const std::filesystem::path& socket, bool (*prepare)()) {
    auto [mine, theirs] = socket_pair();
    m_process = ::fork();
    if (m_process == 0) {
      mine.reset();
      run(terms, socket, prepare, theirs.get());
    }
    theirs.reset();
    std::byte byte{};
    std::size_t size = 0;
    std::vector<FileDescriptor> none;
    m_ready = receive_message(mine.get(), {&byte, 1}, size, none, in_time()).ok() && byte == std::byte{1};
  }
  ~HostProcess() { kill(); }
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  /// False where `prepare` said no.
  [[nodiscard]] bool ready() const { return m_ready; }
  void kill() {
    if (m_process <= 0) return;
    ::kill(m_process, SIGKILL);
    ::waitpid(m_process, nullptr, 0);
    m_process = -1;
  }

 private:
  [[noreturn]] static void run(const GroupTerms& terms, const std::filesystem::path& socket, bool (*prepare)(), int ready) {
    std::byte byte{0};
    try {
      if (prepare()) {
        GroupHost::Parts parts = host_parts(terms);
        parts.socket = socket;
        const GroupHost host(std::move(parts));
        byte = std::byte{1};
        static_cast<void>(send_message(ready, {&byte, 1}, {}, in_time()).ok());
        ::alarm(120);
        ::pause();
      }
    } catch (const std::exception&) {
      byte = std::byte{2};
    }
    static_cast<void>(send_message(ready, {&byte, 1}, {}, in_time()).ok());
    ::_exit(0);
  }
  pid_t m_process = -1;
  bool m_ready = false;
};

TEST_CASE("when the host is killed every member ends with an error, whatever it was waiting for" * doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  const std::string address = "unix:" + (folder.path() / "group").string();
  HostProcess host(group_terms(3, 0), folder.path() / "group", [] { return true; });
  REQUIRE(host.ready());
  std::vector<std::unique_ptr<GroupMember>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<GroupMember>(GroupMember::Parts{connect_group(address, system_timing()), {}, system_timing(), {}}));
  }
  REQUIRE(members[0]->enter(in_time()).ok());
  REQUIRE(members[1]->enter(in_time()).ok());
  GroupBatches batches(*members[0], 1);
  std::atomic<int> ended{0};
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    Batch batch;
    ended += batches.next(batch, in_time()).code == StatusCode::io ? 1 : 100;
  });
  threads.emplace_back([&] {
    StagingClaim claim;
    ended += members[1]->job().claim(claim, in_time()).code == StatusCode::io ? 1 : 100;
  });
  pollfd event{members[1]->event_descriptor(), POLLIN, 0};
  host.kill();
  CHECK(::poll(&event, 1, 60'000) == 1);
  threads.clear();
  CHECK(ended == 2);
  CHECK(members[0]->lost());
  CHECK(batches.failure().find("host is gone") != std::string::npos);
  CHECK(members[2]->enter(in_time()).code == StatusCode::io);
}

TEST_CASE("a job whose process the host cannot see is refused with the reason" * doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  // The host's thread is of the new namespace, this process of the old one.
  const HostProcess host(group_terms(1, 1), folder.path() / "group", [] {
    if (::unshare(CLONE_NEWPID) != 0) return false;
    const pid_t inner = ::fork();
    if (inner == 0) return ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;  // the first of a namespace minds no other signal
    ::waitpid(inner, nullptr, 0);
    ::_exit(0);
  });
  if (!host.ready()) {
    MESSAGE("skipped: a PID namespace is not permitted here");
    return;
  }
  FileDescriptor line = connect_group("unix:" + (folder.path() / "group").string(), system_timing());
  CHECK_THROWS_WITH_AS(GroupMember({std::move(line), {}, system_timing(), {}}), doctest::Contains("another PID namespace"), UsageError);
}

TEST_CASE("a host that ends early ends its members' waits with an error" * doctest::skip(testing::threads_only)) {
  auto host = std::make_unique<GroupHost>(host_parts(group_terms(2, 0)));
  std::vector<MemberProcess> members;
  for (int i = 0; i < 2; ++i) members.emplace_back(*host, MemberRun{});
  wait_until([&] { return host->state().opened_epochs > 1; });
  host.reset();
  for (MemberProcess& member : members) CHECK(member.end() == lost_its_host);
}

TEST_CASE("a job that writes garbage into its page is put out, and the others go on" * doctest::skip(testing::threads_only)) {
  EventLog log;
  GroupHost host(host_parts(group_terms(2, 50), &log));
  MemberRun mad{50};  // an epoch opens a round, so the host looks at the page before they are over
  mad.on_batch = [](GroupMember& member, const Batch& batch) {
    if (batch.sequence != 3) return;
    // Its own writable mapping of its page: found by the file that both share.
    struct stat page {};
    ::fstat(member.job().page(), &page);
    std::FILE* const maps = std::fopen("/proc/self/maps", "r");
    std::array<char, 512> line{};
    while (maps != nullptr && std::fgets(line.data(), line.size(), maps) != nullptr) {
      unsigned long begin = 0;
      unsigned long end = 0;
      std::array<char, 5> rights{};
      unsigned long inode = 0;
      if (std::sscanf(line.data(), "%lx-%lx %4s %*s %*s %lu", &begin, &end, rights.data(), &inode) != 4) continue;
      if (inode == page.st_ino && rights[1] == 'w') std::memset(reinterpret_cast<void*>(begin), 0xab, end - begin);
    }
    if (maps != nullptr) std::fclose(maps);
  };
  MemberProcess first(host, mad);
  MemberProcess second(host, MemberRun{50});
  CHECK(first.end() != 0);
  CHECK(second.end() == 0);
  CHECK(host.wait_over(in_time()));
  CHECK(log.of(GroupEvent::Kind::garbage).size() == 1);
}

TEST_CASE("a hundred rounds of crash and restart leave no descriptor, no process and no file" * doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  const auto round = [&](int number) {
    GroupHost::Parts parts = host_parts(group_terms(2, 1));
    parts.socket = folder.path() / "group";
    GroupHost host(std::move(parts));
    MemberProcess killed(host, struck(1, SIGKILL, static_cast<std::uint64_t>(number % 7)));
    MemberProcess other(host, MemberRun{1});
    const bool whole = killed.end() == -SIGKILL && other.end() == 0;
    return whole && host.wait_over(in_time());
  };
  REQUIRE(round(0));  // what the program keeps for itself is there then
  const std::ptrdiff_t before = testing::open_descriptors();
  for (int i = 0; i < 100; ++i) REQUIRE(round(i));
  CHECK(testing::open_descriptors() == before);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace dsanalyze
