#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
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

/// Samples that could not be obtained: counted, the first hundred named, and fatal when the user's policy says so. Threads: any.
class FailureLedger {
 public:
  FailureLedger(const DatasetIndex& index, OnError on_error, double budget) : m_index(index), m_on_error(on_error), m_budget(budget) {}

  void add(SampleId sample, Status status);
  /// The run cannot go on, for a reason that is no sample's.
  void fail(const std::string& message);
  /// The same for what a thread threw.
  void fail(const std::exception& error);
  /// So many more samples were drawn.
  void drew(std::uint64_t samples) { m_drawn.fetch_add(samples, std::memory_order_relaxed); }
  [[nodiscard]] bool fatal() const { return m_fatal.load(std::memory_order_acquire); }
  [[nodiscard]] std::string fatal_message() const;
  /// What was fatal is that memory is short.
  [[nodiscard]] bool out_of_memory() const { return fatal() && m_out_of_memory.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t count() const { return m_count.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<SampleFailure> list() const;
  [[nodiscard]] std::vector<FailureCount> counts() const;

 private:
  void note(SampleId sample, const SampleFailure& failure);
  enum class Cause : std::uint8_t { any, memory };
  void fail(const std::string& message, Cause cause);

  static constexpr std::size_t always_tolerated = 10;  // samples; a budget of 0.1 % means nothing for a handful of them
  static constexpr std::size_t most_named = 100;

  const DatasetIndex& m_index;
  OnError m_on_error;
  double m_budget;
  std::atomic<std::uint64_t> m_count{0};
  std::atomic<std::uint64_t> m_drawn{0};
  std::atomic<bool> m_fatal{false};
  std::atomic<bool> m_out_of_memory{false};  ///< written before m_fatal
  mutable std::mutex m_mutex;
  std::vector<SampleFailure> m_failures;
  std::vector<SampleId> m_named;          // those of m_failures
  std::unordered_set<SampleId> m_failed;  // each once, however many epochs it failed in
  std::vector<FailureCount> m_counts;
  std::string m_fatal_message;
};

}  // namespace dsanalyze
