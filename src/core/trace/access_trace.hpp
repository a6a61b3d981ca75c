#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/system/files.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "core/cache_policy/cache_replay.hpp"
#include "core/storage_cost.hpp"

namespace dsanalyze {

/// Jobs that read one dataset through one cache: at most.
constexpr std::uint32_t most_replay_jobs = 1024;

/// Accesses that follow one another, during which no job passes from one epoch to the next. Valid until the source's next call.
struct AccessBlock {
  std::span<const CacheAccess> accesses;
  std::span<const std::uint32_t> epoch_of_job;  ///< one for each job: the epoch that its accesses of this block belong to
};

/// Where a cache's accesses come from: the order of one loader, of several jobs at once, or a recorded trace. Handed out in blocks, so that what
/// replays them need not hold them all.
///
/// An epoch is always a job's own: with several jobs that started at different times, the accesses of "epoch 1" are those of each job's second pass
/// over the dataset, whenever it made it. A job's epochs never decrease.
/// Threads: one caller at a time.
class AccessSource {
 public:
  virtual ~AccessSource() = default;
  /// From the first access on again; the accesses are the same each time.
  virtual void rewind() = 0;
  /// The next accesses, at least one; false at the end. May throw Error (a recorded trace that is torn).
  virtual bool next(AccessBlock& block) = 0;
  /// Every key is less.
  [[nodiscard]] virtual std::uint64_t key_count() const = 0;
  /// Every CacheAccess::job is less; from 1 to most_replay_jobs.
  [[nodiscard]] virtual std::uint32_t jobs() const = 0;
};

/// What a trace says of itself before its accesses.
struct AccessTraceHeader {
  std::uint64_t samples = 0;  ///< of the dataset (of the subset that was read): every sample's number is less
  Bytes dataset_bytes = 0;    ///< of these samples
  std::string digest;         ///< dataset_digest() of them; may be empty
  std::uint32_t jobs = 1;
  CacheCase cache;           ///< the cache that was asked; its decisions are in the trace
  StorageCost storage_cost;  ///< of cost-aware admission: what the accesses' priorities were

  bool operator==(const AccessTraceHeader& other) const;
};

/// Is told what a cache was asked, and what it decided, in that order. On the data path: no exceptions, no allocation, nothing that waits for long.
class AccessRecorder {
 public:
  virtual ~AccessRecorder() = default;
  /// decisions[i] is that on accesses[i]; all accesses belong to their jobs' epoch `epoch`.
  virtual void record(std::span<const CacheAccess> accesses, std::span<const CacheDecision> decisions, std::uint64_t epoch) = 0;
};

/// Writes a trace. The file appears with finish(), whole; without it, whatever happens, there is none (a special file, /dev/null, is written in
/// place). 16 bytes an access, in pieces of 256 KiB, handed to the kernel by the thread that records: some tenths of a millisecond, once in 16,384
/// accesses. Threads: one at a time.
class AccessTraceWriter final : public AccessRecorder {
 public:
  /// Throws Error naming path and cause when nothing can be written there, or for a header that no reader would take.
  AccessTraceWriter(const std::filesystem::path& path, const AccessTraceHeader& header);
  AccessTraceWriter(const AccessTraceWriter&) = delete;
  AccessTraceWriter& operator=(const AccessTraceWriter&) = delete;
  ~AccessTraceWriter() override;

  void record(std::span<const CacheAccess> accesses, std::span<const CacheDecision> decisions, std::uint64_t epoch) override;
  /// Something could not be written (a full disk): what comes is dropped, and finish() will say why.
  [[nodiscard]] bool failed() const;
  [[nodiscard]] std::uint64_t recorded() const;
  /// Throws Error naming path and cause when it could not all be written; there is no file then. Once.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// Reads a trace, in bounded memory, and believes nothing of it: what is wrong ends in an Error that names file, offset, what was found and what was
/// expected. Whether the accesses are those that were written, by their checksum, is known, and said, at the end of a pass.
class AccessTraceReader final : public AccessSource {
 public:
  explicit AccessTraceReader(const std::filesystem::path& path);
  /// A file that is open, by the name that errors give it.
  AccessTraceReader(FileDescriptor file, std::string name);
  AccessTraceReader(const AccessTraceReader&) = delete;
  AccessTraceReader& operator=(const AccessTraceReader&) = delete;
  ~AccessTraceReader() override;

  [[nodiscard]] const AccessTraceHeader& header() const;
  /// How many there are in all.
  [[nodiscard]] std::uint64_t accesses() const;

  void rewind() override;
  bool next(AccessBlock& block) override;
  [[nodiscard]] std::uint64_t key_count() const override;
  [[nodiscard]] std::uint32_t jobs() const override;
  /// What the recorded cache decided on the accesses of the last block.
  [[nodiscard]] std::span<const CacheDecision> decisions() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// What the recorded cache made of the trace: one pass over it. items_held and bytes_held are not known and 0.
CaseCounts recorded_counts(AccessTraceReader& trace);

}  // namespace dsanalyze
