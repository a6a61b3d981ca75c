#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "loaders/dataset/dataset.hpp"
#include "member_impl.hpp"
#include "terms.hpp"

namespace dsanalyze {

using group_protocol::Kind;

namespace {

constexpr double host_answers_seconds = 5;
constexpr double listens_again_seconds = 3600;
constexpr double watches_again_seconds = 3600;
constexpr std::string_view let_more_start = "end others, or raise the limit";

}  // namespace

GroupMember::Impl::Impl(Parts given) : parts(std::move(given)), process(::getpid()), event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event.valid()) throw_errno("cannot make", "an event descriptor", errno);
  ::fcntl(parts.line.get(), F_SETFD, FD_CLOEXEC);  // it may have come by inheritance
  greet();
  try {
    listener = std::jthread([this] { listen(); });
  } catch (const std::exception& error) {
    throw_no_thread(error, "a thread that listens to the group's host", let_more_start);
  }
}

GroupMember::Impl::~Impl() {
  stopping.store(true);
  {
    const std::scoped_lock lock(mutex);
    if (answer.placed) job->leave();
  }
  ::shutdown(parts.line.get(), SHUT_RDWR);
  changed();
}

bool GroupMember::Impl::forked() const { return ::getpid() != process; }

void GroupMember::Impl::greet() {
  const Deadline deadline = parts.timing.clock->after(host_answers_seconds);
  const auto failure = [](const std::string& why) { return "cannot join the group: " + why; };
  Status status =
      group_protocol::send(parts.line.get(), {.kind = Kind::hello, .epoch = parts.command}, group_protocol::to_text(parts.demands), {}, deadline);
  group_protocol::Inbox inbox;
  group_protocol::Message message;
  // A host that ends the line at once has said why before, even when the hello came too late for it.
  if (status.ok() || status.code == StatusCode::io) status = inbox.receive(parts.line.get(), message, deadline);
  if (status.code == StatusCode::end) status = inbox.receive(parts.line.get(), message, deadline);
  if (status.code == StatusCode::unsupported) {
    throw RefusedError(failure(fmt::format("its host speaks version {} of the protocol, this program version {}; start both from the same version",
                                           message.head.spoken, group_protocol::version)));
  }
  if (status.code == StatusCode::timeout) throw NoGroupError(failure(fmt::format("its host does not answer within {} s", host_answers_seconds)));
  if (status.code == StatusCode::io && status.detail == EPERM) {
    throw RefusedError(failure("its host belongs to another user, and a group is for one user's jobs"));
  }
  if (status.code == StatusCode::io && (status.detail == ENOMEM || status.detail == ENOBUFS)) throw NoMemoryError(failure("memory is short"));
  if (!status.ok() && status.code != StatusCode::corrupt) throw LostGroupError(failure("its host is gone"));
  if (status.ok() && message.head.kind == Kind::ended) throw EpochsOverError(printable(message.text));
  if (status.ok() && message.head.kind == Kind::refused) throw RefusedError("the group refuses this job: " + printable(message.text));
  if (!status.ok() || message.head.kind != Kind::terms)
    throw Error(failure("its host answers what makes no sense; start both from the same version"));
  terms = group_protocol::parse_terms(message.text);
  index = (message.head.attached & group_protocol::has_index) != 0 ? attach_index(message.take(group_protocol::has_index)) : nullptr;
  server_line = message.take(group_protocol::has_server);
  board = std::move(message.descriptors.front());
}

std::string GroupMember::Impl::failure() const {
  if (forked()) return "a forked process is no member of its parent's group: connect to the group anew";
  const std::scoped_lock lock(mutex);
  return why_lost;
}

void GroupMember::Impl::changed() {
  changes.fetch_add(1, std::memory_order_release);
  parts.timing.waiter->wake(changes, INT32_MAX);
}

void GroupMember::Impl::signal() const {
  const std::uint64_t one = 1;
  while (::write(event.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
}

void GroupMember::Impl::listen() {
  std::string why = "the group's host is gone: no process watches over the jobs any more; start the group again";
  try {
    group_protocol::Inbox inbox;
    while (true) {
      group_protocol::Message message;
      const Status status = inbox.receive(parts.line.get(), message, parts.timing.clock->after(listens_again_seconds));
      if (status.code == StatusCode::timeout) continue;
      if (status.code == StatusCode::corrupt || status.code == StatusCode::unsupported) throw Error("its host sent what is no message of a group");
      if (!status.ok()) break;
      hear(message);
    }
  } catch (const std::exception& error) {
    lost_for_memory.store(says_no_memory(error));
    why = std::string("this job cannot go on with its group: ") + (lost_for_memory.load() ? "out of memory" : error.what());
    ::shutdown(parts.line.get(), SHUT_RDWR);
  }
  {
    const std::scoped_lock lock(mutex);
    why_lost = std::move(why);
  }
  lost.store(true, std::memory_order_release);
  changed();
  signal();
}

void GroupMember::Impl::hear(group_protocol::Message& message) {
  const std::scoped_lock lock(mutex);
  const bool has_job = job != nullptr;
  switch (message.head.kind) {
    case Kind::waiting:
      answer.epoch = message.head.epoch;
      answer.wait = message.head.wait;
      ++answer.told;
      break;
    case Kind::come:
      answer.come = true;
      break;
    case Kind::placed:
      if (!has_job) throw Error("its host placed a job that had not asked");
      job->join(message.head.place);
      answer.place = message.head.place;
      answer.epoch = message.head.epoch;
      answer.wait = message.head.wait;
      answer.placed = true;
      break;
    case Kind::introduce:
      if (!has_job) throw Error("its host introduced a job to one that had not asked");
      job->attach(message.head.place, message.take(group_protocol::has_page), message.take(group_protocol::has_slab));
      break;
    case Kind::vacated:
      if (has_job) job->detach(message.head.place);
      break;
    case Kind::refused:
      answer.refused = printable(message.text);
      break;
    case Kind::ended:
      ended.store(true, std::memory_order_release);
      break;
    default:
      throw Error("its host sent a message that makes no sense to a member");
  }
  changed();
}

void GroupMember::Impl::hand_over() {
  FileDescriptor copy(::fcntl(board.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) throw_errno("cannot join the group:", "its board", errno);
  auto made = std::make_unique<StagingJob>(
      std::move(copy), [this] { return host_lives(); }, parts.timing, parts.observer);
  if (made->facts() != terms.staging) throw Error("cannot join the group: its board does not agree with its terms; start all from the same version");
  const std::array segments{made->page(), made->slab()};
  const bool makes = made->slab() >= 0;
  {
    const std::scoped_lock lock(mutex);
    job = std::move(made);
  }
  const std::uint32_t attached = group_protocol::has_page | (makes ? group_protocol::has_slab : 0);
  static_cast<void>(group_protocol::send(parts.line.get(), {.kind = Kind::enter, .attached = attached}, {}, std::span(segments).first(makes ? 2 : 1),
                                         parts.timing.clock->after(host_answers_seconds))
                        .ok());
}

void GroupMember::Impl::watch() {
  while (!stopping.load()) {
    const std::uint32_t seen = changes.load(std::memory_order_acquire);
    const Deadline deadline = parts.timing.clock->after(watches_again_seconds);
    if (!entered.load(std::memory_order_acquire)) {
      parts.timing.waiter->wait(changes, seen, deadline);
      continue;
    }
    const Status status = job->await(deadline);
    if (status.code == StatusCode::timeout) continue;
    signal();
    if (!status.ok()) return;
  }
}

Status GroupMember::Impl::enter(Deadline deadline, const std::function<void(std::uint64_t, double)>& waiting) {
  if (!asked) {
    asked = true;
    static_cast<void>(group_protocol::send(parts.line.get(), {.kind = Kind::ask}, {}, {}, deadline).ok());
  }
  const auto tell = [&](const Answer& said) {
    if (waiting) waiting(said.epoch, said.wait < 0 ? -1 : to_seconds(said.wait));
  };
  for (std::uint64_t told = 0;;) {
    const std::uint32_t seen = changes.load(std::memory_order_acquire);
    Answer said;
    {
      const std::scoped_lock lock(mutex);
      said = answer;
    }
    if (said.placed) {
      if (said.epoch != terms.staging.first_epoch) tell(said);
      entered.store(true, std::memory_order_release);
      changed();
      return {};
    }
    if (!said.refused.empty()) throw RefusedError("the group refuses this job: " + said.refused);
    if (ended.load(std::memory_order_acquire)) return {StatusCode::end, 0};
    if (!host_lives()) return {StatusCode::io, EPIPE};
    if (said.come && job == nullptr) {
      try {
        hand_over();
      } catch (const std::exception&) {
        ::shutdown(parts.line.get(), SHUT_RDWR);  // others may have its place
        throw;
      }
      continue;
    }
    if (told != said.told) {
      told = said.told;
      tell(said);
      continue;
    }
    if (parts.timing.clock->now() >= deadline.at) return {StatusCode::timeout, 0};
    parts.timing.waiter->wait(changes, seen, deadline);
  }
}

GroupMember::GroupMember(Parts parts) : m_impl(std::make_unique<Impl>(std::move(parts))) {}
GroupMember::~GroupMember() {
  if (!m_impl->forked()) return;
  // A child that was forked has a copy, and none of its threads: it is not the member, and only lets go of its end of the line.
  m_impl->parts.line.reset();
  static_cast<void>(m_impl.release());
}

const GroupTerms& GroupMember::terms() const { return m_impl->terms; }
std::shared_ptr<const DatasetIndex> GroupMember::index() const { return m_impl->index; }
FileDescriptor GroupMember::take_server_line() { return std::move(m_impl->server_line); }
Status GroupMember::enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting) {
  if (m_impl->forked()) return {StatusCode::io, ECHILD};
  return m_impl->enter(deadline, waiting);
}
StagingJob& GroupMember::job() {
  if (m_impl->forked()) throw Error(m_impl->failure());
  if (!m_impl->entered.load(std::memory_order_acquire)) throw Error("this job has not entered its group");
  return *m_impl->job;
}
std::uint32_t GroupMember::place() const {
  const std::scoped_lock lock(m_impl->mutex);
  return m_impl->answer.place;
}
bool GroupMember::lost() const { return !m_impl->host_lives(); }
std::string GroupMember::failure() const { return m_impl->failure(); }
bool GroupMember::out_of_memory() const { return m_impl->lost_for_memory.load(); }
int GroupMember::event_descriptor() const {
  if (!m_impl->forked()) {
    // Not std::call_once: where the released library throws through the C library's function for it, the process ends, as each has an unwinder of its
    // own.
    const std::lock_guard lock(m_impl->watch_begins);
    try {
      if (!m_impl->watcher.joinable()) m_impl->watcher = std::jthread([this] { m_impl->watch(); });
    } catch (const std::exception& error) {
      throw_no_thread(error, "a thread that looks out for batches", let_more_start);
    }
  }
  return m_impl->event.get();
}

}  // namespace dsanalyze
