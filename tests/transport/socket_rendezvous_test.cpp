#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <thread>

#include "../base/sanitizers.hpp"
#include "../base/texts.hpp"
#include "dsanalyze/base/files.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "ranks_that_meet.hpp"
#include "sealed_line.hpp"
#include "socket_rendezvous.hpp"

namespace dsanalyze {
namespace {

using testing::all_ranks_of;
using testing::give_key;
using testing::HurriedTiming;
using testing::meet_at;
using testing::meet_together;
using testing::Met;
using testing::rank_of;
using testing::says;

sockaddr_in on_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

FileDescriptor listen_on_loopback(std::uint16_t port, std::uint16_t& bound) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = on_loopback(port);
  socklen_t size = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(socket.get(), 16) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  bound = ntohs(address.sin_port);
  return socket;
}

/// A port that was free a moment ago.
std::string free_place() {
  std::uint16_t port = 0;
  listen_on_loopback(0, port);
  return "127.0.0.1:" + std::to_string(port);
}

std::uint16_t port_of(const std::string& place) { return static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))); }

/// A stranger's connection, once somebody listens.
FileDescriptor dial(const std::string& place) {
  const sockaddr_in address = on_loopback(port_of(place));
  for (;;) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
    std::this_thread::yield();
  }
}

bool say(const FileDescriptor& socket, std::string_view bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// All that comes until the other end closes.
std::string all_that_comes(const FileDescriptor& socket) {
  std::string all;
  char bytes[4096];
  for (;;) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, 60'000) <= 0) return all + "(still open)";
    const ssize_t got = ::recv(socket.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return all;
    all.append(bytes, static_cast<std::size_t>(got));
  }
}

void require_met(const std::vector<Met>& met) {
  for (const Met& one : met) {
    REQUIRE_MESSAGE(one.roster.has_value(), one.error);
    CHECK(one.roster->addresses == met.front().roster->addresses);
    CHECK(one.roster->addresses.size() == met.size());
    CHECK(one.roster->key.bytes() == met.front().roster->key.bytes());
  }
  CHECK(met.front().roster->key.bytes() != JobKey{});
}

TEST_CASE("ranks that meet at a port have one list and one key") {
  for (const std::uint32_t world : {1U, 2U, 9U}) require_met(meet_together(free_place(), all_ranks_of(world)));
}

TEST_CASE("with a key given, all have that one") {
  auto meetings = all_ranks_of(4);
  const SecretKey key = make_key();
  give_key(meetings, key);
  const auto met = meet_together(free_place(), meetings);
  require_met(met);
  CHECK(met[3].roster->key.bytes() == key.bytes());
}

TEST_CASE("ranks that come before rank 0 try again until it listens") {
  const std::string place = free_place();
  std::vector<Met> met(2);
  HurriedTiming hurried(1);
  std::jthread early([&] { met[1] = meet_at(place, rank_of(1, 2), hurried.timing()); });
  while (hurried.sleeps() < 1) std::this_thread::yield();  // it found nobody
  met[0] = meet_at(place, rank_of(0, 2));
  early.join();
  require_met(met);
}

TEST_CASE("ranks that do not come are named to those that came") {
  const std::string place = free_place();
  HurriedTiming hurried(10);
  auto meetings = all_ranks_of(3, 30);
  for (Meeting& meeting : meetings) meeting.world = 6;
  meetings[0].timeout_seconds = 10;
  const auto met = meet_together(place, meetings, hurried.timing());
  for (const Met& one : met) {
    CHECK_MESSAGE(says(one.error, "ranks 3, 4 and 5 of 6 did not come within 10 s to " + place), one.error);
    CHECK(one.kind == ErrorKind::failed);
  }
}

TEST_CASE("a member says why it met nobody: no listener, or something else that listens") {
  HurriedTiming hurried(20);
  CHECK(says(meet_at(free_place(), rank_of(1, 2, 5), hurried.timing()).error, "nobody listens there"));
  std::uint16_t port = 0;
  const FileDescriptor silent = listen_on_loopback(0, port);
  CHECK(says(meet_at("127.0.0.1:" + std::to_string(port), rank_of(1, 2, 5), hurried.timing()).error, "says nothing that a rank 0 says"));
}

TEST_CASE("ranks that contradict rank 0 are told in what, all of them") {
  const auto with = [](auto change) {
    auto meetings = all_ranks_of(3);
    change(meetings);
    return meetings;
  };
  const std::vector<std::pair<std::string, std::vector<Meeting>>> cases = {
      {"rank 2 that it has 4", with([](auto& all) { all[2].world = 4; })},
      {"rank 3 that it has 4", with([](auto& all) { all[2].world = 4, all[2].rank = 3; })},
      {"batch size differs between ranks: rank 0 has 64, rank 2 has 32", with([](auto& all) { all[2].agreed[1].value = "32"; })},
      {"two processes say that they are rank 1", with([](auto& all) { all[2] = all[1]; })},
      {"ranks 0 and 1 say that they listen at one address", with([](auto& all) { all[1].address = all[0].address; })},
  };
  for (const auto& [message, meetings] : cases) {
    HurriedTiming hurried(8);
    const auto met = meet_together(free_place(), meetings, hurried.timing());
    for (const Met& one : met) {
      CHECK_MESSAGE(says(one.error, message), one.error);
      CHECK(one.kind == ErrorKind::usage);
    }
  }
}

TEST_CASE("two jobs at one port: the second rank 0 is told that another program listens there") {
  std::uint16_t port = 0;
  const FileDescriptor other = listen_on_loopback(0, port);
  const Met met = meet_at("127.0.0.1:" + std::to_string(port), rank_of(0, 2));
  CHECK(says(met.error, "another program listens there; use another port"));
  CHECK(met.kind == ErrorKind::usage);
}

TEST_CASE("without a key only loopback is allowed, and the message makes one") {
  for (const std::string place : {"192.0.2.7:5000", "0.0.0.0:5000", "[2001:db8::1]:5000", "[::]:5000"}) {
    for (const std::uint32_t rank : {0U, 1U}) {
      const Met met = meet_at(place, rank_of(rank, 2));
      CHECK(says(met.error, "can be reached from other machines"));
      CHECK(says(met.error, "head -c 32 /dev/urandom > FILE; chmod 600 FILE"));
      CHECK(met.kind == ErrorKind::usage);
    }
  }
}

TEST_CASE("rank 0 says when the address is not its machine's, and when there is no such host") {
  Meeting zero = rank_of(0, 2);
  zero.key = make_key();
  CHECK(says(meet_at("192.0.2.7:5000", zero).error, "that is no address of this machine"));
  CHECK(says(meet_at("no-such-host.invalid:5000", zero).error, "there is no host \"no-such-host.invalid\""));
}

TEST_CASE("a rank with another key, or without one, is told and the others learn how many were dropped") {
  const SecretKey key = make_key();
  HurriedTiming hurried(10);
  for (const bool has_key : {true, false}) {
    auto meetings = all_ranks_of(3, 20);
    give_key(meetings, key);
    if (has_key) {
      meetings[2].key = make_key();
    } else {
      meetings[2].key.reset();
    }
    const auto met = meet_together(free_place(), meetings, hurried.timing());
    CHECK_MESSAGE(says(met[2].error, has_key ? "does not accept this rank's key" : "rank 0 was given a key and this rank was not"), met[2].error);
    CHECK(met[2].kind == ErrorKind::usage);
    for (const std::size_t other : {0U, 1U}) {
      CHECK_MESSAGE(says(met[other].error, "rank 2 of 3 did not come"), met[other].error);
      CHECK_MESSAGE((says(met[other].error, "connections that did not prove that they belong to the job were dropped") || !has_key),
                    met[other].error);
    }
  }
}

TEST_CASE("a listener that does not know the key learns nothing but a greeting and a proof, and is named") {
  std::uint16_t port = 0;
  const FileDescriptor listener = listen_on_loopback(0, port);
  std::string heard;
  std::jthread impostor([&] {
    const FileDescriptor socket(::accept(listener.get(), nullptr, nullptr));
    say(socket, to_bytes(new_greeting(Keyed::yes)) + std::string(proof_bytes, 'x'));
    heard = all_that_comes(socket);
  });
  Meeting one = rank_of(1, 2);
  one.key = make_key();
  const Met met = meet_at("127.0.0.1:" + std::to_string(port), one);
  impostor.join();
  CHECK(says(met.error, "does not know the job's key"));
  CHECK(heard.size() == greeting_bytes + proof_bytes);
}

TEST_CASE("strangers, garbage, slow senders and repeated proofs are dropped, learn nothing and hold nobody up") {
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

TEST_CASE("a frame that is longer than a rank may send ends its connection before it is read") {
  const JobKey key{};
  const Greeting listener = new_greeting(Keyed::yes);
  const Greeting dialer = new_greeting(Keyed::yes);
  SealedLine one(End::listens, key, listener, dialer);
  SealedLine other(End::dials, key, listener, dialer);
  SecretText text;
  std::string frame = one.seal(std::string(101, 'x'));
  CHECK(other.open(frame, 100, text) == SealedLine::Opened::broken);
  std::string huge = "\xff\xff\xff\xff";
  CHECK(other.open(huge, 100, text) == SealedLine::Opened::broken);
  std::string tiny(4, '\0');
  CHECK(other.open(tiny, 100, text) == SealedLine::Opened::broken);
}

TEST_CASE("frames come through whole, and changed, repeated, reflected or reordered ones do not") {
  const SecretKey key = make_key();
  const Greeting listener = new_greeting(Keyed::yes);
  const Greeting dialer = new_greeting(Keyed::yes);
  const SealedLine sender(End::dials, key.bytes(), listener, dialer);
  const SealedLine receiver(End::listens, key.bytes(), listener, dialer);
  CHECK(receiver.is_proof_of_other(sender.own_proof()));
  CHECK(sender.is_proof_of_other(receiver.own_proof()));
  CHECK(!receiver.is_proof_of_other(receiver.own_proof()));  // sent back
  SecretText text;
  {
    SealedLine from = sender;
    SealedLine to = receiver;
    std::string bytes = from.seal("one");
    bytes += from.seal("");
    bytes += from.seal("three").substr(0, 5);
    CHECK(to.open(bytes, 100, text) == SealedLine::Opened::yes);
    CHECK(text.view() == "one");
    CHECK(to.open(bytes, 100, text) == SealedLine::Opened::yes);
    CHECK(text.view().empty());
    CHECK(to.open(bytes, 100, text) == SealedLine::Opened::more);
  }
  const std::string frame = SealedLine(sender).seal("secret");
  CHECK(!says(frame, "secret"));
  for (std::size_t at = 4; at < frame.size(); ++at) {
    std::string changed = frame;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(SealedLine(receiver).open(changed, 100, text) == SealedLine::Opened::broken);
  }
  SealedLine to = receiver;
  std::string twice = frame + frame;
  CHECK(to.open(twice, 100, text) == SealedLine::Opened::yes);
  CHECK(to.open(twice, 100, text) == SealedLine::Opened::broken);
  std::string reflected = frame;
  CHECK(SealedLine(sender).open(reflected, 100, text) == SealedLine::Opened::broken);
  const SealedLine other_key(End::listens, make_key().bytes(), listener, dialer);
  CHECK(!other_key.is_proof_of_other(sender.own_proof()));
  const SealedLine other_nonce(End::listens, key.bytes(), new_greeting(Keyed::yes), dialer);
  CHECK(!other_nonce.is_proof_of_other(sender.own_proof()));
}

TEST_CASE("greetings of other versions are known by their number, anything else is no greeting") {
  Greeting greeting = new_greeting(Keyed::yes);
  const auto back = parse_greeting(to_bytes(greeting));
  REQUIRE(back.has_value());
  CHECK(back->nonce == greeting.nonce);
  CHECK(back->keyed == Keyed::yes);
  greeting.protocol = 77;
  CHECK(parse_greeting(to_bytes(greeting))->protocol == 77);
  CHECK(!parse_greeting(to_bytes(greeting).substr(1)));
  CHECK(!parse_greeting(std::string(greeting_bytes, 'd')));
}

TEST_CASE("a rank 0 of another version is named by both versions") {
  std::uint16_t port = 0;
  const FileDescriptor listener = listen_on_loopback(0, port);
  std::jthread other([&] {
    const FileDescriptor socket(::accept(listener.get(), nullptr, nullptr));
    Greeting greeting = new_greeting(Keyed::no);
    greeting.protocol = 9;
    say(socket, to_bytes(greeting));
    all_that_comes(socket);
  });
  CHECK(says(meet_at("127.0.0.1:" + std::to_string(port), rank_of(1, 2)).error, "it speaks protocol 9, this rank 2"));
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

TEST_CASE("the list of ranks is encrypted once, whoever hears it") {
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
  require_met(met);
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

TEST_CASE("a request to stop ends a rank at a port") {
  std::stop_source stop;
  stop.request_stop();
  for (const std::uint32_t rank : {0U, 1U})
    CHECK(meet_at(free_place(), rank_of(rank, 2), system_timing(), stop.get_token()).kind == ErrorKind::interrupted);
}

TEST_CASE("ranks that are processes meet at a port, and a killed one comes again" * doctest::skip(testing::threads_only)) {
  const std::string place = free_place();
  HurriedTiming hurried(1);
  Met zero;
  std::jthread host([&] { zero = meet_at(place, rank_of(0, 3)); });
  const auto child_rank = [&](std::uint32_t rank) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(meet_at(place, rank_of(rank, 3)).roster.has_value() ? 0 : 1);
    return child;
  };
  const pid_t killed = child_rank(1);
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  const std::vector<pid_t> children = {child_rank(1), child_rank(2)};
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  host.join();
  CHECK(zero.roster.has_value());
}

TEST_CASE("HOST:PORT is told from a file by its form") {
  for (const char* place : {"node1:5000", "10.0.0.1:1", "[::1]:65535"}) CHECK(is_host_and_port(place));
  for (const char* place : {"meet", "./a:1", "/tmp/a:1", "a:", ":5000", "a:0", "a:65536", "a:5x"}) CHECK(!is_host_and_port(place));
}

}  // namespace
}  // namespace dsanalyze
