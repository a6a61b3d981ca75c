#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "fake_rank.hpp"
#include "transport/team/members.hpp"

// A rank that was stopped, or that the others lost, and that lives after all.

namespace dsanalyze {
namespace {

using test::MadeSamples;
using test::PairWithFake;
using transport::FrameHead;
using transport::FrameKind;

/// Nothing goes on with a rank that was given up: neither rounds nor agreements, nor samples.
bool is_at_its_end(Ranks& ranks, PeerRequest request) {
  request.tag = 4711;
  bool is_asked_in_vain = false;
  std::atomic<bool> is_answered{false};
  // Of what was asked for before some may still be on its way to the caller, and have all places.
  ranks.peers().deliver_to([&](std::span<const PeerCompletion> completions) {
    for (const PeerCompletion& completion : completions) {
      if (completion.buffer != UINT32_MAX) ranks.peers().release({&completion.buffer, 1});
      if (completion.tag != request.tag) continue;
      is_asked_in_vain = completion.status.code == StatusCode::io;
      is_answered = true;
    }
  });
  const bool is_asked = test::comes_true([&] {
                          return ranks.peers().submit({&request, 1}).ok();
                        }) &&
                        test::comes_true([&] { return is_answered.load(); });
  ranks.peers().deliver_to({});
  return is_asked && is_asked_in_vain && ranks.alive().empty() && ranks.collective().barrier(test::in_good_time()).code == StatusCode::io &&
         ranks.training().barrier(test::in_good_time()).code == StatusCode::io &&
         ranks.agree_alive(7, test::in_good_time()).status.code == StatusCode::io;
}

TEST_CASE("A rank that is told that the others go on without it is at its end, and says why") {
  const std::vector<std::pair<transport::Death, std::string>> reasons = {{transport::Death::silent, "it did not answer for 1 min 00 s"},
                                                                         {transport::Death::nonsense, "what it sent made no sense to them"},
                                                                         {transport::Death::excluded, "one of them had lost its connection with it"}};
  for (const auto& [death, words] : reasons) {
    PairWithFake pair;
    CHECK(pair.real->given_up().empty());
    CHECK(pair.fake->say({FrameKind::given_up, 0, static_cast<std::uint64_t>(death), 0}, {}));
    CHECK(test::comes_true([&] { return !pair.real->given_up().empty(); }));
    CHECK(pair.real->given_up() == "the other ranks went on without this one: " + words);
    CHECK(is_at_its_end(*pair.real, MadeSamples(1).request(0, 1)));
    CHECK(pair.real->counters().nonsense == 0);
  }
}

TEST_CASE("A reason that there is not gives no rank up, but is nonsense") {
  for (const std::uint64_t reason : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{6}, std::uint64_t{258}}) {
    PairWithFake pair;
    CHECK(pair.fake->say({FrameKind::given_up, 0, reason, 0}, {}));
    CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
    CHECK(pair.real->given_up().empty());
    CHECK(pair.real->counters().nonsense == 1);
  }
}

/// What the real rank says last before it hangs up.
std::optional<FrameHead> last_words(PairWithFake& pair) {
  std::optional<FrameHead> last;
  FrameHead head;
  std::vector<std::byte> bytes;
  while (pair.fake->hear(head, bytes)) last = head;
  return last;
}

TEST_CASE("A rank that is silent is told that the other goes on without it") {
  test::MovedClock clock;
  PairWithFake pair(30, {&clock, system_timing().waiter});
  REQUIRE(pair.is_served());
  clock.move(31);
  const auto last = last_words(pair);
  REQUIRE(last);
  CHECK(last->kind == FrameKind::given_up);
  CHECK(last->number == static_cast<std::uint64_t>(transport::Death::silent));
  CHECK(pair.real->given_up().empty());
  CHECK(pair.real->agree_alive(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{0});
}

TEST_CASE("A rank that talks nonsense is told that the other goes on without it") {
  PairWithFake pair;
  CHECK(pair.fake->say({FrameKind::given_up, 0, 77, 0}, {}));
  const auto last = last_words(pair);
  REQUIRE(last);
  CHECK(last->kind == FrameKind::given_up);
  CHECK(last->number == static_cast<std::uint64_t>(transport::Death::nonsense));
}

/// Three ranks, each a process of its own; rank 1 is stopped for so long that the others go on.
class ProcessesOfRanks {
 public:
  static constexpr std::uint32_t world = 3;
  static constexpr double deadline_seconds = 0.5;

  /// `asks`: rank 1 is stopped with answers in flight, more than there is room for on its connections. `end`: the others, once they have gone on.
  explicit ProcessesOfRanks(bool asks, bool end = false) : m_asks(asks), m_end(end) {
    std::vector<Listener> listeners(world);
    std::vector<std::string> addresses;
    addresses.reserve(world);
    for (const Listener& listener : listeners) addresses.push_back(listener.address());
    std::array<int, 2> ends{};
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      REQUIRE(::pipe(ends.data()) == 0);
      const pid_t process = ::fork();
      REQUIRE(process >= 0);
      if (process == 0) {
        ::close(ends[0]);
        m_report = ends[1];
        live(std::move(listeners[rank]), rank, addresses);
        ::_exit(0);
      }
      ::close(ends[1]);
      m_processes.push_back(process);
      m_reports.emplace_back(ends[0]);
    }
  }
  ~ProcessesOfRanks() {
    for (const pid_t process : m_processes) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  ProcessesOfRanks(const ProcessesOfRanks&) = delete;
  ProcessesOfRanks& operator=(const ProcessesOfRanks&) = delete;

  void signal(std::uint32_t rank, int number) { ::kill(m_processes[rank], number); }
  /// The next letter that the rank reports; 0: it has ended.
  char report_of(std::uint32_t rank) {
    char letter = 0;
    while (::read(m_reports[rank].get(), &letter, 1) < 0 && errno == EINTR) {
    }
    return letter;
  }

 private:
  void report(char letter) const {
    if (::write(m_report, &letter, 1) != 1) ::_exit(1);
  }
  void live(Listener listener, std::uint32_t rank, const std::vector<std::string>& addresses) const {
    RankFacts facts = test::facts_of(rank, world);
    facts.peer_deadline_seconds = deadline_seconds;
    facts.largest_sample = 1U << 20U;
    facts.connections_per_peer = 1;
    const MadeSamples samples(8, 1U << 20U);
    try {
      const auto ranks = join_ranks(std::move(listener), facts, addresses, system_timing());
      ranks->serve(&samples);
      if (!ranks->collective().barrier(test::in_good_time()).ok()) ::_exit(1);
      rank == 1 ? be_stopped(*ranks, samples) : go_on(*ranks);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  void be_stopped(Ranks& ranks, const MadeSamples& samples) const {
    std::atomic<bool> is_told{false};
    ranks.peers().deliver_to([&](std::span<const PeerCompletion> completions) {
      std::vector<std::uint32_t> buffers;
      for (const PeerCompletion& completion : completions) {
        if (completion.buffer != UINT32_MAX) buffers.push_back(completion.buffer);
      }
      ranks.peers().release(buffers);
      if (!is_told.exchange(true)) report('m');  // its bytes are on their way
    });
    std::vector<PeerRequest> requests;
    for (std::uint32_t i = 0; m_asks && i < 64; ++i) requests.push_back(samples.request(i % 8, i % 2 == 0 ? 0 : 2));
    if (!m_asks) report('m');
    const auto keeps_on = [&] {
      if (m_asks) static_cast<void>(ranks.peers().submit(requests));
      return m_end ? !ranks.peers().alive(0) && !ranks.peers().alive(2) : !ranks.given_up().empty();
    };
    if (m_end) {
      report(test::comes_true(keeps_on) ? 'l' : 'x');
      ranks.peers().deliver_to({});
      report(ranks.agree_alive(0, test::in_good_time()).status.code == StatusCode::io ? 'i' : 'x');
      return;
    }
    report(test::comes_true(keeps_on) ? 'g' : 'x');
    ranks.peers().deliver_to({});
    report(ranks.given_up().starts_with("the other ranks went on without this one: it did not answer for ") ? 'w' : 'x');
    report(is_at_its_end(ranks, samples.request(0, 0)) ? 'e' : 'x');
  }
  void go_on(Ranks& ranks) const {
    report('m');
    if (!test::comes_true([&] { return !ranks.peers().alive(1); })) ::_exit(1);
    const Agreement agreement = ranks.agree_alive(0, test::in_good_time());
    report(agreement.ranks == std::vector<std::uint32_t>{0, 2} ? 'a' : 'x');
    report(ranks.given_up().empty() ? 'o' : 'x');
    while (!m_end) ::pause();
    if (!ranks.collective().barrier(test::in_good_time()).ok()) ::_exit(1);
  }

  bool m_asks;
  bool m_end;
  int m_report = -1;
  std::vector<pid_t> m_processes;
  std::vector<FileDescriptor> m_reports;
};

TEST_CASE("A rank that was stopped while the others went on finds that it was given up, whatever was on its way to it") {
  for (const bool asks : {false, true}) {
    CAPTURE(asks);
    ProcessesOfRanks ranks(asks);
    for (std::uint32_t rank = 0; rank < ProcessesOfRanks::world; ++rank) REQUIRE(ranks.report_of(rank) == 'm');
    ranks.signal(1, SIGSTOP);
    for (const std::uint32_t rank : {0U, 2U}) {
      CHECK(ranks.report_of(rank) == 'a');
      CHECK(ranks.report_of(rank) == 'o');
    }
    ranks.signal(1, SIGCONT);
    for (const char letter : {'g', 'w', 'e'}) CHECK(ranks.report_of(1) == letter);
  }
}

TEST_CASE("A rank that was stopped until the others had gone on and ended does not go on by itself") {
  // Where what was on its way leaves no room for the word that it was given up, which is not so each time.
  for (const bool asks : {false, true, true, true}) {
    CAPTURE(asks);
    ProcessesOfRanks ranks(asks, true);
    for (std::uint32_t rank = 0; rank < ProcessesOfRanks::world; ++rank) REQUIRE(ranks.report_of(rank) == 'm');
    ranks.signal(1, SIGSTOP);
    for (const std::uint32_t rank : {0U, 2U}) {
      for (const char letter : {'a', 'o', '\0'}) CHECK(ranks.report_of(rank) == letter);
    }
    ranks.signal(1, SIGCONT);
    for (const char letter : {'l', 'i'}) CHECK(ranks.report_of(1) == letter);
  }
}

}  // namespace
}  // namespace dsanalyze
