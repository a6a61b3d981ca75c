#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "core/sharing_modes.hpp"

namespace dsanalyze {

// The staging area of coordinated prep [CoorDL, section 4.3]: the jobs of a server share every prepared batch of an epoch. Each batch is made once,
// by one producer, and read in place by all; its slot is free again when every live job has released it. docs/sharing.md has the protocol.

constexpr std::uint32_t staging_most_jobs = 64;    ///< of a group at once
constexpr std::uint32_t staging_most_slots = 512;  ///< of one producer
constexpr std::uint32_t staging_most_held = 32;    ///< by one job at once

/// When the next epoch opens, and with it who takes part in it is settled.
enum class StagingBoundary : std::uint32_t {
  overlapped,    ///< as soon as the slowest job is near the end: no gap; who leaves says so before
  synchronised,  ///< when every job has released the last batch and begin() was called: a search decides at an epoch's end who goes on
};

/// What the members of a group agree on. Plain data: it stands on the group's board.
struct StagingFacts {
  std::uint64_t batches_per_epoch = 1;
  std::uint64_t first_epoch = 0;
  std::uint64_t first_batch = 0;  ///< of the first epoch: a group that goes on in mid-epoch has none before it
  std::uint64_t epochs = 0;       ///< as many are opened, then the group ends by itself; 0: until end()
  std::uint32_t jobs = 1;         ///< as many take part at most; the first epoch waits for all of them
  std::uint32_t prefetch = 0;     ///< batches beside two a job
  std::uint32_t held = 1;         ///< batches that a job may hold at once: at most slots(), so that a job whose fellows all died can still have them
  std::uint32_t batch_size = 1;
  Bytes slot_bytes = 4096;  ///< of one batch; a multiple of 4096
  Producers producers = Producers::jobs;
  StagingBoundary boundary = StagingBoundary::overlapped;
  Nanoseconds look_again = 20'000'000;  ///< no wait is longer: what a dead process could not say is seen after it

  /// Slots of one producer: together never more than 2 x jobs + prefetch.
  [[nodiscard]] std::uint32_t slots() const;
  /// How far the first batch may be from the last that are staged at once: all slots of the group.
  [[nodiscard]] std::uint32_t window() const;
  /// Memory of all slots, in bytes.
  [[nodiscard]] Bytes staged_bytes() const { return Bytes{window()} * slot_bytes; }
  /// Of the segments of all who take part, beside the slots, at most: board, control pages, headers.
  [[nodiscard]] Bytes constant_bytes() const;
  /// Throws UsageError that names what does not fit: no jobs or more than 64, a job that may hold more than one producer has slots for, a
  /// slot that is no multiple of 4096 bytes, too many slots.
  void validate() const;
  bool operator==(const StagingFacts&) const = default;
};

/// How long a job waits for a batch before it reports: ten of its iterations [CoorDL, section 4.4], at least `floor`, at most a minute.
Nanoseconds staging_deadline(Nanoseconds iteration, Nanoseconds floor = 100'000'000);

/// Every step that anyone takes on shared memory. A process may end before or after each; tests kill at each.
enum class StagingStep : std::uint8_t {
  enter,            ///< a job finds itself a member and starts at its first batch
  announce,         ///< a job says which batch it is about to use
  look,             ///< and looks for it
  wait_for_batch,   ///< it is not there
  report,           ///< nor after the deadline: the coordinator is told
  release,          ///< a job has read a batch
  wake_producers,   ///< and wakes who waits for its slot
  leave,            ///< a job says that it goes
  choose,           ///< a producer looks for the first batch that it has to make
  wait_for_room,    ///< there is none, or no slot
  claim,            ///< it takes a slot for it
  publish,          ///< the batch is whole: readers may see it
  wake_jobs,        ///< who waits for it is woken
  retract,          ///< a later batch gives its slot to an earlier one that was taken over
  restore,          ///< unless a job is reading it
  survey,           ///< the coordinator looks at one job: alive, its page and slab sound, its report
  close_slab,       ///< a job wrote garbage: what it published is not read any more
  uncount,          ///< a job is gone from an open epoch: its uses do not count, its batches are others' work
  broadcast_retry,  ///< a reported batch is late, not lost
  announce_change,  ///< the board changed: all waiters look again
  write_epoch,      ///< the next epoch's members are written
  open_epoch,       ///< and it opens
  end_group,        ///< no epoch will come
};
constexpr std::size_t staging_steps = static_cast<std::size_t>(StagingStep::end_group) + 1;
/// "enter", "wait-for-batch", ...
std::string_view staging_step_name(StagingStep step);

/// A batch in its slot, to be read in place until release().
struct StagedBatch {
  std::uint64_t sequence = 0;  ///< epoch x batches_per_epoch + index
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;     ///< within its epoch
  std::uint32_t producer = 0;  ///< place of the job that made it; staging_most_jobs: the coordinator
  std::uint32_t count = 0;     ///< good samples
  std::uint32_t failed = 0;
  Nanoseconds ready_at = 0;
  std::span<const std::byte> bytes;  ///< the slot
};

/// A slot that a producer has taken for a batch that is its to make.
struct StagingClaim {
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;
  std::uint32_t slot = 0;
  std::span<std::byte> bytes;
};

/// What a producer knows of a batch that it has made.
struct StagedFacts {
  std::uint32_t count = 0;
  std::uint32_t failed = 0;
  Nanoseconds ready_at = 0;
};

/// What a job says that it has done, on its own page: for people and records, nothing rests on it.
struct StagingCounts {
  static constexpr std::uint64_t most = std::uint64_t{1} << 53U;  ///< what is beyond is garbage, and read as this
  std::uint64_t batches_taken = 0;
  std::uint64_t samples_taken = 0;  ///< good ones
  std::uint64_t batches_made = 0;
  std::uint64_t samples_made = 0;
  std::uint64_t batches_taken_over = 0;  ///< of those made: that another job was to make, which went
  Bytes requested_bytes = 0;             ///< of storage, as far as it was noted
  Nanoseconds control_time = 0;          ///< CPU time of taking, releasing, claiming and publishing, from one call in 16; 0: not known yet
  bool operator==(const StagingCounts&) const = default;
};

/// Told of each step before it is taken. Tests end the process there.
using StagingObserver = std::function<void(StagingStep)>;

/// Makes batches into slots of its own segment, which is sealed against every other writer. Threads: claim() one, publish() any.
class StagingProducer {
 public:
  virtual ~StagingProducer() = default;
  /// The first batch that is this producer's to make, and a slot for it. timeout; end when the group has ended, or this producer counts no
  /// more: it left, finished or was put out.
  virtual Status claim(StagingClaim& claim, Deadline deadline) = 0;
  /// All of the batch is in its slot. Once a claim.
  virtual void publish(const StagingClaim& claim, const StagedFacts& facts) = 0;
};

/// A job of a group: takes every batch of the epochs in which it takes part, once each and in order, and makes its share of them.
///
/// Makes its own segments (control page, and with Producers::jobs a slab), sealed against resizing and future writers; hands the descriptors
/// to the coordinator; attaches what the coordinator hands back. Leaves when it is destroyed, but not in a child that was forked. Threads: take() and
/// leave_after() one, release() one, attach() one; each any.
class StagingJob final : public StagingProducer {
 public:
  /// `board` as the coordinator made it. `coordinator_lives`: asked in every wait, and by calls that need none, from any of the threads; when it says
  /// no, take() and claim() end with io, at most 20 ms later or at the next call. Throws Error
  /// (no board of this version, no memory).
  StagingJob(FileDescriptor board, std::function<bool()> coordinator_lives, Timing timing, StagingObserver observer = {});
  ~StagingJob() override;
  StagingJob(const StagingJob&) = delete;
  StagingJob& operator=(const StagingJob&) = delete;

  [[nodiscard]] const StagingFacts& facts() const;
  [[nodiscard]] int page() const;  ///< descriptor to hand over
  [[nodiscard]] int slab() const;  ///< the same; -1 when the coordinator makes the batches
  /// The coordinator's answer. Before anything else.
  void join(std::uint32_t place);
  /// Another job's segments (an invalid descriptor: it has none), or the coordinator's slab at place staging_most_jobs. Before its first epoch.
  /// Throws Error for what is no sealed segment of the right size.
  void attach(std::uint32_t place, FileDescriptor page, FileDescriptor slab);
  /// The place was vacated: lets go of its segments.
  void detach(std::uint32_t place);

  /// The next batch. timeout; busy while `held` batches are unreleased; end after the last epoch of this job or group; cancelled when it was put out
  /// of the group; io when the coordinator is lost.
  Status take(StagedBatch& batch, Deadline deadline);
  /// corrupt for a batch that is not held. In any order; slots are freed in the order of batches. cancelled: this job was put out of the group, and
  /// the batch may have been overwritten while it was read.
  Status release(std::uint64_t sequence);
  /// For event loops, beside take(): waits until its next batch is there; at each call for a later one. Takes nothing and writes nothing. timeout;
  /// end, cancelled and io as take(). Threads: one.
  Status await(Deadline deadline);
  /// This job takes no part in epochs after this one; one that is open already it leaves at its end all the same.
  void leave_after(std::uint64_t epoch);
  /// At once: what it has not released counts no more, what it has not made becomes others' work.
  void leave();

  Status claim(StagingClaim& claim, Deadline deadline) override;
  void publish(const StagingClaim& claim, const StagedFacts& facts) override;
  /// How much it has asked of storage so far, for its counts. Threads: any.
  void note_requested(Bytes bytes);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// Why a job does not take part any more.
enum class StagingDeparture : std::uint8_t {
  left,     ///< it said so
  died,     ///< its process is gone
  garbage,  ///< its page or slab holds what no working process writes
};

/// What the coordinator found in one round.
struct StagingRound {
  struct Departed {
    std::uint32_t place = 0;
    StagingDeparture why = StagingDeparture::left;
  };
  /// A batch that a job has waited for beyond its deadline, and who is to make it: alive, so all were told to wait on.
  struct Late {
    std::uint32_t waiting = 0;
    std::uint32_t responsible = 0;
    std::uint64_t sequence = 0;
  };
  std::vector<Departed> departed;
  std::vector<StagingCounts> counts;  ///< of each that departed, when it did
  std::vector<Late> late;
  std::vector<std::uint32_t> vacated;  ///< nothing of these places is needed any more: everyone may let go of their segments
};

/// How far a group is.
struct StagingProgress {
  std::uint64_t next_epoch = 0;  ///< the first that is not open
  std::uint64_t released = 0;    ///< the first batch that somebody who counts has not released; the first of next_epoch when there is none
  std::uint64_t until_next = 0;  ///< batches to be released by all before the next epoch opens: so many iterations waits who comes now
};

/// How a coordinator comes to the memory of its own batch slots.
struct SlabMemory {
  bool aside = false;                    ///< it is taken from the system piece by piece by a thread of its own, while the slots are used already
  Bytes promised = 0;                    ///< to others, who have not taken it from the system yet: not free
  std::function<void()> before_piece{};  ///< called by that thread, for tests
};

/// Holds what a group shares, decides who takes part, finds who is gone. Threads: one, but the producer's claim() and publish().
class StagingCoordinator {
 public:
  /// Whether the process of a place still runs (a pidfd, in the program).
  using Liveness = std::function<bool(std::uint32_t place)>;
  /// Throws UsageError (facts) and Error (memory: needed, available).
  StagingCoordinator(const StagingFacts& facts, Liveness lives, Timing timing, StagingObserver observer = {}, const SlabMemory& memory = {});
  ~StagingCoordinator();
  StagingCoordinator(const StagingCoordinator&) = delete;
  StagingCoordinator& operator=(const StagingCoordinator&) = delete;

  [[nodiscard]] int board() const;  ///< descriptor to hand to every job, sealed
  /// Takes a job in from the next epoch that opens. Throws Error when its segments are not what they should be, or all places are taken.
  std::uint32_t admit(FileDescriptor page, FileDescriptor slab);
  /// Descriptors of a place for the others; -1 for none.
  [[nodiscard]] int page(std::uint32_t place) const;
  [[nodiscard]] int slab(std::uint32_t place) const;
  [[nodiscard]] StagingProgress progress() const;
  /// Memory of its own slots that is not taken from the system yet. Threads: any.
  [[nodiscard]] Bytes promised() const;
  /// What the job at a place says so far; zeros when there is none.
  [[nodiscard]] StagingCounts counts(std::uint32_t place) const;
  /// CPU time of the rounds, and of the producer's calls as in StagingCounts. Threads: any.
  [[nodiscard]] Nanoseconds control_time() const;
  /// One round over all jobs: to be called every `look_again`, and at once when a process ended.
  StagingRound survey();
  /// With Producers::coordinator: what this process makes.
  StagingProducer& producer();
  /// The next epoch may open: the first one without jobs that are missing; with StagingBoundary::synchronised, each later one once all have
  /// released the one before (it waits for this call).
  void begin();
  /// No further epoch; jobs get end after what is open.
  void end();
  /// Takes back what was made for a job that has not come to it: for groups of one job with Producers::coordinator, so that what the job had is known
  /// when the group ends. Returns the first batch that it does not get, however long it goes on. After the last claim() and publish() have returned.
  /// Threads: any, beside survey().
  std::uint64_t withdraw();

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
