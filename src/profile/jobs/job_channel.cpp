#include "job_channel.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t longest_line = std::size_t{16} << 20U;

/// Until the descriptor is ready for `events`; false at the deadline.
bool wait_ready(int descriptor, short events, Timing timing, Deadline deadline) {
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline.at - timing.clock->now(), 0);
    pollfd waiting{descriptor, events, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + (left > 0 ? 1 : 0), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // what is wrong shows when it is used
    if (left == 0) return false;
  }
}

}  // namespace

std::pair<JobChannel, JobChannel> JobChannel::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) throw_errno("cannot make", "a pair of sockets", errno);
  return {JobChannel(FileDescriptor(ends[0])), JobChannel(FileDescriptor(ends[1]))};
}

Status JobChannel::send(const std::string& line, Timing timing, Deadline deadline) {
  const std::string text = line + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = ::send(m_socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) {
      sent += static_cast<std::size_t>(more);
    } else if (errno == EAGAIN) {
      if (!wait_ready(m_socket.get(), POLLOUT, timing, deadline)) return {StatusCode::timeout, 0};
    } else if (errno != EINTR) {
      return {StatusCode::io, errno};
    }
  }
  return {};
}

Status JobChannel::receive(std::string& line, Timing timing, Deadline deadline) {
  std::array<char, 65536> piece;
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = m_read.find('\n', searched);
    if (end != std::string::npos) {
      line = m_read.substr(0, end);
      m_read.erase(0, end + 1);
      return {};
    }
    searched = m_read.size();
    if (searched > longest_line) return {StatusCode::corrupt, 0};
    const ssize_t more = ::recv(m_socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (more > 0) {
      m_read.append(piece.data(), static_cast<std::size_t>(more));
    } else if (more == 0 || (errno != EAGAIN && errno != EINTR)) {
      return {StatusCode::end, 0};
    } else if (errno == EAGAIN && !wait_ready(m_socket.get(), POLLIN, timing, deadline)) {
      return {StatusCode::timeout, 0};
    }
  }
}

}  // namespace dsanalyze

namespace dsanalyze::job_messages {
namespace {

using MessageJson = nlohmann::ordered_json;

constexpr std::string_view trial_word = "trial ";
constexpr std::array<const char*, 4> kinds{"epoch", "record", "ended", "failed"};

std::string text_of(const MessageJson& message) { return message.dump(-1, ' ', false, MessageJson::error_handler_t::replace); }

}  // namespace

std::string start(const Start& start) {
  MessageJson message{{"job", start.job}, {"speed", start.speed}};
  if (start.trial) message["trial"] = *start.trial;
  return text_of(message);
}

Start parse_start(const std::string& line) {
  JsonObject root = parse_json_object(line, "the start of a job");
  Start start;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  start.job = static_cast<int>(root.integer("job", 0, most));
  start.speed = root.number("speed", 0, std::numeric_limits<double>::max());
  if (root.has("trial")) start.trial = static_cast<int>(root.integer("trial", 0, most));
  root.finish();
  return start;
}

std::string epoch(const TrialEpoch& end) {
  MessageJson message{{"kind", "epoch"}, {"epoch", end.epoch}, {"seconds", end.seconds}};
  if (std::isfinite(end.samples_per_s)) message["samples_per_s"] = end.samples_per_s;
  if (end.loss && std::isfinite(*end.loss)) message["loss"] = *end.loss;
  return text_of(message);
}

std::string trial(int number) { return fmt::format("{}{}", trial_word, number); }

std::optional<int> parse_trial(std::string_view line) {
  if (!line.starts_with(trial_word)) return std::nullopt;
  return static_cast<int>(parse_integer(line.substr(trial_word.size()), 0, std::numeric_limits<int>::max()));
}

std::string record(const JobRecord& record) { return text_of({{"kind", "record"}, {"record", MessageJson::parse(to_json(record))}}); }

std::string ended() { return text_of({{"kind", "ended"}}); }

std::string failed(std::string_view what) { return text_of({{"kind", "failed"}, {"what", what}}); }

Message parse(const std::string& line) {
  JsonObject root = parse_json_object(line, "a job's message");
  Message message;
  const std::string kind = root.choice("kind", {kinds.begin(), kinds.end()});
  if (kind == "epoch") {
    message.kind = Message::Kind::epoch;
    constexpr double most = std::numeric_limits<double>::max();
    message.epoch.epoch = static_cast<std::uint64_t>(root.integer("epoch", 0, std::numeric_limits<std::int64_t>::max()));
    message.epoch.seconds = root.number("seconds", 0, most);
    message.epoch.samples_per_s = root.optional_number("samples_per_s", 0, most).value_or(0);
    message.epoch.loss = root.optional_number("loss", -most, most);
  } else if (kind == "record") {
    message.kind = Message::Kind::record;
    message.record = job_from_json(root.raw("record").dump(), "a job's record");
  } else if (kind == "ended") {
    message.kind = Message::Kind::ended;
  } else {
    message.what = root.text("what");
  }
  root.finish();
  return message;
}

}  // namespace dsanalyze::job_messages
