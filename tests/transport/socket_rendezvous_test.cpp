#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "../base/sanitizers.hpp"
#include "../base/texts.hpp"
#include "base/system/files.hpp"
#include "ports.hpp"
#include "transport/rendezvous/meeting_place.hpp"
#include "transport/rendezvous/sealed_line.hpp"

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
  while (hurried.sleeps() < 1) std::this_thread::yield();  // it found no listener
  met[0] = meet_at(place, rank_of(0, 2));
  early.join();
  require_met(met);
}

TEST_CASE("ranks that do not come are named to those that came") {
  auto meetings = all_ranks_of(3, 30);
  for (Meeting& meeting : meetings) meeting.world = 6;
  meetings[0].timeout_seconds = 10;
  std::vector<Met> met;
  std::string expected;
  // A busy machine may keep a rank from meeting the others while its clock runs ten times too fast.
  for (const int hurry : {10, 4, 1}) {
    const std::string place = free_place();
    expected = "ranks 3, 4 and 5 of 6 did not come within 10 s to " + place;
    HurriedTiming hurried(hurry);
    met = meet_together(place, meetings, hurried.timing());
    if (std::ranges::all_of(met, [&](const Met& one) { return says(one.error, expected); })) break;
  }
  for (const Met& one : met) {
    CHECK_MESSAGE(says(one.error, expected), one.error);
    CHECK(one.kind == ErrorKind::failed);
  }
}

TEST_CASE("a member says why it met no other: no listener, or something else that listens") {
  HurriedTiming hurried(20);
  CHECK(says(meet_at(free_place(), rank_of(1, 2, 5), hurried.timing()).error, "no process listens there"));
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
    text.clear();
    CHECK(text.view().empty());
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
