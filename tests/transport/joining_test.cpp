#include <doctest/doctest.h>
#include <fcntl.h>

#include <set>
#include <string>
#include <thread>

#include "fake_rank.hpp"

namespace dsanalyze {
namespace {

/// What join_ranks() says; empty when it succeeds.
std::string trouble_of(const RankFacts& facts, const std::vector<std::string>& addresses) {
  try {
    join_ranks(Listener(), facts, addresses, system_timing());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("A listener says where it is") {
  const Listener listener("127.0.0.1");
  CHECK(listener.address().starts_with("127.0.0.1:"));
  CHECK(Listener("0.0.0.0", "127.0.0.1").address().starts_with("127.0.0.1:"));
}

TEST_CASE("A listener at what is no address of this server is refused in words") {
  CHECK_THROWS_AS(Listener("localhost"), UsageError);
  CHECK_THROWS_AS(Listener(""), UsageError);
  CHECK_THROWS_AS(Listener("0.0.0.0"), UsageError);
  CHECK_THROWS_AS(Listener("::"), UsageError);
  CHECK_THROWS_WITH_AS(Listener("192.0.2.1"), doctest::Contains("192.0.2.1"), Error);  // reserved for documentation
  CHECK_THROWS_WITH_AS(Listener("a\x1b[2J"), doctest::Contains("\\x1b"), UsageError);
}

TEST_CASE("Facts that make no sense are refused by name") {
  const auto refused = [](auto change) {
    RankFacts facts = test::facts_of(0, 2);
    change(facts);
    try {
      facts.validate();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused([](RankFacts&) {}).empty());
  CHECK(has(refused([](RankFacts& facts) { facts.world = 0; }), "world"));
  CHECK(has(refused([](RankFacts& facts) { facts.world = most_ranks + 1; }), "world"));
  CHECK(has(refused([](RankFacts& facts) { facts.rank = 2; }), "rank"));
  CHECK(has(refused([](RankFacts& facts) { facts.connections_per_peer = 0; }), "connections_per_peer"));
  CHECK(has(refused([](RankFacts& facts) { facts.io_threads = 0; }), "io_threads"));
  CHECK(has(refused([](RankFacts& facts) { facts.places = 1025; }), "places"));
  CHECK(has(refused([](RankFacts& facts) { facts.largest_sample = Bytes{1} << 32U; }), "largest_sample"));
  CHECK(has(refused([](RankFacts& facts) { facts.peer_deadline_seconds = 0; }), "peer_deadline_seconds"));
  CHECK(has(refused([](RankFacts& facts) { facts.setup_seconds = -1; }), "setup_seconds"));
}

TEST_CASE("Addresses that make no sense are refused and quoted") {
  RankFacts facts = test::facts_of(1, 2);
  for (const std::string address :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "localhost:80", ":80", "::1:80", "[127.0.0.1]:80"}) {
    CAPTURE(address);
    CHECK(has(trouble_of(facts, {address, address}), "is no rank's address"));
  }
  CHECK(has(trouble_of(facts, {"127.0.0.1:1"}), "1 addresses were given for 2 ranks"));
}

TEST_CASE("Ranks that do not come are named with what is known of them") {
  RankFacts facts = test::facts_of(1, 3);
  facts.setup_seconds = 0.1;
  // No rank listens where one was before.
  const std::string gone = Listener().address();
  const std::string trouble = trouble_of(facts, {gone, gone, gone});
  CHECK(has(trouble, "rank 0 (Connection refused)"));
  CHECK(has(trouble, "rank 2 (has not called)"));
  CHECK(has(trouble, "2 of 3 ranks"));
}

TEST_CASE("A rank that waits for others to join can be interrupted") {
  std::stop_source stop;
  std::jthread interrupting([&] { stop.request_stop(); });
  const std::string gone = Listener().address();
  CHECK_THROWS_AS(join_ranks(Listener(), test::facts_of(1, 2), {gone, gone}, system_timing(), stop.get_token()), Interrupted);
}

TEST_CASE("Many ranks that do not come are counted") {
  RankFacts facts = test::facts_of(0, 4096);
  facts.setup_seconds = 0;
  const std::string trouble = trouble_of(facts, std::vector<std::string>(4096, "127.0.0.1:1"));
  CHECK(has(trouble, "rank 8 (has not called) and 4087 more"));
}

TEST_CASE("Ranks with other terms learn that at once, on both sides") {
  std::vector<Listener> listeners(2);
  const std::vector<std::string> addresses = {listeners[0].address(), listeners[1].address()};
  std::vector<std::future<std::string>> joining;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    joining.push_back(std::async(std::launch::async, [rank, &addresses, &listener = listeners[rank]] {
      RankFacts facts = test::facts_of(rank, 2);
      facts.terms = rank == 0 ? "one dataset" : "another";
      try {
        join_ranks(std::move(listener), facts, addresses, system_timing());
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    }));
  }
  const std::string of_0 = joining[0].get();
  const std::string of_1 = joining[1].get();
  CHECK((has(of_0, "rank 1 (other terms)") || has(of_0, "rank 1 (has not called)")));
  CHECK((has(of_1, "rank 0 (other terms)") || has(of_1, "rank 0 (Connection refused)")));
  CHECK((has(of_0, "other terms") || has(of_1, "other terms")));
}

/// Descriptors of connections and listening sockets.
std::set<int> open_sockets() {
  std::set<int> sockets;
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.ss_family == AF_INET) sockets.insert(descriptor);
  }
  return sockets;
}

TEST_CASE("Programs that a rank starts inherit none of its sockets") {
  const std::set<int> before = open_sockets();
  test::JobOfRanks job(2);
  std::size_t sockets = 0;
  for (const int descriptor : open_sockets()) {
    if (before.contains(descriptor)) continue;
    ++sockets;
    CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(sockets == 6);  // two that listen, two connections of two ends
}

TEST_CASE("A job of eight ranks with several connections each comes together") {
  test::JobOfRanks job(8, [](RankFacts& facts, std::vector<std::string>&) { facts.connections_per_peer = 3; });
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    CHECK(job[rank].alive().size() == 8);
    CHECK(job[rank].counters().strangers() == 0);
  }
}

}  // namespace
}  // namespace dsanalyze
