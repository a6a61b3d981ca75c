#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "staging.hpp"

// What the processes of a group share. Three kinds of memory, each written by one process alone and read by all:
//   Board        the coordinator's: what the group agreed on, which epochs are open, whose uses count
//   ControlPage  one a job, the job's: what it is about to use, what it has released
//   Slab         one a producer, the producer's: slot headers, then the slots
// Nothing here is believed by a reader without a look at whether it can be; no word is written by two processes, so there is no lock to die with.
namespace dsanalyze::staging {

/// Counts batches over all epochs: epoch x batches_per_epoch + index.
using Sequence = std::uint64_t;
/// One bit a job's place.
using JobSet = std::uint64_t;

constexpr std::uint32_t most_jobs = staging_most_jobs;
constexpr std::uint32_t coordinator_place = most_jobs;  ///< of the coordinator's slab
constexpr std::uint32_t no_job = UINT32_MAX;
constexpr std::uint64_t no_epoch = UINT64_MAX;
constexpr std::uint32_t version = 2;
constexpr std::uint32_t board_mark = 0x64424f41;
constexpr std::uint32_t page_mark = 0x64504147;
constexpr std::uint32_t slab_mark = 0x64534c41;

enum class SlotState : std::uint8_t { free, filling, published };

/// A slot's batch and state in one word, so that neither is ever seen without the other. 0 is a free slot.
struct Tag {
  Sequence sequence = 0;
  SlotState state = SlotState::free;

  [[nodiscard]] constexpr std::uint64_t word() const { return state == SlotState::free ? 0 : sequence << 2U | static_cast<std::uint64_t>(state); }
  static constexpr Tag of(std::uint64_t word) { return {word >> 2U, static_cast<SlotState>(word & 3U)}; }
  bool operator==(const Tag&) const = default;
};

struct alignas(64) SlotHeader {
  std::atomic<std::uint64_t> tag{0};
  std::atomic<std::uint32_t> count{0};   ///< good samples
  std::atomic<std::uint32_t> failed{0};  ///< of the batch's draw that could not be obtained
  std::atomic<Nanoseconds> ready_at{0};
};

/// The front of a producer's segment; its slots follow.
struct alignas(4096) SlabHead {
  std::atomic<std::uint32_t> mark{slab_mark};
  alignas(64) std::atomic<std::uint32_t> changes{0};  ///< moves when a batch is published; who misses one of this producer's batches waits here
  SlotHeader slots[staging_most_slots];
};

enum class PageState : std::uint32_t { joining, ready, left };

/// A batch's release moves one of these words, so that it wakes the producer whose slot it frees and hardly any other.
constexpr std::uint32_t release_words = 16;

/// StagingCounts, in its order; each word is written by the job alone.
struct CountWords {
  std::atomic<std::uint64_t> batches_taken{0};
  std::atomic<std::uint64_t> samples_taken{0};
  std::atomic<std::uint64_t> batches_made{0};
  std::atomic<std::uint64_t> samples_made{0};
  std::atomic<std::uint64_t> batches_taken_over{0};
  std::atomic<std::uint64_t> requested_bytes{0};
  std::atomic<std::uint64_t> control_time{0};
};

/// A job's own page. A batch x is the job's to read while released <= x < taking.
struct alignas(4096) ControlPage {
  std::atomic<std::uint32_t> mark{page_mark};
  std::atomic<PageState> state{PageState::joining};
  std::atomic<std::uint64_t> last_epoch{no_epoch};  ///< after this epoch the job leaves
  alignas(64) std::atomic<Sequence> taking{0};
  alignas(64) std::atomic<Sequence> released{0};        ///< every batch below it
  std::atomic<std::uint32_t> changes[release_words]{};  ///< of batch x: changes[x % release_words]; producers without a free slot wait here
  alignas(64) std::atomic<std::uint64_t> reported{0};   ///< the batch that did not come in time
  std::atomic<std::uint32_t> reports{0};
  std::atomic<Nanoseconds> heartbeat{0};
  alignas(64) CountWords counts;  ///< for people; no step looks at them
};

/// An epoch that is open. `members` stays; `live` and `readable` lose bits as jobs go.
struct OpenEpoch {
  std::atomic<std::uint64_t> epoch{no_epoch};  ///< no_epoch while the rest is written
  std::atomic<JobSet> members{0};
  std::atomic<JobSet> live{0};      ///< whose releases are waited for and who produces
  std::atomic<JobSet> readable{0};  ///< whose slabs count: all members but those that wrote garbage
};

struct alignas(4096) Board {
  std::atomic<std::uint32_t> mark{board_mark};
  std::uint32_t written_by = version;
  StagingFacts facts;                                ///< never changes
  alignas(64) std::atomic<std::uint64_t> opened{0};  ///< the first epoch that is not open yet
  std::atomic<std::uint32_t> changes{0};             ///< moves with everything on this board
  std::atomic<std::uint32_t> retries{0};             ///< broadcasts: what is missed is late, not lost
  std::atomic<std::uint32_t> ended{0};
  OpenEpoch epochs[2];  ///< of epoch e: epochs[e % 2]
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<PageState>::is_always_lock_free);

enum class Outcome : std::uint8_t {
  again,   ///< there is a next step
  ready,   ///< a batch to read, or a slot to fill
  wait,    ///< nothing to do until the word moves or the time comes
  busy,    ///< the caller has to give something back first
  ended,   ///< nothing more will come
  put_out  ///< this job does not count any more
};

/// What a step did, and what to wait for where there is nothing to do.
struct StepResult {
  StagingStep did = StagingStep::look;
  Outcome outcome = Outcome::again;
  const std::atomic<std::uint32_t>* word = nullptr;  ///< nullptr: until the time alone
  std::uint32_t expected = 0;
  Deadline until;
};

constexpr int all_waiters = INT32_MAX;

}  // namespace dsanalyze::staging
