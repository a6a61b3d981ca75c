#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/index.hpp"
#include "loader.hpp"

namespace dsanalyze {

/// What each epoch asked for and what it cost. begin, count and settle are the feeder's; finished any worker's; settled() anyone's.
class EpochLedger {
 public:
  EpochLedger(const FetchEngine& engine, std::function<std::optional<Bytes>()> storage_bytes)
      : m_engine(engine), m_storage_bytes(std::move(storage_bytes)) {
    m_accounts.reserve(most_epochs);
  }

  void begin(std::uint64_t epoch);
  void count(std::uint64_t epoch, std::uint64_t hits, std::uint64_t misses);
  /// Misses of the epoch begun last that came from other ranks: fetches of one epoch settle before the next begins.
  void count_peers(std::uint64_t samples, Bytes bytes);
  /// All fetches of the epoch have ended.
  void settle(std::uint64_t epoch);
  /// A batch of the epoch is prepared: of the samples drawn for it, `failed` were not.
  void finished(std::uint64_t epoch, const SampleSetDigest& digest, std::uint32_t drawn, std::uint32_t failed);
  /// Epochs whose fetches have settled and whose batches are all prepared: the first and the last ones, when they are more than most_epochs.
  [[nodiscard]] std::vector<EpochTotals> settled() const;
  /// Of whole batches, of each epoch that has an account.
  [[nodiscard]] std::vector<EpochPrepared> prepared() const;

 private:
  static constexpr std::size_t most_epochs = 1024;
  struct Account {
    EpochTotals totals;
    SampleSetDigest digest;
    std::uint64_t drawn = 0;
    std::uint64_t finished = 0;  ///< prepared or failed
    std::uint64_t failed = 0;
    bool closed = false;
  };
  Account& account(std::uint64_t epoch);
  [[nodiscard]] std::optional<Bytes> storage_now() const { return m_storage_bytes ? m_storage_bytes() : std::nullopt; }

  const FetchEngine& m_engine;
  std::function<std::optional<Bytes>()> m_storage_bytes;
  mutable std::mutex m_mutex;
  std::vector<Account> m_accounts;
  Bytes m_requested_before = 0;
  std::optional<Bytes> m_storage_before;
};

}  // namespace dsanalyze
