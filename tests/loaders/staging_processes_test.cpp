#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "dsanalyze/base/random.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/loaders/staging.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t shared_epochs = 3;
constexpr std::uint64_t shared_batches = 7;
constexpr std::size_t words_in_slot = 4096 / sizeof(std::uint64_t);
constexpr double patience_seconds = 60;  // of a test that hangs

StagingFacts facts_of_group(std::uint32_t jobs) {
  StagingFacts facts;
  facts.jobs = jobs;
  facts.batches_per_epoch = shared_batches;
  facts.prefetch = jobs;
  facts.look_again = 2'000'000;
  return facts;
}

/// What befalls the first job: a signal that it sends to itself.
struct Blow {
  int signal = 0;
  std::optional<StagingStep> step;  ///< before this one; without, in the middle of a slot
  std::uint64_t skipped = 0;        ///< times that it gets past there
};

/// A message of the test's own hand-over: a place, with the descriptors of its segments.
struct Introduction {
  std::uint32_t place = 0;
  std::uint32_t last = 0;
};

class SharingJob {
 public:
  SharingJob(FileDescriptor board, FileDescriptor socket, Blow blow)
      : m_socket(std::move(socket)),
        m_blow(blow),
        m_passes(blow.skipped),
        m_job(
            std::move(board), [this] { return coordinator_lives(); }, system_timing(),
            [this](StagingStep step) {
              if (m_blow.step == step) take_blow();
            }) {}

  /// 0 when it got every batch whole, once and in order.
  int run() {
    const std::array<int, 2> own{m_job.page(), m_job.slab()};
    const std::byte hello{1};
    if (!send_message(m_socket.get(), {&hello, 1}, own, patience()).ok()) return 2;
    if (!meet_others()) return 3;
    m_job.leave_after(shared_epochs - 1);
    std::jthread producer([this] { produce(); });
    const int wrong = consume();
    m_job.leave();
    m_over = true;
    return wrong;
  }

 private:
  static Deadline patience() { return system_timing().clock->after(patience_seconds); }
  [[nodiscard]] bool coordinator_lives() const {
    pollfd end{m_socket.get(), 0, 0};
    return ::poll(&end, 1, 0) == 0 || (end.revents & POLLHUP) == 0;
  }
  void take_blow() {
    if (m_blow.signal != 0 && m_passes.fetch_sub(1) == 0) ::kill(::getpid(), m_blow.signal);
  }
  bool meet_others() {
    Introduction introduction;
    do {
      std::size_t size = 0;
      std::vector<FileDescriptor> segments;
      if (!receive_message(m_socket.get(), std::as_writable_bytes(std::span(&introduction, 1)), size, segments, patience()).ok()) return false;
      if (segments.empty()) {
        m_job.join(introduction.place);
      } else {
        m_job.attach(introduction.place, std::move(segments.at(0)), std::move(segments.at(1)));
      }
    } while (introduction.last == 0);
    return true;
  }
  void produce() {
    StagingClaim claim;
    while (!m_over) {
      const Status status = m_job.claim(claim, system_timing().clock->after(0.05));
      if (status.code == StatusCode::timeout) continue;
      if (!status.ok()) return;
      for (std::size_t i = 0; i < words_in_slot; ++i) {
        if (i == words_in_slot / 2 && !m_blow.step) take_blow();
        const std::uint64_t word = mix(claim.sequence, i);
        std::memcpy(claim.bytes.data() + i * sizeof word, &word, sizeof word);
      }
      m_job.publish(claim, {1, 0, system_timing().clock->now()});
    }
  }
  int consume() {
    StagedBatch batch;
    for (std::uint64_t next = 0;; ++next) {
      const Status status = m_job.take(batch, patience());
      if (status.code == StatusCode::end) return next == shared_epochs * shared_batches ? 0 : 4;
      if (!status.ok()) return 10 + static_cast<int>(status.code);
      if (batch.sequence != next) return 5;
      for (std::size_t i = 0; i < words_in_slot; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, batch.bytes.data() + i * sizeof word, sizeof word);
        if (word != mix(next, i)) return 6;
      }
      if (!m_job.release(next).ok()) return 7;
    }
  }

  FileDescriptor m_socket;
  const Blow m_blow;
  std::atomic<std::uint64_t> m_passes;
  std::atomic<bool> m_over{false};
  StagingJob m_job;
};

/// The coordinator, in this process, and its jobs as processes.
class GroupOfProcesses {
 public:
  GroupOfProcesses(const StagingFacts& facts, const Blow& blow)
      : m_coordinator(
            facts, [this](std::uint32_t place) { return runs(m_processes[place]); }, system_timing()) {
    for (std::uint32_t i = 0; i < facts.jobs; ++i) start(i == 0 ? blow : Blow{});
  }
  ~GroupOfProcesses() {
    for (const pid_t process : m_processes) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  GroupOfProcesses(const GroupOfProcesses&) = delete;
  GroupOfProcesses& operator=(const GroupOfProcesses&) = delete;

  /// Brings all together. False when a job says nothing.
  bool introduce() {
    for (const FileDescriptor& socket : m_sockets) {
      std::byte hello{};
      std::size_t size = 0;
      std::vector<FileDescriptor> segments;
      if (!receive_message(socket.get(), {&hello, 1}, size, segments, m_patience).ok() || segments.size() != 2) return false;
      m_coordinator.admit(std::move(segments[0]), std::move(segments[1]));
    }
    for (std::uint32_t to = 0; to < m_sockets.size(); ++to) {
      for (std::uint32_t of = 0; of < m_sockets.size(); ++of) {
        if (of != to) tell(to, {of, 0}, {m_coordinator.page(of), m_coordinator.slab(of)});
      }
      tell(to, {to, 1}, {});
    }
    return true;
  }
  /// Surveys until all have ended, or `enough` says so; false when patience ends first.
  bool survey_until(const std::function<bool()>& enough) {
    while (!enough()) {
      if (system_timing().clock->now() > m_patience.at) return false;
      const StagingRound round = m_coordinator.survey();
      departed.insert(departed.end(), round.departed.begin(), round.departed.end());
      late += round.late.size();
      system_timing().waiter->sleep_until(system_timing().clock->after(0.001).at);
    }
    return true;
  }
  [[nodiscard]] bool all_ended() const {
    return std::ranges::none_of(m_processes, [](pid_t process) { return runs(process); });
  }
  /// Exit status, or the signal that ended it, negative.
  [[nodiscard]] int end_of(std::uint32_t job) const {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(m_processes[job]), &info, WEXITED | WNOWAIT);
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
  }
  void signal(std::uint32_t job, int number) const { ::kill(m_processes[job], number); }
  void hang_up() { m_sockets.clear(); }
  StagingCoordinator& coordinator() { return m_coordinator; }

  std::vector<StagingRound::Departed> departed;
  std::size_t late = 0;

 private:
  void start(const Blow& blow) {
    auto [mine, theirs] = socket_pair();
    const pid_t process = ::fork();
    if (process == 0) {
      mine.reset();
      m_sockets.clear();
      int status = 98;
      try {
        status = SharingJob(FileDescriptor(::dup(m_coordinator.board())), std::move(theirs), blow).run();
      } catch (const std::exception&) {
        status = 99;
      }
      ::_exit(status);
    }
    m_processes.push_back(process);
    m_sockets.push_back(std::move(mine));
  }
  void tell(std::uint32_t to, Introduction introduction, const std::vector<int>& segments) const {
    static_cast<void>(send_message(m_sockets[to].get(), std::as_bytes(std::span(&introduction, 1)), segments, m_patience).ok());
  }
  /// Its end is left to be waited for.
  static bool runs(pid_t process) {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

  const Deadline m_patience = system_timing().clock->after(patience_seconds);
  std::vector<pid_t> m_processes;
  std::vector<FileDescriptor> m_sockets;
  StagingCoordinator m_coordinator;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

/// The first of three jobs gets a SIGKILL; the others must not notice. Whether it did.
bool survives(const Blow& blow) {
  GroupOfProcesses group(facts_of_group(3), blow);
  REQUIRE(group.introduce());
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  const bool struck = group.end_of(0) == -SIGKILL;
  CHECK_MESSAGE((struck || group.end_of(0) == 0), group.end_of(0));
  CHECK(group.end_of(1) == 0);
  CHECK(group.end_of(2) == 0);
  for (const auto& [place, why] : group.departed) CHECK(why == (struck && place == 0 ? StagingDeparture::died : StagingDeparture::left));
  return struck;
}

TEST_CASE("a process killed in the middle of a batch costs the others nothing") {
  for (const std::uint64_t batches : {0U, 1U, 3U}) CHECK(survives({SIGKILL, {}, batches}));
}

TEST_CASE("a process killed before any step that a job takes costs the others nothing, and leaves nothing behind") {
  const std::ptrdiff_t before = open_descriptors();
  for (const StagingStep step : {StagingStep::enter, StagingStep::announce, StagingStep::look, StagingStep::release, StagingStep::wake_producers,
                                 StagingStep::leave, StagingStep::choose, StagingStep::claim, StagingStep::publish, StagingStep::wake_jobs}) {
    INFO(staging_step_name(step));
    CHECK(survives({SIGKILL, step, 0}));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a stopped process is waited for: no takeover, and nobody misses or repeats a batch when it goes on") {
  GroupOfProcesses group(facts_of_group(3), {SIGSTOP, {}, 2});
  REQUIRE(group.introduce());
  REQUIRE(group.survey_until([&] { return group.late > 0; }));
  CHECK(group.departed.empty());
  group.signal(0, SIGCONT);
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  for (std::uint32_t job = 0; job < 3; ++job) CHECK(group.end_of(job) == 0);
  for (const auto& [place, why] : group.departed) CHECK(why == StagingDeparture::left);
}

TEST_CASE("when the coordinator is gone every job says so and ends") {
  GroupOfProcesses group(facts_of_group(2), {SIGSTOP, {}, 1});
  REQUIRE(group.introduce());
  REQUIRE(group.survey_until([&] { return group.late > 0; }));
  group.hang_up();
  CHECK(group.end_of(1) == 10 + static_cast<int>(StatusCode::io));
}

}  // namespace
}  // namespace dsanalyze
