#include "child_jobs.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {

std::string did_not_end_text(std::size_t jobs) {
  return fmt::format(
      "{} still at work long after the time budget was over, and {} killed: pass a longer --time-budget, a smaller --subset or fewer --epochs.",
      jobs == 1 ? "1 job was" : fmt::format("{} jobs were", jobs), jobs == 1 ? "was" : "were");
}

ChildJobs::~ChildJobs() {
  kill_all();
  for (Child& child : m_children) {
    if (child.runs) ::waitpid(static_cast<pid_t>(child.process), nullptr, 0);
  }
}

void ChildJobs::start(const job_messages::Start& start) {
  Child child;
  child.job = start.job;
  child.record.job = start.job;
  auto [mine, theirs] = JobChannel::pair();
  child.channel = std::move(mine);
  const FileDescriptor line = m_connect();
  child.process = m_inputs.start_job(line.get(), theirs.descriptor());
  m_children.push_back(std::move(child));
  tell(m_children.back(), job_messages::start(start));
}

/// A job that does not hear it is gone, or will be seen not to end.
void ChildJobs::tell(Child& child, const std::string& line) { static_cast<void>(child.channel.send(line, m_timing, m_timing.clock->after(1)).ok()); }

std::optional<int> ChildJobs::job_of(std::int64_t process) const {
  const auto child = std::ranges::find(m_children, process, &Child::process);
  return child == m_children.end() ? std::nullopt : std::optional(child->job);
}

std::size_t ChildJobs::running() const { return static_cast<std::size_t>(std::ranges::count_if(m_children, &Child::runs)); }

bool ChildJobs::all_among(std::span<const GroupJobAccount> members) const {
  return std::ranges::all_of(m_children, [members](const Child& child) {
    const auto account = std::ranges::find(members, child.process, &GroupJobAccount::process);
    return !child.runs || (account != members.end() && account->end == GroupJobAccount::End::none);
  });
}

void ChildJobs::look(Deadline deadline) {
  std::vector<pollfd> waiting;
  for (const Child& child : m_children) {
    if (child.runs && child.talks) waiting.push_back({child.channel.descriptor(), POLLIN, 0});
  }
  const Nanoseconds left = std::max<Nanoseconds>(deadline.at - m_timing.clock->now(), 0);
  static_cast<void>(::poll(waiting.data(), waiting.size(), static_cast<int>(std::min<Nanoseconds>(left / 1'000'000, 1000))));
  for (Child& child : m_children) {
    if (!child.runs) continue;
    read(child);
    reap(child);
  }
}

void ChildJobs::read(Child& child) {
  std::string line;
  while (child.talks) {
    const Status status = child.channel.receive(line, m_timing, Deadline{0});
    if (status.code == StatusCode::timeout) return;
    if (!status.ok()) {
      child.talks = false;
      return;
    }
    take(child, line);
  }
}

void ChildJobs::take(Child& child, const std::string& line) {
  try {
    job_messages::Message message = job_messages::parse(line);
    switch (message.kind) {
      case job_messages::Message::Kind::epoch:
        child.standing = {child.job, message.epoch};
        break;
      case job_messages::Message::Kind::record:
        child.record = std::move(message.record);
        child.record.job = child.job;
        break;
      case job_messages::Message::Kind::ended:
        child.record.end = JobEnd::refused;
        break;
      case job_messages::Message::Kind::failed:
        child.error = fmt::format("job {} failed: {}", child.job, printable(message.what));
        break;
    }
  } catch (const Error& error) {
    child.error = fmt::format("job {} said what makes no sense: {}", child.job, error.what());
    child.talks = false;
    ::kill(static_cast<pid_t>(child.process), SIGKILL);
  }
}

void ChildJobs::reap(Child& child) {
  int how = 0;
  const pid_t ended = ::waitpid(static_cast<pid_t>(child.process), &how, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return;
  child.runs = false;
  read(child);
  if (!child.error.empty() || child.record.end != JobEnd::died) return;
  child.error = WIFSIGNALED(how) ? fmt::format("job {} was killed by signal {} ({})", child.job, WTERMSIG(how), ::strsignal(WTERMSIG(how)))
                                 : fmt::format("job {} ended with status {} and said nothing", child.job, WEXITSTATUS(how));
}

std::optional<std::vector<TrialSearch::Standing>> ChildJobs::standings() const {
  std::vector<TrialSearch::Standing> standings;
  for (const Child& child : m_children) {
    if (!child.runs) continue;
    if (!child.standing) return std::nullopt;
    standings.push_back(*child.standing);
  }
  return standings.empty() ? std::nullopt : std::optional(std::move(standings));
}

void ChildJobs::answer(int job, const std::string& line) {
  Child& child = *std::ranges::find(m_children, job, &Child::job);
  child.standing.reset();
  tell(child, line);
}

void ChildJobs::stop_all() {
  for (Child& child : m_children) {
    if (child.runs) tell(child, std::string(job_messages::stop));
  }
}

void ChildJobs::kill_all() {
  for (const Child& child : m_children) {
    if (child.runs) ::kill(static_cast<pid_t>(child.process), SIGKILL);
  }
}

std::vector<JobRecord> ChildJobs::records() const {
  std::vector<JobRecord> records;
  for (const Child& child : m_children) records.push_back(child.record);
  return records;
}

std::vector<std::string> ChildJobs::errors() const {
  std::vector<std::string> errors;
  for (const Child& child : m_children) {
    if (!child.error.empty()) errors.push_back(child.error);
  }
  return errors;
}

}  // namespace dsanalyze
