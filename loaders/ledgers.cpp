#include "ledgers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze {

EpochLedger::Account& EpochLedger::account(std::uint64_t epoch) {
  // Batches of at most two epochs are in flight at once.
  if (!m_accounts.empty() && m_accounts.back().totals.epoch == epoch) return m_accounts.back();
  const auto found = std::ranges::find(m_accounts, epoch, [](const Account& account) { return account.totals.epoch; });
  if (found != m_accounts.end()) return *found;
  if (m_accounts.size() == most_epochs) m_accounts.erase(m_accounts.begin() + 1);
  m_accounts.emplace_back().totals.epoch = epoch;
  return m_accounts.back();
}

void EpochLedger::begin(std::uint64_t epoch) {
  const std::scoped_lock lock(m_mutex);
  account(epoch);
  m_requested_before = m_engine.requested();
  m_storage_before = storage_now();
}

void EpochLedger::count(std::uint64_t epoch, std::uint64_t hits, std::uint64_t misses) {
  const std::scoped_lock lock(m_mutex);
  Account& a = account(epoch);
  a.totals.hits += hits;
  a.totals.misses += misses;
  a.drawn += hits + misses;
}

void EpochLedger::count_peers(std::uint64_t samples, Bytes bytes) {
  const std::scoped_lock lock(m_mutex);
  if (m_accounts.empty()) return;
  m_accounts.back().totals.peer_hits += samples;
  m_accounts.back().totals.peer_bytes += bytes;
}

void EpochLedger::settle(std::uint64_t epoch) {
  const std::scoped_lock lock(m_mutex);
  Account& a = account(epoch);
  // A producer that takes over others' work comes back to an epoch that it has settled before.
  a.totals.requested += m_engine.requested() - m_requested_before;
  const auto storage = storage_now();
  if (storage && m_storage_before && (!a.closed || a.totals.storage)) {
    a.totals.storage = a.totals.storage.value_or(0) + (*storage - *m_storage_before);
  } else {
    a.totals.storage.reset();
  }
  a.closed = true;
}

void EpochLedger::finished(std::uint64_t epoch, const SampleSetDigest& digest, std::uint32_t drawn, std::uint32_t failed) {
  const std::scoped_lock lock(m_mutex);
  Account& a = account(epoch);
  a.digest.add(digest);
  a.finished += drawn;
  a.failed += failed;
}

std::vector<EpochTotals> EpochLedger::settled() const {
  const std::scoped_lock lock(m_mutex);
  std::vector<EpochTotals> out;
  for (const Account& a : m_accounts) {
    if (!a.closed || a.finished < a.drawn) continue;
    out.push_back(a.totals);
    out.back().samples = a.drawn;
    out.back().digest = a.digest.text();
  }
  return out;
}

std::vector<EpochPrepared> EpochLedger::prepared() const {
  const std::scoped_lock lock(m_mutex);
  std::vector<EpochPrepared> out;
  for (const Account& a : m_accounts) out.push_back({a.totals.epoch, a.finished - a.failed});
  return out;
}

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
  } else if (m_failed.size() > always_tolerated &&
             static_cast<double>(count) > m_budget * static_cast<double>(m_drawn.load(std::memory_order_relaxed))) {
    m_fatal_message =
        fmt::format("{} samples failed, more than the error budget of {:g} % allows; the last: {}: {}. `dsanalyze dataset verify` lists them all",
                    m_failed.size(), m_budget * 100, failure.path, failure.cause);
  } else {
    return;
  }
  m_out_of_memory.store(status.code == StatusCode::io && status.detail == ENOMEM, std::memory_order_relaxed);
  m_fatal.store(true, std::memory_order_release);
}

void FailureLedger::note(SampleId sample, const SampleFailure& failure) {
  m_failed.insert(sample);
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
