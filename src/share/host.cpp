#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>

#include "group.hpp"
#include "host_desk.hpp"
#include "host_jobs.hpp"
#include "host_lines.hpp"

namespace dsanalyze {

/// The host's one thread, which never waits for a member:
///   HostDesk   what other threads ask and read
///   HostLines  sockets and messages
///   HostJobs   the group, by the coordinator of its staging area
struct GroupHost::Impl {
  using Connection = group_protocol::Connection;

  explicit Impl(Parts given)
      : parts(std::move(given)), desk(parts.timing), jobs(parts, desk, lines), lines(parts.socket, desk, jobs, parts.timing), process(::getpid()) {
    jobs.publish_state();
    thread = std::jthread([this] { run(); });
  }
  ~Impl() {
    desk.stop();
    if (thread.joinable()) thread.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run() {
    while (!desk.stopped()) {
      try {
        round();
      } catch (const std::exception&) {
        // Without memory: what this round could not do the next one will.
        parts.timing.waiter->sleep_until(parts.timing.clock->now() + parts.terms.staging.look_again);
      }
    }
  }
  void round() {
    lines.wait(jobs.next_survey());
    if (lines.desk_asks()) desk.drain();
    jobs.take_commands();
    for (HostDesk::Line& line : desk.take_lines()) {
      Connection& connection = lines.add(std::move(line.socket));
      if (line.hello) jobs.greet(connection, line.hello->demands, line.hello->command, line.hello->sender);
    }
    lines.look_at_all();
    jobs.settle_ended_lines();
    if (parts.timing.clock->now() >= jobs.next_survey()) {
      lines.drop_overdue();
      jobs.survey();
    }
    jobs.let_in();
    lines.drop_gone();
    jobs.publish_state();
  }

  Parts parts;
  HostDesk desk;
  HostJobs jobs;
  HostLines lines;
  const pid_t process;
  std::jthread thread;  ///< last: it uses all of the above
};

GroupHost::GroupHost(Parts parts) : m_impl(std::make_unique<Impl>(std::move(parts))) {}
GroupHost::~GroupHost() {
  // A child that was forked has a copy, and none of its threads: it is not the host.
  if (m_impl->process != ::getpid()) static_cast<void>(m_impl.release());
}

std::string GroupHost::address() const { return m_impl->lines.address(); }
FileDescriptor GroupHost::connect() { return m_impl->desk.connect(); }
void GroupHost::adopt(FileDescriptor line, GroupDemands demands, std::uint64_t command, MessageSender sender) {
  m_impl->desk.adopt({std::move(line), HostDesk::Line::Hello{std::move(demands), command, sender}});
}
void GroupHost::begin() { m_impl->desk.begin(); }
void GroupHost::end() { m_impl->desk.end(); }
Bytes GroupHost::promised_bytes() const { return m_impl->jobs.coordinator().promised(); }
StagingProducer& GroupHost::producer() { return m_impl->jobs.coordinator().producer(); }
std::uint64_t GroupHost::withdraw() { return m_impl->jobs.coordinator().withdraw(); }
GroupHost::State GroupHost::state() const { return m_impl->desk.state(); }
std::vector<GroupJobAccount> GroupHost::accounts() const { return m_impl->desk.accounts(); }
Nanoseconds GroupHost::control_time() const { return m_impl->jobs.coordinator().control_time(); }
bool GroupHost::wait_over(Deadline deadline) { return m_impl->desk.wait_over(deadline); }

}  // namespace dsanalyze
