#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "host_impl.hpp"

namespace dsanalyze {
namespace {

constexpr double hello_seconds = 2;
constexpr int most_at_once = 16;  // messages of one member, or strangers, before others have their turn
constexpr Deadline at_any_time{INT64_MAX};

void drain(int event) {
  std::uint64_t count = 0;
  while (::read(event, &count, sizeof count) < 0 && errno == EINTR) continue;
}

}  // namespace

void GroupHost::Impl::run() {
  while (!stopping.load()) {
    try {
      round();
    } catch (const std::exception&) {
      // Without memory: what this round could not do the next one will.
      parts.timing.waiter->sleep_until(parts.timing.clock->now() + parts.terms.staging.look_again);
    }
  }
}

void GroupHost::Impl::round() {
  wait_for_something();
  take_commands();
  look_at_all();
  settle_ended_lines();
  if (parts.timing.clock->now() >= next_survey) {
    next_survey = parts.timing.clock->now() + parts.terms.staging.look_again;
    accepts = true;
    drop_overdue();
    survey();
  }
  let_in();
  drop_gone();
  publish_state();
}

void GroupHost::Impl::wait_for_something() {
  polled.clear();
  polled_for.clear();
  const auto add = [this](int descriptor, short events, Connection* connection) {
    polled.push_back({descriptor, events, 0});
    polled_for.push_back(connection);
  };
  add(wake.get(), POLLIN, nullptr);
  add(listener && accepts ? listener->get() : -1, POLLIN, nullptr);
  for (Connection& connection : connections) {
    const auto events = static_cast<short>(POLLIN | (connection.wants_room() ? POLLOUT : 0));
    if (connection.socket() >= 0) add(connection.socket(), events, &connection);
    if (connection.process_descriptor() >= 0) add(connection.process_descriptor(), POLLIN, &connection);
  }
  const Nanoseconds left = std::max<Nanoseconds>(next_survey - parts.timing.clock->now(), 0);
  const timespec timeout{static_cast<time_t>(left / nanoseconds_per_second), static_cast<long>(left % nanoseconds_per_second)};
  if (::ppoll(polled.data(), polled.size(), &timeout, nullptr) < 0) {
    for (pollfd& entry : polled) entry.revents = 0;
  }
}

void GroupHost::Impl::look_at_all() {
  for (std::size_t i = 2; i < polled.size(); ++i) {
    Connection& connection = *polled_for[i];
    const pollfd& entry = polled[i];
    if (entry.revents == 0) continue;
    if (entry.fd == connection.process_descriptor()) {
      connection.forget_process();
      if (connection.stage == Stage::placed) places[connection.place]->process_ended = true;
      line_ended(connection);
    } else if (entry.fd == connection.socket()) {
      if ((entry.revents & POLLOUT) != 0 && !connection.send_rest()) line_ended(connection);
      if ((entry.revents & ~POLLOUT) != 0 && connection.socket() >= 0) hear(connection);
    }
  }
  if (polled[1].revents != 0) accept_all();
}

void GroupHost::Impl::drop_hung_up() {
  for (Connection& connection : connections) {
    if (connection.stage != Stage::placed && connection.hung_up()) line_ended(connection);
  }
  drop_gone();
}

void GroupHost::Impl::drop_gone() {
  std::erase_if(connections, [](const Connection& connection) { return connection.stage == Stage::gone; });
}

void GroupHost::Impl::take_commands() {
  if (polled[0].revents != 0) drain(wake.get());
  if (to_begin.exchange(false)) coordinator.begin();
  if (to_end.load() && !ending) {
    ending = true;
    coordinator.end();
    next_survey = 0;
  }
  std::vector<FileDescriptor> lines;
  {
    const std::scoped_lock lock(mutex);
    lines.swap(new_lines);
  }
  // Whoever has such a line was started by this process, and may take its time.
  for (FileDescriptor& line : lines) connections.emplace_back(std::move(line), at_any_time);
}

void GroupHost::Impl::accept_all() {
  for (int i = 0; i < most_at_once; ++i) {
    FileDescriptor line(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!line.valid()) {
      accepts = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;  // else without descriptors or memory: again with the next survey
      return;
    }
    if (connections.size() >= most_connections) drop_hung_up();
    Connection& connection = connections.emplace_back(std::move(line), parts.timing.clock->after(hello_seconds));
    if (connections.size() > most_connections) refuse(connection, "the host has as many connections as it serves at once");
  }
}

void GroupHost::Impl::hear(Connection& connection) {
  for (int i = 0; i < most_at_once && connection.socket() >= 0; ++i) {
    Message message;
    MessageSender sender;
    const Status status = inbox.receive(connection.socket(), message, sender, Deadline{0});
    switch (status.code) {
      case StatusCode::timeout:
        return;
      case StatusCode::ok:
        handle(connection, message, sender);
        break;
      case StatusCode::unsupported:
        refuse(connection, "it speaks version " + std::to_string(message.head.spoken) + " of the group's protocol, this host version " +
                               std::to_string(group_protocol::version) + "; start both from the same version");
        break;
      case StatusCode::corrupt:
        refuse(connection, "it sent what is no message of a group");
        break;
      case StatusCode::io:
        if (status.detail == EPERM) {
          refuse(connection, "it belongs to another user");
          break;
        }
        [[fallthrough]];
      default:
        line_ended(connection);
    }
  }
}

void GroupHost::Impl::handle(Connection& connection, Message& message, const MessageSender& sender) {
  using group_protocol::Kind;
  try {
    if (message.head.kind == Kind::hello && connection.stage == Stage::fresh) {
      greet(connection, message, sender);
    } else if (message.head.kind == Kind::ask && connection.stage == Stage::greeted) {
      connection.stage = Stage::asking;
      connection.asked = ++asks;
      if (ended) say(connection, {.kind = Kind::ended});
    } else if (message.head.kind == Kind::enter && connection.stage == Stage::called) {
      place(connection, message);
    } else {
      refuse(connection, "it sent a message that makes no sense where it is");
    }
  } catch (const std::exception& error) {
    refuse(connection, printable(error.what()));
  }
}

void GroupHost::Impl::drop_overdue() {
  const Nanoseconds now = parts.timing.clock->now();
  for (Connection& connection : connections) {
    const bool idle = connection.stage == Stage::fresh || connection.stage == Stage::called;
    if (idle && now >= connection.deadline.at) refuse(connection, "it did not go on in time");
    if (connection.socket() >= 0 && !connection.send_rest()) line_ended(connection);
  }
}

void GroupHost::Impl::line_ended(Connection& connection) {
  connection.close();
  if (connection.stage != Stage::placed) {
    connection.stage = Stage::gone;
    return;
  }
  Placed& job = *places[connection.place];
  if (job.line_ended == 0) job.line_ended = parts.timing.clock->now();
}

void GroupHost::Impl::settle_ended_lines() {
  const Nanoseconds now = parts.timing.clock->now();
  for (Connection& connection : connections) {
    if (connection.stage != Stage::placed || connection.socket() >= 0) continue;
    Placed& job = *places[connection.place];
    // A process that is killed closes its lines a moment before it is seen to be gone. One that goes on has closed its line itself.
    const bool ends = job.process_ended || connection.process_descriptor() < 0;
    if (!ends && now - job.line_ended < parts.terms.staging.look_again) continue;
    job.lives = false;
    connection.stage = Stage::gone;
    next_survey = 0;
  }
}

}  // namespace dsanalyze
