#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "../base/child_process.hpp"
#include "../base/moved_clock.hpp"
#include "../base/sanitizers.hpp"
#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "group_rig.hpp"
#include "share/messages.hpp"
#include "share/terms.hpp"

namespace dsanalyze {
namespace {

using group_protocol::Head;
using group_protocol::Inbox;
using group_protocol::Kind;
using group_protocol::Message;
using testing::EventLog;
using testing::group_terms;
using testing::host_parts;
using testing::in_time;
using testing::MemberRun;
using testing::MovedClock;
using testing::TemporaryFolder;
using testing::wait_until;

Status say(const FileDescriptor& line, const Head& head, const std::string& text = {}, std::span<const int> descriptors = {}) {
  return group_protocol::send(line.get(), head, text, descriptors, in_time());
}

/// What the host answers: the refusal's text, or "end" when the line ended without one.
std::string refusal_on(const FileDescriptor& line) {
  Inbox inbox;
  Message message;
  while (true) {
    const Status status = inbox.receive(line.get(), message, in_time());
    if (!status.ok()) return status.code == StatusCode::end ? "end" : "no answer";
    if (message.head.kind == Kind::refused) return message.text;
  }
}

/// Whether the host has ended the line.
bool ends(const FileDescriptor& line) {
  Inbox inbox;
  Message message;
  Status status;
  while (status.ok() || status.code == StatusCode::corrupt) status = inbox.receive(line.get(), message, in_time());
  return status.code == StatusCode::end;
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("who says nothing in two seconds is put off, and a line that this process gave away may take its time") {
  const TemporaryFolder folder;
  MovedClock clock;
  GroupHost::Parts parts = host_parts(group_terms(1, 1));
  parts.timing = clock.timing();
  parts.socket = folder.path() / "group";
  GroupHost host(std::move(parts));
  const FileDescriptor silent = connect_group(host.address(), system_timing());
  FileDescriptor given = host.connect();
  const FileDescriptor talking = connect_group(host.address(), system_timing());
  REQUIRE(say(talking, {.kind = Kind::hello}, "{}").ok());
  Message message;
  REQUIRE(Inbox().receive(talking.get(), message, in_time()).ok());
  REQUIRE(message.head.kind == Kind::terms);
  clock.move(3);
  CHECK(holds(refusal_on(silent), "in time"));
  CHECK(ends(silent));
  REQUIRE(say(talking, {.kind = Kind::ask}).ok());
  CHECK(Inbox().receive(talking.get(), message, in_time()).ok());
  CHECK(message.head.kind == Kind::come);
  // Nor is a place kept for ever for one that does not take it.
  clock.move(61);
  CHECK(holds(refusal_on(talking), "in time"));
  CHECK(MemberRun{1}(std::move(given)) == 0);
}

TEST_CASE("garbage of any kind ends the line it came on, and nothing else") {
  EventLog log;
  GroupHost host(host_parts(group_terms(1, 1), &log));
  const std::array<int, 2> any{0, 1};
  const auto answer_to = [&](const Head& head, const std::string& text = {}, std::span<const int> descriptors = {}) {
    const FileDescriptor line = host.connect();
    REQUIRE(say(line, head, text, descriptors).ok());
    const std::string answer = refusal_on(line);
    CHECK(ends(line));
    return answer;
  };
  CHECK(holds(answer_to({.spoken = 99}), "version 99"));
  CHECK(holds(answer_to({.kind = static_cast<Kind>(77)}), "makes no sense"));
  CHECK(holds(answer_to({.kind = Kind::enter}), "makes no sense"));
  CHECK(holds(answer_to({.kind = Kind::ask}), "makes no sense"));
  CHECK(holds(answer_to({.kind = Kind::placed}), "makes no sense"));
  CHECK(holds(answer_to({.kind = Kind::hello}, "no JSON\x1b[2J"), "a job's demands"));
  CHECK_FALSE(holds(answer_to({.kind = Kind::hello}, "{\"\x1b[2J\": 1}"), "\x1b"));
  CHECK(holds(answer_to({.kind = Kind::hello}, std::string(group_protocol::most_text + 1, ' ')), "no message of a group"));
  CHECK(holds(answer_to({.kind = Kind::hello}, "{}", any), "no message of a group"));
  CHECK(holds(answer_to({.kind = Kind::hello, .attached = 3}, "{}"), "no message of a group"));
  CHECK(holds(answer_to({.kind = Kind::hello, .attached = 0x80000000}, "{}"), "no message of a group"));
  for (const std::size_t size : {1U, 4U, 31U}) {
    const FileDescriptor line = host.connect();
    const std::vector<std::byte> bytes(size, std::byte{1});
    REQUIRE(send_message(line.get(), bytes, {}, in_time()).ok());
    CHECK(refusal_on(line) != "no answer");
    CHECK(ends(line));
  }
  CHECK(MemberRun{1}(host.connect()) == 0);
  CHECK(log.of(GroupEvent::Kind::died).empty());
}

TEST_CASE("segments that are none are refused, and the place is free again") {
  GroupHost host(host_parts(group_terms(1, 1)));
  const MemorySegment unsealed = MemorySegment::create("page", 65536);
  const std::vector<std::vector<int>> wrong{{0, 1}, {unsealed.descriptor(), unsealed.descriptor()}, {unsealed.descriptor()}, {}};
  for (const std::vector<int>& segments : wrong) {
    const FileDescriptor line = host.connect();
    REQUIRE(say(line, {.kind = Kind::hello}, "{}").ok());
    REQUIRE(say(line, {.kind = Kind::ask}).ok());
    Message message;
    while (message.head.kind != Kind::come) REQUIRE(Inbox().receive(line.get(), message, in_time()).ok());
    const std::uint32_t attached = segments.empty()       ? 0
                                   : segments.size() == 1 ? group_protocol::has_page
                                                          : group_protocol::has_page | group_protocol::has_slab;
    REQUIRE(say(line, {.kind = Kind::enter, .attached = attached}, {}, segments).ok());
    CHECK_FALSE(refusal_on(line).empty());
    CHECK(ends(line));
  }
  CHECK(MemberRun{1}(host.connect()) == 0);
  CHECK(host.state().joined == 1);
}

TEST_CASE("strangers by the hundred leave nothing behind, and a job still gets in") {
  const TemporaryFolder folder;
  GroupHost::Parts parts = host_parts(group_terms(1, 1));
  parts.socket = folder.path() / "group";
  GroupHost host(std::move(parts));
  wait_until([&] { return host.state().joined == 0; });
  const std::ptrdiff_t before = testing::open_descriptors();
  {
    std::vector<FileDescriptor> strangers;
    for (int i = 0; i < 300; ++i) strangers.push_back(connect_group(host.address(), system_timing()));
    CHECK(holds(refusal_on(strangers.back()), "as many connections as it serves"));
  }
  CHECK(MemberRun{1}(connect_group(host.address(), system_timing())) == 0);
  wait_until([&] { return testing::open_descriptors() <= before; });
  CHECK(testing::open_descriptors() <= before);
}

TEST_CASE("a host serves its cache to no more processes than it has lines, also to those that keep that alone") {
  const TemporaryFolder folder;
  ServerHolder server({.samples = 28, .dataset_bytes = 28'000, .largest_sample = 2000}, system_timing());
  GroupHost::Parts parts = host_parts(group_terms(1, 1));
  parts.socket = folder.path() / "group";
  parts.server = &server;
  GroupHost host(std::move(parts));
  const auto hello = [&] {
    FileDescriptor line = connect_group(host.address(), system_timing());
    CHECK(say(line, {.kind = Kind::hello}, group_protocol::to_text(GroupDemands{})).ok());
    Inbox inbox;
    Message message;
    CHECK(inbox.receive(line.get(), message, in_time()).ok());
    return message;
  };
  std::vector<FileDescriptor> kept;
  std::string refusal;
  for (int i = 0; i < 300 && refusal.empty(); ++i) {
    Message message = hello();
    if (message.head.kind == Kind::refused) refusal = message.text;
    if (message.head.kind == Kind::terms) kept.push_back(message.take(group_protocol::has_server));
  }
  CHECK(holds(refusal, "as many processes as it serves at once"));
  CHECK(kept.size() == 256);
  CHECK(server.clients() == 256);
  kept.clear();
  wait_until([&] { return server.clients() == 0; });
  CHECK(hello().head.kind == Kind::terms);
}

TEST_CASE("another user is refused even with a line of this user's" * doctest::skip(testing::fork_may_hang)) {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  GroupHost host(host_parts(group_terms(1, 1)));
  const FileDescriptor line = host.connect();
  CHECK(testing::in_child([&] { return ::setresuid(65534, 65534, 65534) == 0 && say(line, {.kind = Kind::hello}, "{}").ok() ? 0 : 1; }) == 0);
  CHECK(refusal_on(line) == "it belongs to another user");
}

TEST_CASE("a member believes no host of another version, none that makes no sense, and none that says nothing") {
  const auto answered = [](const Head& head, const std::string& text) -> std::string {
    auto [mine, theirs] = socket_pair();
    REQUIRE(say(mine, head, text).ok());
    try {
      const GroupMember member({std::move(theirs), {}, system_timing(), {}});
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  CHECK(holds(answered({.spoken = 99}, {}), "its host speaks version 99 of the protocol, this program version 2"));
  CHECK(holds(answered({.kind = Kind::come}, {}), "makes no sense"));
  CHECK(holds(answered({.kind = Kind::terms}, "{}"), "makes no sense"));
  CHECK(holds(answered({.kind = Kind::refused}, "no\x1b[2J"), "refuses this job: no\\x1b[2J"));
  auto [mine, theirs] = socket_pair();
  mine.reset();
  CHECK_THROWS_WITH_AS(GroupMember({std::move(theirs), {}, system_timing(), {}}), doctest::Contains("its host is gone"), Error);
  auto [silent, line] = socket_pair();
  MovedClock clock;
  clock.move(-6);
  CHECK_THROWS_WITH_AS(GroupMember({std::move(line), {}, clock.timing(), {}}), doctest::Contains("does not answer within 5 s"), Error);
}

TEST_CASE("a member that reads nothing is given up after a bounded backlog, and the host goes on") {
  EventLog log;
  GroupHost host(host_parts(group_terms(3, 0), &log));  // never complete: no epoch opens, a place is free again at once
  // Takes a place with sound segments, and never reads what it is told afterwards.
  FileDescriptor line = host.connect();
  REQUIRE(say(line, {.kind = Kind::hello}, "{}").ok());
  Message message;
  REQUIRE(Inbox().receive(line.get(), message, in_time()).ok());
  StagingJob segments(
      std::move(message.descriptors.front()), [] { return true; }, system_timing());
  REQUIRE(say(line, {.kind = Kind::ask}).ok());
  const std::array own{segments.page(), segments.slab()};
  while (message.head.kind != Kind::come) REQUIRE(Inbox().receive(line.get(), message, in_time()).ok());
  REQUIRE(say(line, {.kind = Kind::enter, .attached = group_protocol::has_page | group_protocol::has_slab}, {}, own).ok());
  wait_until([&] { return host.state().joined == 1; });
  // Others come and go until it has been told more than it may leave unread.
  std::uint64_t others = 0;
  for (; others < 2000 && log.of(GroupEvent::Kind::left).size() == others; ++others) {
    GroupMember member({host.connect(), {}, system_timing(), {}});
    REQUIRE(member.enter(in_time()).ok());
    REQUIRE(host.state().joined >= 1);
    const std::size_t left = log.of(GroupEvent::Kind::left).size();
    member.job().leave();
    wait_until([&] { return log.of(GroupEvent::Kind::left).size() > left; });
  }
  CHECK(others < 2000);
  CHECK(ends(line));
}

}  // namespace
}  // namespace dsanalyze
