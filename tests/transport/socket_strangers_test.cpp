#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <thread>

#include "../base/sanitizers.hpp"
#include "../base/texts.hpp"
#include "ports.hpp"
#include "transport/rendezvous/introduction.hpp"
#include "transport/rendezvous/meeting_place.hpp"
#include "transport/rendezvous/sealed_line.hpp"

// Processes that connect to a rendezvous port and are no ranks, or are ranks in no hurry.

namespace dsanalyze {
namespace {

using testing::all_ranks_of;
using testing::all_that_comes;
using testing::dial;
using testing::free_place;
using testing::give_key;
using testing::HurriedTiming;
using testing::listen_on_loopback;
using testing::meet_at;
using testing::meet_together;
using testing::Met;
using testing::rank_of;
using testing::require_met;
using testing::say;
using testing::says;

TEST_CASE("strangers, garbage, slow senders and repeated proofs are dropped, learn nothing and hold none up") {
  const std::string place = free_place();
  const SecretKey key = make_key();
  auto meetings = all_ranks_of(3);
  give_key(meetings, key);
  HurriedTiming hurried(10);
  std::vector<Met> met(3);
  std::jthread zero([&] { met[0] = meet_at(place, meetings[0], hurried.timing()); });

  std::vector<FileDescriptor> silent;
  silent.reserve(20);
  for (int i = 0; i < 20; ++i) silent.push_back(dial(place));
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(dial(place));
    say(slow.back(), "dsan");
  }
  const Greeting known = new_greeting(Keyed::yes);
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(bytes_before_proof, '\0'), std::string(100'000, 'x'),
        to_bytes(known) + std::string(proof_bytes, '\0'), to_bytes(new_greeting(Keyed::no)) + std::string(proof_bytes, '\0')}) {
    const FileDescriptor socket = dial(place);
    say(socket, garbage);
    const std::string heard = all_that_comes(socket);
    CHECK(heard.size() <= greeting_bytes);  // no proof came back
    CHECK(!says(heard, "still open"));
  }
  for (const FileDescriptor& socket : slow) CHECK(all_that_comes(socket).size() <= greeting_bytes);  // closed by rank 0 after 2 s

  met[1] = {};
  std::jthread one([&] { met[1] = meet_at(place, meetings[1], hurried.timing()); });
  met[2] = meet_at(place, meetings[2], hurried.timing());
  zero.join();
  one.join();
  require_met(met);
}

TEST_CASE("more strangers than there are places keep no rank out") {
  const std::string place = free_place();
  auto meetings = all_ranks_of(2);
  give_key(meetings, make_key());
  std::vector<Met> met(2);
  std::jthread zero([&] { met[0] = meet_at(place, meetings[0]); });
  std::vector<FileDescriptor> strangers;
  for (std::size_t i = 0; i < most_strangers + 50; ++i) strangers.push_back(dial(place));
  met[1] = meet_at(place, meetings[1]);
  zero.join();
  require_met(met);
}

TEST_CASE("the other end of a connection over loopback is known by its user" * doctest::skip(testing::threads_only || ::geteuid() != 0)) {
  std::uint16_t port = 0;
  const FileDescriptor listener = listen_on_loopback(0, port);
  for (const uid_t user : {uid_t{0}, uid_t{12345}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (user != 0 && ::setresuid(user, user, user) != 0) ::_exit(1);
      const FileDescriptor socket = dial("127.0.0.1:" + std::to_string(port));
      all_that_comes(socket);
      ::_exit(0);
    }
    {
      const FileDescriptor socket(::accept(listener.get(), nullptr, nullptr));
      CHECK(other_end_is_this_users(socket.get()) == (user == 0));
    }
    ::waitpid(child, nullptr, 0);
  }
}

TEST_CASE("the other end is known over IPv6, too") {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  socklen_t size = sizeof address;
  auto* const end = reinterpret_cast<sockaddr*>(&address);
  const FileDescriptor listener(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid() || ::bind(listener.get(), end, size) != 0) return;  // there is no IPv6 here
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), end, &size) == 0);
  const FileDescriptor dialled(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(dialled.get(), end, size) == 0);
  const FileDescriptor accepted(::accept(listener.get(), nullptr, nullptr));
  CHECK(other_end_is_this_users(accepted.get()));
  CHECK(other_end_is_this_users(dialled.get()));
}

TEST_CASE("without a key another user's process is not even greeted, and keeps no rank out" *
          doctest::skip(testing::threads_only || ::geteuid() != 0)) {
  const std::string place = free_place();
  std::vector<Met> met(2);
  std::jthread zero([&] { met[0] = meet_at(place, rank_of(0, 2)); });
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(12345, 12345, 12345) != 0) ::_exit(1);
    ::_exit(all_that_comes(dial(place)).empty() ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  met[1] = meet_at(place, rank_of(1, 2));
  zero.join();
  require_met(met);
}

/// Processes that connect to a port and hang up, as fast as they can, until they are ended or 15 s are over.
class Flood {
 public:
  Flood(const std::string& place, uid_t user) {
    for (pid_t& one : m_processes) {
      one = ::fork();
      if (one != 0) continue;
      ::alarm(15);
      if (user != ::geteuid() && ::setresuid(user, user, user) != 0) ::_exit(1);
      for (;;) dial(place);
    }
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  ~Flood() {
    for (const pid_t one : m_processes) {
      ::kill(one, SIGKILL);
      ::waitpid(one, nullptr, 0);
    }
  }
  [[nodiscard]] bool goes_on() const {
    return std::ranges::all_of(m_processes, [](pid_t one) { return ::waitpid(one, nullptr, WNOHANG) == 0; });
  }

 private:
  std::array<pid_t, 3> m_processes{};
};

TEST_CASE("a flood of another user's connections keeps no rank out, and rank 0 to neither its deadline nor a request to stop" *
          doctest::skip(testing::threads_only || ::geteuid() != 0)) {
  for (const bool has_key : {false, true}) {
    const std::string place = free_place();
    const Flood flood(place, 12345);
    auto meetings = all_ranks_of(3);
    if (has_key) give_key(meetings, make_key());
    require_met(meet_together(place, meetings));
    CHECK(flood.goes_on());

    HurriedTiming hurried(10);
    Meeting alone = meetings.front();
    alone.timeout_seconds = 5;
    CHECK_MESSAGE(says(meet_at(place, alone, hurried.timing()).error, "did not come within 5 s"), has_key);
    CHECK(flood.goes_on());

    std::stop_source stop;
    HurriedTiming steady(1);
    Met stopped;
    std::jthread zero([&] { stopped = meet_at(place, meetings.front(), steady.timing(), stop.get_token()); });
    all_that_comes(dial(place));
    stop.request_stop();
    zero.join();
    CHECK(stopped.kind == ErrorKind::interrupted);
    CHECK(flood.goes_on());
  }
}

/// A guest made by hand, one step at a time.
class HandmadeGuest {
 public:
  HandmadeGuest(const std::string& place, const SecretKey& key) : m_socket(dial(place)), m_key(key) {}
  /// The other end's greeting, to which this answers with its own and its proof. Whether it was accepted.
  bool proves() {
    const auto theirs = parse_greeting(some(greeting_bytes));
    if (!theirs) return false;
    const Greeting mine = new_greeting(Keyed::yes);
    m_line.emplace(End::dials, m_key.bytes(), *theirs, mine);
    say(m_socket, to_bytes(mine) + m_line->own_proof());
    return m_line->is_proof_of_other(some(proof_bytes));
  }
  void introduces(const Meeting& meeting) { say(m_socket, m_line->seal(to_text(introduce(meeting)))); }
  std::string hears() { return all_that_comes(m_socket); }

 private:
  std::string some(std::size_t bytes) {
    std::string all(bytes, '\0');
    const ssize_t got = ::recv(m_socket.get(), all.data(), all.size(), MSG_WAITALL);
    return all.substr(0, got < 0 ? 0 : static_cast<std::size_t>(got));
  }

  FileDescriptor m_socket;
  SecretKey m_key;
  std::optional<SealedLine> m_line;
};

TEST_CASE("another user's strangers, however many, take the place of no process of this user" *
          doctest::skip(testing::threads_only || ::geteuid() != 0)) {
  const std::string place = free_place();
  Meeting zero = rank_of(0, 2);
  zero.key = make_key();
  std::stop_source stop;
  std::jthread host([&] { meet_at(place, zero, system_timing(), stop.get_token()); });
  HandmadeGuest slow(place, *zero.key);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(12345, 12345, 12345) != 0) ::_exit(1);
    std::vector<FileDescriptor> strangers;
    for (std::size_t i = 0; i < most_strangers + 100; ++i) strangers.push_back(dial(place));
    ::_exit(all_that_comes(strangers.front()).size() <= greeting_bytes ? 0 : 2);  // it has given its place
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(slow.proves());
  stop.request_stop();
}

TEST_CASE("the list of ranks is encrypted once for all that hear it") {
  const std::string place = free_place();
  auto meetings = all_ranks_of(4);
  const SecretKey key = make_key();
  give_key(meetings, key);
  std::vector<Met> met(2);
  std::jthread zero([&] { met[0] = meet_at(place, meetings[0]); });
  std::vector<std::string> heard;
  {
    HandmadeGuest one(place, key);
    HandmadeGuest other(place, key);
    REQUIRE(one.proves());
    REQUIRE(other.proves());
    one.introduces(meetings[1]);
    other.introduces(meetings[2]);
    met[1] = meet_at(place, meetings[3]);
    for (HandmadeGuest* guest : {&one, &other}) heard.push_back(guest->hears());
  }
  zero.join();
  for (const Met& one : met) REQUIRE_MESSAGE(one.roster.has_value(), one.error);
  const std::size_t list = 4 * 40;  // members' nonces alone are longer
  REQUIRE(heard[0].size() > list);
  CHECK(heard[0].size() == heard[1].size());
  CHECK(heard[0] != heard[1]);
  CHECK(heard[0].substr(heard[0].size() - list) == heard[1].substr(heard[1].size() - list));
}

TEST_CASE("a process of another user that has hung up is not taken for one of root" * doctest::skip(testing::threads_only || ::geteuid() != 0)) {
  std::uint16_t port = 0;
  const FileDescriptor listener = listen_on_loopback(0, port);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(12345, 12345, 12345) != 0) ::_exit(1);
    say(dial("127.0.0.1:" + std::to_string(port)), "what it has to say");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const FileDescriptor socket(::accept(listener.get(), nullptr, nullptr));
  // The kernel forgets the user of an end that was closed once that is acknowledged: the row says 0 then.
  while (says(read_file("/proc/net/tcp"), " 12345 ")) std::this_thread::yield();
  CHECK_FALSE(other_end_is_this_users(socket.get()));
}

}  // namespace
}  // namespace dsanalyze
