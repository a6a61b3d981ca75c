#include "failure_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze {
namespace {

std::string describe(Status status) {
  switch (status.code) {
    case StatusCode::not_found:
      return "the file is gone";
    case StatusCode::corrupt:
      if (status.detail == static_cast<int>(Corruption::shorter))
        return "the file ends before the sample does: cut off, or changed since it was indexed";
      if (status.detail == static_cast<int>(Corruption::longer)) return "the file has grown since it was indexed";
      if (status.detail == static_cast<int>(Corruption::empty)) return "the sample is empty";
      if (status.detail == static_cast<int>(Corruption::label)) return no_label_cause;
      return "not a whole image (truncated, damaged, or not an image)";
    case StatusCode::unsupported:
      return "an image of a kind that is not handled";
    case StatusCode::io:
      return describe_errno(status.detail);
    default:
      return std::string(status_name(status.code));
  }
}

}  // namespace

void FailureLedger::add(SampleId sample, Status status) {
  const std::uint64_t count = m_count.fetch_add(1, std::memory_order_relaxed) + 1;
  const SampleFailure failure{sample_name(m_index, sample), describe(status)};  // may read a shard: before the lock
  const std::scoped_lock lock(m_mutex);
  note(sample, failure);
  if (m_fatal.load(std::memory_order_relaxed)) return;
  if (m_on_error == OnError::fail) {
    m_fatal_message =
        fmt::format("{}: {}. Repair or remove it, or pass --on-error skip or substitute to go on without it", failure.path, failure.cause);
  } else if (count > always_tolerated && static_cast<double>(count) > m_budget * static_cast<double>(m_drawn.load(std::memory_order_relaxed))) {
    m_fatal_message =
        fmt::format("{} samples failed, more than the error budget of {:g} % allows; the last: {}: {}. `dsanalyze dataset verify` lists them all",
                    count, m_budget * 100, failure.path, failure.cause);
  } else {
    return;
  }
  m_out_of_memory.store(status.code == StatusCode::io && status.detail == ENOMEM, std::memory_order_relaxed);
  m_fatal.store(true, std::memory_order_release);
}

void FailureLedger::note(SampleId sample, const SampleFailure& failure) {
  const auto of_cause = std::ranges::find(m_counts, failure.cause, &FailureCount::cause);
  if (of_cause == m_counts.end()) {
    m_counts.push_back({failure.cause, 1, failure.path});
  } else {
    ++of_cause->count;
  }
  if (m_failures.size() == most_named || std::ranges::find(m_named, sample) != m_named.end()) return;
  m_failures.push_back(failure);
  m_named.push_back(sample);
}

std::vector<FailureCount> FailureLedger::counts() const {
  const std::scoped_lock lock(m_mutex);
  return m_counts;
}

void FailureLedger::fail(const std::string& message) { fail(message, Cause::any); }
void FailureLedger::fail(const std::exception& error) {
  fail(fmt::format("the loader failed: {}", error.what()), says_no_memory(error) ? Cause::memory : Cause::any);
}

void FailureLedger::fail(const std::string& message, Cause cause) {
  const std::scoped_lock lock(m_mutex);
  if (m_fatal.load(std::memory_order_relaxed)) return;
  m_fatal_message = message;
  m_out_of_memory.store(cause == Cause::memory, std::memory_order_relaxed);
  m_fatal.store(true, std::memory_order_release);
}

std::string FailureLedger::fatal_message() const {
  const std::scoped_lock lock(m_mutex);
  return m_fatal_message;
}

std::vector<SampleFailure> FailureLedger::list() const {
  const std::scoped_lock lock(m_mutex);
  return m_failures;
}

}  // namespace dsanalyze
