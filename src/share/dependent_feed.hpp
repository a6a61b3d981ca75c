#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/system/shared_memory.hpp"
#include "core/dependent/dependent_group.hpp"
#include "loaders/loader.hpp"
#include "loaders/staging/staging.hpp"

namespace dsanalyze {

/// Every step of a feed's threads between which another thread may go on. Tests order them.
enum class DependentStep : std::uint8_t {
  serve,       ///< a thread begins to wait for a job's slots
  claim_slot,  ///< it looks for one
  open_batch,  ///< it has one
  draw,        ///< the loader looks for a sample: one that was drawn, or the next draw
  prepared,    ///< a sample is prepared, or could not be
  copy,        ///< it is about to be copied into a job's slot
  copied,      ///< it was
  finish,      ///< with it the batch is whole
  end,         ///< a job is gone
  remove,      ///< and its number is to be free
  retire       ///< the job's thread ends
};
constexpr std::size_t dependent_steps = static_cast<std::size_t>(DependentStep::retire) + 1;
/// Told before each step, without a lock held; `job`: its number, most_dependent_jobs where it is no job's.
using DependentObserver = std::function<void(DependentStep step, std::uint32_t job)>;

/// What a dependent group prepares with, and in how much memory.
struct DependentFeedSpec {
  std::shared_ptr<const DatasetIndex> index;
  TensorShape sample;  ///< a batch of one
  std::uint64_t seed = 1;
  OnError on_error = OnError::skip;
  std::uint32_t store_places = 0;  ///< samples that are kept for jobs which draw them later
  StagingPolicy policy = StagingPolicy::refcnt;
  std::uint32_t in_flight = 64;                    ///< samples that are fetched and prepared at once
  Nanoseconds patience = 100'000'000;              ///< that a slot with room waits at most for others to draw with
  DrawRecorder* recorder = nullptr;                ///< of the draws, until stop_recording()
  std::optional<DependentGroup::State> resumed{};  ///< of an earlier feed: state()
  DependentObserver observer{};
  bool held = false;  ///< nothing is drawn before begin()
};

/// A job as the feed serves it.
struct DependentJob {
  std::uint32_t batch_size = 1;
  std::vector<SampleId> subset;  ///< of its epochs; empty: the whole dataset
  TensorShape tensor;            ///< of a full batch
  std::uint32_t slots = 1;       ///< of its producer
  std::uint64_t batches = 0;     ///< that it takes in all; 0: not known
  std::uint64_t first = 0;       ///< the number of its first batch, over all epochs
  std::vector<SampleId> rest{};  ///< of its first epoch, when that batch is not the epoch's first
  bool comes_again = false;      ///< rest() is asked for when it has ended
};

/// Draws for the jobs of a dependent group, has each drawn sample prepared once, and copies it into the batches of all jobs that drew it.
///
/// A loader claims one sample at a time and prepares it into a place of this feed's memory. Each job has batch slots of its own, which its producer
/// claims. A job takes part in a draw while one of its slots has room, so no job waits for another: one whose slots are full draws nothing. A draw is
/// due when half of some job's slots have room, so that the slots of slower jobs are filled in the draws of faster ones and not by themselves.
/// Memory: store_places + in_flight places, taken whole at the start. Threads: claim() and of() the loader's feeder; the rest any. A thread of this
/// feed's own waits for each job's slots.
class DependentFeed final : public StagingProducer, public ClaimedSamples {
 public:
  /// Throws Error without the memory.
  DependentFeed(const DependentFeedSpec& spec, Timing timing);
  /// After the loader.
  ~DependentFeed() override;
  DependentFeed(const DependentFeed&) = delete;
  DependentFeed& operator=(const DependentFeed&) = delete;

  /// Draws begin, where they were held.
  void begin();
  /// Serves a job under a number below most_dependent_jobs that is free. `producer` is used until remove() has returned.
  void add(std::uint32_t number, DependentJob job, StagingProducer& producer);
  /// The job is gone: it leaves the draws at once.
  void end(std::uint32_t number);
  /// Ends the job, and returns when nothing writes into its slots any more. Its number is free.
  void remove(std::uint32_t number);
  /// The loader's claims end.
  void stop();
  /// stop(); returns when no slot is claimed or written any more, for good. What is in flight comes to nothing.
  void freeze();

  /// Where a job goes on that comes again.
  struct Rest {
    std::uint64_t next = 0;           ///< number of its first batch
    std::vector<SampleId> samples{};  ///< of that batch's epoch, ascending; empty where the epoch begins with it: all
  };
  /// Of a job that had the batches before number `next`, as it says; of what cannot be, what comes nearest. After end() of a job with `comes_again`,
  /// or after freeze().
  [[nodiscard]] Rest rest(std::uint32_t number, std::uint64_t next) const;
  /// For DependentFeedSpec::resumed.
  [[nodiscard]] DependentGroup::State state() const;
  /// The recorder is told nothing any more.
  void stop_recording();

  Status claim(StagingClaim& claim, Deadline deadline) override;
  void publish(const StagingClaim& claim, const StagedFacts& facts) override;
  Work of(const StagingClaim& claim) override;

  struct Totals {
    std::uint64_t rounds = 0;      ///< of draws
    std::uint64_t drawn = 0;       ///< samples, once for each job
    std::uint64_t prepared = 0;    ///< versions that were handed to the loader
    std::uint64_t from_store = 0;  ///< samples that were drawn and had been prepared before
  };
  [[nodiscard]] Totals totals() const;
  /// What a job drew, and what there was by the draw with which it had all its samples; of one that went before, until then; else, so far.
  struct Drawn {
    std::uint64_t drawn = 0;  ///< samples, by it
    Totals group;             ///< `prepared`: those that were drawn and wait for the loader, too
  };
  /// Of the job that has this number, or had it last; nullopt: none had.
  [[nodiscard]] std::optional<Drawn> drawn_by(std::uint32_t number) const;
  /// Why a thread of this feed ended; empty while all is well.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] Bytes place_bytes() const { return m_place_bytes; }
  [[nodiscard]] Bytes memory_bytes() const { return m_memory.size(); }

 private:
  struct Job;
  /// Where a job's sample belongs.
  struct Delivery {
    std::shared_ptr<Job> job;
    std::uint32_t slot = 0;
    std::uint32_t position = 0;
  };
  /// One preparing of a sample. Its place is free again when no loader, copy or store holds it.
  struct Version {
    SampleId sample = 0;
    std::uint32_t generation = 0;
    std::optional<std::uint32_t> place;
    std::uint32_t holders = 1;
    bool ready = false;
    bool failed = false;
    std::vector<Delivery> waiting;
  };
  using VersionPtr = std::shared_ptr<Version>;
  struct Handed {
    VersionPtr version;
    Delivery delivery;
  };

  void claim_slots(Job& job);
  void open_batch(Job& job, const StagingClaim& claim);
  [[nodiscard]] bool due(const Job& job) const;
  [[nodiscard]] JobSet asking() const;
  void draw(std::vector<Handed>& ready);
  void begin_epoch(std::uint32_t number);
  [[nodiscard]] std::vector<SampleId> needed_by(std::uint32_t number) const;
  void wait_for_copies(Job& job);
  void observe(DependentStep step, std::uint32_t job = most_dependent_jobs) const {
    if (m_spec.observer) m_spec.observer(step, job);
  }
  VersionPtr version_of(const DependentGroup::Work& work);
  void add_to_batch(std::uint32_t number, const VersionPtr& version, std::vector<Handed>& ready);
  bool hand_to_loader(StagingClaim& claim);
  void deliver(const Version& version, const Delivery& delivery);
  void finish(Job& job, std::uint32_t slot);
  [[nodiscard]] Drawn drawn_until_now(const Job& job) const;
  void let_go(Version& version);
  [[nodiscard]] std::byte* data(const Version& version) const { return m_memory.data() + *version.place * m_place_bytes; }

  const DependentFeedSpec m_spec;
  const Timing m_timing;
  const Bytes m_place_bytes;
  MemorySegment m_memory;
  mutable std::mutex m_mutex;
  DependentGroup m_group;
  std::array<std::shared_ptr<Job>, most_dependent_jobs> m_jobs;
  std::vector<VersionPtr> m_kept;       ///< by the store's places
  std::deque<VersionPtr> m_queue;       ///< drawn, for the loader
  std::vector<VersionPtr> m_in_flight;  ///< by the loader's slots
  std::vector<std::uint32_t> m_slots;   ///< of the loader, that are free
  std::vector<std::uint32_t> m_places;  ///< of memory, that are free
  std::uint64_t m_sequence = 0;
  Totals m_totals;
  std::array<std::optional<Drawn>, most_dependent_jobs> m_drawn;  ///< by number, of jobs that had all their samples or are gone
  std::string m_failure;
  bool m_held = false;
  bool m_stopped = false;
  bool m_frozen = false;
  Signal m_changed;  ///< there may be something to draw, or room for it
  Signal m_copied;   ///< a job has fewer copies in flight
};

}  // namespace dsanalyze
