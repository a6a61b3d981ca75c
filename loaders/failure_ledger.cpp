#include "failure_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

std::string describe(Status status) {
  switch (status.code) {
    case StatusCode::not_found:
      return "the file is gone";
    case StatusCode::corrupt:
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
  const std::scoped_lock lock(m_mutex);
  const SampleFailure failure{std::string(m_index.file_path(m_index[sample].file)), describe(status)};
  const bool named = std::ranges::any_of(m_failures, [&](const SampleFailure& f) { return f.path == failure.path; });
  if (!named && m_failures.size() < most_named) m_failures.push_back(failure);
  if (m_fatal.load(std::memory_order_relaxed)) return;
  if (m_on_error == OnError::fail) {
    m_fatal_message = fmt::format("{}: {}. Repair or remove it, or pass --on-error skip to go on without it", failure.path, failure.cause);
  } else if (count > always_tolerated && static_cast<double>(count) > m_budget * static_cast<double>(m_drawn.load(std::memory_order_relaxed))) {
    m_fatal_message =
        fmt::format("{} samples failed, more than the error budget of {:g} % allows; the last: {}: {}. `dsanalyze dataset verify` lists them all",
                    count, m_budget * 100, failure.path, failure.cause);
  } else {
    return;
  }
  m_fatal.store(true, std::memory_order_release);
}

void FailureLedger::fail(const std::string& message) {
  const std::scoped_lock lock(m_mutex);
  if (m_fatal.load(std::memory_order_relaxed)) return;
  m_fatal_message = message;
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
