#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../base/sanitizers.hpp"
#include "base/random.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/slot_pool.hpp"
#include "share/group.hpp"

namespace dsanalyze::testing {

/// A deadline that only a test that hangs meets.
inline Deadline in_time() { return system_timing().clock->after(60); }

inline void wait_until(const std::function<bool()>& holds) {
  const Deadline deadline = in_time();
  while (!holds() && system_timing().clock->now() < deadline.at) system_timing().waiter->sleep_until(system_timing().clock->after(0.001).at);
}

inline std::shared_ptr<const DatasetIndex> group_index() {
  DatasetSpec spec;
  spec.name = "shared";
  spec.samples = 28;
  spec.mean_sample_bytes = 1000;
  spec.labels = 3;
  return make_emulated_index(spec, 0, 1, 1);
}

inline GroupTerms group_terms(std::uint32_t jobs, std::uint64_t epochs, Producers producers = Producers::jobs) {
  GroupTerms terms;
  terms.samples = 28;
  terms.seed = 7;
  terms.dataset_digest = "digest";
  terms.prep = "image 2 x 2, uint8, nhwc";
  terms.tensor = TensorShape::images(DType::uint8, Layout::nhwc, 4, 3, 2, 2);
  terms.settings = R"({"any": "thing"})";
  terms.staging.jobs = jobs;
  terms.staging.epochs = epochs;
  terms.staging.batches_per_epoch = 7;
  terms.staging.prefetch = jobs;
  terms.staging.batch_size = 4;
  terms.staging.slot_bytes = SlotLayout(terms.tensor).bytes;
  terms.staging.producers = producers;
  terms.staging.look_again = 5'000'000;
  return terms;
}

/// Events as they come, from the host's thread.
class EventLog {
 public:
  std::function<void(const GroupEvent&)> sink() {
    return [this](const GroupEvent& event) {
      const std::scoped_lock lock(m_mutex);
      m_events.push_back(event);
    };
  }
  [[nodiscard]] std::vector<GroupEvent> of(GroupEvent::Kind kind) const {
    const std::scoped_lock lock(m_mutex);
    std::vector<GroupEvent> found;
    for (const GroupEvent& event : m_events) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }

 private:
  mutable std::mutex m_mutex;
  std::vector<GroupEvent> m_events;
};

inline GroupHost::Parts host_parts(GroupTerms terms, EventLog* log = nullptr) {
  GroupHost::Parts parts;
  parts.terms = std::move(terms);
  parts.index = group_index();
  parts.timing = system_timing();
  if (log != nullptr) parts.events = log->sink();
  return parts;
}

inline void fill_batch(std::span<std::byte> bytes, std::uint64_t sequence) {
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = mix(sequence, i);
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

inline bool batch_is(const std::byte* memory, std::size_t size, std::uint64_t sequence) {
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= size; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = mix(sequence, i);
    if (std::memcmp(memory + i, &word, sizeof word) != 0) return false;
  }
  return true;
}

/// Makes batches until there are none to make.
inline void produce(StagingProducer& producer, const std::atomic<bool>& over) {
  StagingClaim claim;
  while (!over) {
    const Status status = producer.claim(claim, system_timing().clock->after(0.05));
    if (status.code == StatusCode::timeout) continue;
    if (!status.ok()) return;
    fill_batch(claim.bytes, claim.sequence);
    producer.publish(claim, {4, 0, system_timing().clock->now()});
  }
}

/// What a job of a test does: comes in, makes its share, takes every batch, checks it. 0 when it got all of `epochs` from its first one on; how the
/// stream ended otherwise (10 and the status).
struct MemberRun {
  std::uint64_t epochs = 0;                                    ///< 0: whatever comes
  std::function<void(GroupMember&, const Batch&)> on_batch{};  ///< called with each batch before it is released
  StagingObserver observer{};

  int operator()(FileDescriptor line) const {
    GroupMember member({std::move(line), {}, system_timing(), observer});
    if (!member.enter(in_time()).ok()) return 2;
    std::atomic<bool> over{false};
    std::jthread producer;
    if (member.terms().staging.producers == Producers::jobs) producer = std::jthread([&] { produce(member.job(), over); });
    const int result = consume(member);
    over = true;
    return result;
  }

 private:
  int consume(GroupMember& member) const {
    GroupBatches batches(member, 1);
    const StagingFacts& facts = member.terms().staging;
    Batch batch;
    for (std::uint64_t next = 0;; ++next) {
      const Status status = batches.next(batch, in_time());
      if (status.code == StatusCode::end) return epochs == 0 || next == epochs * facts.batches_per_epoch ? 0 : 4;
      if (!status.ok()) return 10 + static_cast<int>(status.code);
      if (batch.sequence != next || batch.tensor.shape[0] != 4) return 5;
      if (!batch_is(batches.memory(batch), facts.slot_bytes, batch.epoch * facts.batches_per_epoch + next % facts.batches_per_epoch)) return 6;
      if (on_batch) on_batch(member, batch);
      batches.release(batch.token);
    }
  }
};

/// A member in a process of its own.
class MemberProcess {
 public:
  template <typename Body>
  MemberProcess(GroupHost& host, const Body& body)
      : MemberProcess(std::bind_front(&given_line<Body>, body, std::make_shared<FileDescriptor>(host.connect()))) {}
  /// Connects by itself.
  template <typename Body>
  explicit MemberProcess(const Body& body) {
    m_process = ::fork();
    if (m_process != 0) return;
    int status = 98;
    try {
      status = body();
    } catch (const std::exception&) {
      status = 99;
    }
    ::_exit(status);
  }
  ~MemberProcess() {
    if (m_process <= 0 || m_waited) return;
    ::kill(m_process, SIGKILL);
    end();
  }
  MemberProcess(const MemberProcess&) = delete;
  MemberProcess& operator=(const MemberProcess&) = delete;
  MemberProcess(MemberProcess&& other) noexcept : m_process(std::exchange(other.m_process, -1)), m_waited(other.m_waited), m_end(other.m_end) {}
  MemberProcess& operator=(MemberProcess&&) = delete;

  /// Its exit status, or the signal that ended it, negative.
  int end() {
    if (m_waited) return m_end;
    int status = 0;
    while (::waitpid(m_process, &status, 0) < 0 && errno == EINTR) continue;
    m_waited = true;
    return m_end = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void signal(int number) const { ::kill(m_process, number); }
  [[nodiscard]] pid_t process() const { return m_process; }

 private:
  template <typename Body>
  static int given_line(const Body& body, const std::shared_ptr<FileDescriptor>& line) {
    return body(std::move(*line));
  }

  pid_t m_process = -1;
  bool m_waited = false;
  int m_end = 0;
};

inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace dsanalyze::testing
