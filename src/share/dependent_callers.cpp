#include "dependent_callers.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "dependent_state.hpp"
#include "terms.hpp"

namespace dsanalyze {
namespace {

constexpr double hello_within_seconds = 2;
constexpr double started_within_seconds = 60;     ///< a process that inherits its line
constexpr double let_in_within_seconds = 2;       ///< from hello on
constexpr std::size_t max_waiting_callers = 128;  ///< by the socket

}  // namespace

DependentCallers::DependentCallers(const std::filesystem::path& socket, Timing timing) : m_timing(timing) {
  if (!socket.empty()) m_listener.emplace(socket, timing);
}

FileDescriptor DependentCallers::connect() {
  auto [mine, theirs] = socket_pair();
  name_senders(mine.get());
  const std::scoped_lock lock(m_mutex);
  m_handed_out.push_back(std::move(mine));
  return std::move(theirs);
}

std::string DependentCallers::address() const { return m_listener ? "unix:" + m_listener->path().string() : std::string(); }

bool DependentCallers::any() const {
  const std::scoped_lock lock(m_mutex);
  return m_count > 0 || !m_handed_out.empty();
}

void DependentCallers::add_to(std::vector<pollfd>& polled) const {
  if (m_listener) polled.push_back({m_listener->get(), POLLIN, 0});
  for (const DependentCaller& caller : m_callers) {
    if (!caller.demands) polled.push_back({caller.line.get(), POLLIN, 0});
  }
}

void DependentCallers::accept_all() {
  const std::scoped_lock lock(m_mutex);
  for (FileDescriptor& line : m_handed_out) m_callers.push_back({std::move(line), m_timing.clock->after(started_within_seconds)});
  m_handed_out.clear();
  while (m_listener && m_callers.size() < max_waiting_callers) {
    FileDescriptor line(::accept4(m_listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!line.valid()) break;
    m_callers.push_back({std::move(line), m_timing.clock->after(hello_within_seconds)});
  }
  m_count = m_callers.size();
}

std::string DependentCallers::hear(DependentCaller& caller) {
  group_protocol::Message message;
  const Status status = m_inbox.receive(caller.line.get(), message, caller.sender, Deadline{0});
  if (status.code == StatusCode::timeout) return {};
  if (status.code == StatusCode::unsupported) {
    return fmt::format("it speaks version {} of the group's protocol, this host version {}; start both from the same version", message.head.spoken,
                       group_protocol::version);
  }
  if (status.code == StatusCode::io && status.detail == EPERM) return "it belongs to another user";
  if (status.code == StatusCode::corrupt) return "it sent what is no message of a group";
  if (!status.ok()) {
    caller.done = true;
    return {};
  }
  if (message.head.kind != group_protocol::Kind::hello) return "it sent a message that makes no sense where it is";
  try {
    GroupDemands demands = group_protocol::parse_demands(message.text);
    if (demands.name && demands.name_is_given) require_job_name(*demands.name);
    if (demands.name && !is_job_name(*demands.name)) demands.name.reset();
    caller.demands = std::move(demands);
    caller.command = message.head.epoch;
    caller.deadline = m_timing.clock->after(let_in_within_seconds);
    return {};
  } catch (const std::exception& error) {
    return printable(error.what());
  }
}

void DependentCallers::dismiss(DependentCaller& caller, group_protocol::Kind kind, const std::string& why) {
  caller.done = true;
  const std::string_view text = std::string_view(why).substr(0, group_protocol::most_text);
  static_cast<void>(group_protocol::send(caller.line.get(), {.kind = kind}, text, {}, Deadline{0}).ok());
}

void DependentCallers::drop_done() {
  std::erase_if(m_callers, [](const DependentCaller& caller) { return caller.done; });
  const std::scoped_lock lock(m_mutex);
  m_count = m_callers.size();
}

}  // namespace dsanalyze
