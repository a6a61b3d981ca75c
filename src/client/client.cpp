#include "client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/host/host.hpp"
#include "described_batch.hpp"

namespace dsanalyze::client {
namespace {

constexpr double look_again_seconds = 0.1;  // for what ends no wait: signals, and prep that failed

Deadline earlier(Deadline one, Deadline other) { return one.at < other.at ? one : other; }

}  // namespace

Client::Client(FileDescriptor line, GroupDemands demands, std::uint64_t command, Timing timing)
    : m_timing(timing),
      m_job({std::move(line), std::move(demands), timing, {}, command}, read_host_facts()),
      m_first_epoch(m_job.terms().staging.first_epoch) {}

Answer Client::enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting) {
  std::optional<std::pair<std::uint64_t, double>> told;
  const auto tell = [&](std::uint64_t epoch, double seconds) {
    m_first_epoch = epoch;
    if (told == std::pair(epoch, seconds)) return;  // enter() begins with what it said last
    told.emplace(epoch, seconds);
    if (waiting) waiting(epoch, seconds);
  };
  while (true) {
    Status status;
    {
      const SignalsBlocked blocked;
      status = m_job.enter(earlier(deadline, m_timing.clock->after(look_again_seconds)), tell);
    }
    switch (status.code) {
      case StatusCode::ok:
        return {};
      case StatusCode::end:
        return ended();
      case StatusCode::timeout:
        if (m_timing.clock->now() < deadline.at) continue;
        if (!told) return {DSA_TIMEOUT, "the group's coordinator has not let this job in yet; try again, or with a longer timeout"};
        return {DSA_TIMEOUT,
                fmt::format("the group has its {} jobs: a place falls free when epoch {} opens, at the earliest ({}); attach with a longer timeout",
                            m_job.terms().staging.jobs, told->first,
                            told->second < 0 ? "not known when" : fmt::format("in about {:.3g} s", told->second))};
      default:
        return {m_job.out_of_memory() ? DSA_NO_MEMORY : DSA_LOST, m_job.member().failure()};
    }
  }
}

void Client::describe(dsa_terms& terms) const {
  const GroupTerms& of = m_job.terms();
  terms.place = m_job.member().place();
  terms.jobs = of.staging.jobs;
  terms.batch_size = of.staging.batch_size;
  terms.held = of.staging.held;
  terms.producers = of.staging.producers == Producers::jobs ? DSA_PRODUCERS_JOBS : DSA_PRODUCERS_COORDINATOR;
  terms.samples = of.samples;
  terms.batches_per_epoch = of.staging.batches_per_epoch;
  terms.epochs = of.staging.epochs;
  terms.first_epoch = m_first_epoch;
  terms.seed = of.seed;
  terms.slot_bytes = of.staging.slot_bytes;
  describe_tensor(of.tensor, terms);
  terms.dataset_digest = of.dataset_digest.c_str();
  terms.prep = of.prep.c_str();
}

Answer Client::ended() const {
  return {DSA_END, m_left.load() ? "this job has left its group" : "the group has ended, or this job's last epoch has: no batch will come any more"};
}

Answer Client::over(Answer answer) {
  const std::scoped_lock lock(m_mutex);
  if (m_over.status == DSA_OK) m_over = std::move(answer);
  return m_over;
}

Answer Client::next(dsa_batch& batch, Deadline deadline) {
  const auto late = [] {
    return Answer{DSA_TIMEOUT, "no batch yet: the first epoch waits for all jobs of the group, and each batch for the slowest of them; ask again"};
  };
  if (!m_turn.take(deadline, m_timing)) return late();
  Batch taken;
  Answer answer;
  try {
    do {
      answer = take(taken, earlier(deadline, m_timing.clock->after(look_again_seconds)));
    } while (answer.status == DSA_TIMEOUT && m_timing.clock->now() < deadline.at);
    if (answer.status == DSA_OK) hold(taken, batch);
    if (answer.status == DSA_TIMEOUT) answer = late();
    apply_leave_after();
  } catch (...) {
    m_turn.give(m_timing);
    throw;
  }
  m_turn.give(m_timing);
  return answer;
}

Answer Client::take(Batch& batch, Deadline deadline) {
  {
    const std::scoped_lock lock(m_mutex);
    if (m_over.status != DSA_OK) return m_over;
  }
  if (m_left.load()) return over(ended());
  const Status status = m_job.next(batch, deadline);
  switch (status.code) {
    case StatusCode::ok:
      return {};
    case StatusCode::timeout:
      return {DSA_TIMEOUT, {}};
    case StatusCode::busy:
      return {DSA_BUSY, fmt::format("this job holds {} batches, as many as it may: release one first", m_job.terms().staging.held)};
    case StatusCode::end:
      return over(ended());
    case StatusCode::cancelled:
      return m_left.load() ? over(ended()) : over({DSA_EXPELLED, m_job.failure()});
    case StatusCode::io:
      return over({m_job.out_of_memory() ? DSA_NO_MEMORY : DSA_LOST, m_job.failure()});
    default:
      return over({m_job.out_of_memory() ? DSA_NO_MEMORY : DSA_FAILED, m_job.failure()});
  }
}

void Client::hold(const Batch& batch, dsa_batch& given) {
  describe_batch(batch, m_job.memory(batch), given);
  given.index = batch.token.generation % m_job.terms().staging.batches_per_epoch;
  given.token = batch.token.generation + 1;  // a group's batches are numbered over all epochs
  const std::scoped_lock lock(m_mutex);
  const auto free = std::ranges::find_if(m_held, [](const Held& held) { return held.token == 0; });
  if (free != m_held.end()) *free = {given.token, batch.token};
}

Answer Client::release(std::uint64_t token) {
  std::optional<ReleaseToken> slot;
  {
    const std::scoped_lock lock(m_mutex);
    const auto held = std::ranges::find_if(m_held, [token](const Held& one) { return one.token == token; });
    if (token != 0 && held != m_held.end()) slot = std::exchange(*held, {}).slot;
  }
  if (!slot) return {DSA_INVALID, "dsa_release: no batch with this token is held: it was released already, or never given out"};
  m_job.release(*slot);
  const bool prep_failed = m_job.loader() != nullptr && !m_job.loader()->failure().empty();
  if (m_job.member().lost() || m_left.load() || prep_failed) return {};
  const std::string put_out = m_job.failure();
  return put_out.empty() ? Answer{} : over({DSA_EXPELLED, put_out});
}

int Client::event_descriptor() {
  const SignalsBlocked blocked;
  return m_job.member().event_descriptor();
}

void Client::leave_after(std::uint64_t epoch) {
  {
    const std::scoped_lock lock(m_mutex);
    m_leave_after = epoch;
  }
  if (!m_turn.take(Deadline{0}, m_timing)) return;  // who has the turn passes it on
  apply_leave_after();
  m_turn.give(m_timing);
}

void Client::apply_leave_after() {
  std::optional<std::uint64_t> epoch;
  {
    const std::scoped_lock lock(m_mutex);
    epoch = std::exchange(m_leave_after, std::nullopt);
  }
  if (epoch && !m_job.member().lost()) m_job.member().job().leave_after(*epoch);
}

void Client::leave() {
  if (m_left.exchange(true)) return;
  m_job.stop();
  const std::scoped_lock lock(m_mutex);
  m_held = {};
}

std::string Client::failure() const {
  const std::scoped_lock lock(m_mutex);
  return m_over.text;
}

}  // namespace dsanalyze::client
