#include "staging_processes.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/random.hpp"

namespace dsanalyze::testing {
namespace {

constexpr std::size_t words_in_slot = 4096 / sizeof(std::uint64_t);
constexpr double patience_seconds = 60;  // of a test that hangs

Deadline patience() { return system_timing().clock->after(patience_seconds); }

/// A message of the tests' own hand-over, with the descriptors of the place's segments where somebody is to attach them.
struct Introduction {
  enum class What : std::uint32_t { attach, detach, join };
  What what = What::attach;
  std::uint32_t place = 0;
};

void tell(int socket, Introduction introduction, const std::vector<int>& segments) {
  // Nothing is lost when no process listens any more.
  static_cast<void>(send_message(socket, std::as_bytes(std::span(&introduction, 1)), segments, patience()).ok());
}

/// Nonsense over this process's own control page, found as the only one that it may write.
void spoil_own_page() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("rw-s") == std::string::npos || line.find("staging control page") == std::string::npos) continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    RandomStream random(begin);
    for (std::uintptr_t at = begin; at < end; at += sizeof(std::uint64_t)) {
      reinterpret_cast<std::atomic<std::uint64_t>*>(at)->store(random.next());  // NOLINT(performance-no-int-to-ptr)
    }
  }
}

class SharingJob {
 public:
  SharingJob(FileDescriptor board, FileDescriptor socket, std::vector<Blow> blows, SharedTally& tally)
      : m_socket(std::move(socket)),
        m_blows(std::move(blows)),
        m_passes(m_blows.size()),
        m_tally(tally),
        m_job(
            std::move(board), [this] { return coordinator_lives(); }, system_timing(), [this](StagingStep step) { pass(step); }) {
    for (std::size_t i = 0; i < m_blows.size(); ++i) m_passes[i] = m_blows[i].skipped;
  }

  int run(std::uint64_t epochs) {
    const std::array<int, 2> own{m_job.page(), m_job.slab()};
    const std::byte hello{1};
    if (!send_message(m_socket.get(), {&hello, 1}, own, patience()).ok()) return 2;
    while (!m_joined) {
      if (!meet(patience()).ok()) return 3;
    }
    if (epochs > 0) m_job.leave_after(epochs - 1);
    std::jthread listener([this] {
      while (!m_over && meet(system_timing().clock->after(0.01)).code != StatusCode::end) continue;
    });
    std::jthread producer([this] { produce(); });
    const int wrong = consume(epochs * m_job.facts().batches_per_epoch);
    m_job.leave();
    m_over = true;
    return wrong;
  }

 private:
  [[nodiscard]] bool coordinator_lives() const {
    pollfd end{m_socket.get(), 0, 0};
    return ::poll(&end, 1, 0) == 0 || (end.revents & POLLHUP) == 0;
  }
  void pass(std::optional<StagingStep> step, std::uint64_t filling = 0) {
    if (step) ++m_tally.taken[static_cast<std::size_t>(*step)];
    for (std::size_t i = 0; i < m_blows.size(); ++i) {
      const Blow& blow = m_blows[i];
      if (blow.step != step || blow.deed == Blow::Deed::keep_batches || m_passes[i].fetch_sub(1) != 0) continue;
      if (blow.deed == Blow::Deed::spoil_page) {
        spoil_own_page();
        continue;
      }
      while (blow.deed == Blow::Deed::stop_needed && m_released < filling) std::this_thread::yield();
      if (blow.deed == Blow::Deed::kill && step) ++m_tally.killed[static_cast<std::size_t>(*step)];
      ::pthread_kill(::pthread_self(), blow.deed == Blow::Deed::kill ? SIGKILL : SIGSTOP);  // this thread takes no further step
    }
  }
  Status meet(Deadline deadline) {
    Introduction introduction;
    std::size_t size = 0;
    std::vector<FileDescriptor> segments;
    const Status status = receive_message(m_socket.get(), std::as_writable_bytes(std::span(&introduction, 1)), size, segments, deadline);
    if (!status.ok()) return status;
    if (introduction.what == Introduction::What::join) {
      m_job.join(introduction.place);
      m_joined = true;
    } else if (introduction.what == Introduction::What::attach) {
      m_job.attach(introduction.place, std::move(segments.at(0)), std::move(segments.at(1)));
    } else {
      m_job.detach(introduction.place);
    }
    return status;
  }
  void produce() {
    StagingClaim claim;
    while (!m_over) {
      const Status status = m_job.claim(claim, system_timing().clock->after(0.05));
      if (status.code == StatusCode::timeout) continue;
      if (!status.ok()) return;
      for (std::size_t i = 0; i < words_in_slot; ++i) {
        if (i == words_in_slot / 2) pass({}, claim.sequence);
        const std::uint64_t word = mix(claim.sequence, i);
        std::memcpy(claim.bytes.data() + i * sizeof word, &word, sizeof word);
      }
      m_job.publish(claim, {1, 0, system_timing().clock->now()});
      ++m_tally.made;
    }
  }
  int consume(std::uint64_t all) {
    const bool keeps = std::ranges::any_of(m_blows, [](const Blow& blow) { return blow.deed == Blow::Deed::keep_batches; });
    StagedBatch batch;
    std::optional<std::uint64_t> next;
    if (all > 0) next = 0;
    while (true) {
      const Status status = m_job.take(batch, patience());
      if (status.code == StatusCode::end) return all == 0 || next == all ? 0 : 4;
      if (!status.ok()) return 10 + static_cast<int>(status.code);
      if (!next && batch.index != 0) return 5;
      if (batch.sequence != next.value_or(batch.sequence)) return 5;
      next = batch.sequence + 1;
      for (std::size_t i = 0; i < words_in_slot; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, batch.bytes.data() + i * sizeof word, sizeof word);
        if (word != mix(batch.sequence, i)) return 6;
      }
      while (keeps) ::pause();
      const Status released = m_job.release(batch.sequence);
      if (!released.ok()) return 10 + static_cast<int>(released.code);
      m_released = batch.sequence + 1;
    }
  }

  FileDescriptor m_socket;
  const std::vector<Blow> m_blows;
  std::vector<std::atomic<std::uint64_t>> m_passes;
  SharedTally& m_tally;
  bool m_joined = false;
  std::atomic<bool> m_over{false};
  std::atomic<std::uint64_t> m_released{0};
  StagingJob m_job;
};

/// Its end is left to be waited for.
bool still_runs(pid_t process) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

SharedTally* shared_tally() {
  void* const memory = ::mmap(nullptr, sizeof(SharedTally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return new (memory) SharedTally;
}

}  // namespace

void GroupOfProcesses::Unmap::operator()(SharedTally* tally) const { ::munmap(tally, sizeof(SharedTally)); }

GroupOfProcesses::GroupOfProcesses(const StagingFacts& facts, std::uint64_t epochs, std::vector<Blow> blows)
    : m_facts(facts),
      m_epochs(epochs),
      m_blows(std::move(blows)),
      m_patience(patience()),
      m_tally(shared_tally()),
      m_coordinator(
          facts, [this](std::uint32_t place) { return lives(place); }, system_timing()) {}

GroupOfProcesses::~GroupOfProcesses() {
  for (const Member& member : m_members) {
    ::kill(member.process, SIGKILL);
    ::waitpid(member.process, nullptr, 0);
  }
}

bool GroupOfProcesses::lives(std::uint32_t place) const {
  const auto newest = std::find_if(m_members.rbegin(), m_members.rend(), [place](const Member& member) { return member.place == place; });
  return newest != m_members.rend() && still_runs(newest->process);
}

bool GroupOfProcesses::start() {
  auto [mine, theirs] = socket_pair();
  std::vector<Blow> blows;
  std::ranges::copy_if(m_blows, std::back_inserter(blows), [this](const Blow& blow) { return blow.job == m_members.size(); });
  const pid_t process = ::fork();
  if (process == 0) {
    mine.reset();
    m_members.clear();
    int status = 98;
    try {
      status = SharingJob(FileDescriptor(::dup(m_coordinator.board())), std::move(theirs), blows, *m_tally).run(m_epochs);
    } catch (const std::exception&) {
      status = 99;
    }
    ::_exit(status);
  }
  m_members.push_back({process, std::move(mine), staging_most_jobs});
  theirs.reset();
  Member& member = m_members.back();
  std::byte hello{};
  std::size_t size = 0;
  std::vector<FileDescriptor> segments;
  if (!receive_message(member.socket.get(), {&hello, 1}, size, segments, m_patience).ok() || segments.size() != 2) return false;
  const std::uint32_t place = m_coordinator.admit(std::move(segments[0]), std::move(segments[1]));
  for (const Member& other : m_members) {
    if (other.place == staging_most_jobs) continue;
    tell(other.socket.get(), {Introduction::What::attach, place}, {m_coordinator.page(place), m_coordinator.slab(place)});
    if (m_coordinator.page(other.place) < 0 || other.place == place) continue;
    tell(member.socket.get(), {Introduction::What::attach, other.place}, {m_coordinator.page(other.place), m_coordinator.slab(other.place)});
  }
  member.place = place;
  tell(member.socket.get(), {Introduction::What::join, place}, {});
  return true;
}

bool GroupOfProcesses::start_all() {
  while (jobs() < m_facts.jobs) {
    if (!start()) return false;
  }
  m_coordinator.begin();
  return true;
}

bool GroupOfProcesses::survey_until(const std::function<bool()>& enough) {
  while (!enough()) {
    if (system_timing().clock->now() > m_patience.at) return false;
    const StagingRound round = m_coordinator.survey();
    departed.insert(departed.end(), round.departed.begin(), round.departed.end());
    vacated.insert(vacated.end(), round.vacated.begin(), round.vacated.end());
    late += round.late.size();
    for (const std::uint32_t place : round.vacated) {
      for (const Member& member : m_members) {
        if (member.place != place && still_runs(member.process)) tell(member.socket.get(), {Introduction::What::detach, place}, {});
      }
    }
    system_timing().waiter->sleep_until(system_timing().clock->after(0.001).at);
  }
  return true;
}

bool GroupOfProcesses::ended(std::uint32_t job) const { return !still_runs(m_members[job].process); }

bool GroupOfProcesses::all_ended() const {
  return std::ranges::none_of(m_members, [](const Member& member) { return still_runs(member.process); });
}

int GroupOfProcesses::end_of(std::uint32_t job) const {
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(m_members[job].process), &info, WEXITED | WNOWAIT);
  return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

void GroupOfProcesses::signal(std::uint32_t job, int number) const { ::kill(m_members[job].process, number); }

void GroupOfProcesses::hang_up() {
  for (Member& member : m_members) member.socket.reset();
}

}  // namespace dsanalyze::testing
