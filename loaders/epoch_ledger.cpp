#include "epoch_ledger.hpp"

#include <algorithm>

namespace dsanalyze {

EpochLedger::Account& EpochLedger::account(std::uint64_t epoch) {
  // Batches of at most two epochs are under way at once.
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

}  // namespace dsanalyze
