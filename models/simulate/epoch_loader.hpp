#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/depths.hpp"
#include "epoch_draws.hpp"
#include "epoch_stages.hpp"

namespace dsanalyze::simulation {

/// The loader: its feeder, its reaper and its workers, as loaders/loader_feed.cpp, loader_reap.cpp and loader_work.cpp have them, on simulated time.
class LoaderStage {
 public:
  LoaderStage(const EpochSetup& setup, Held held);

  /// Instant of the next thing that happens by itself; `never` when there is none.
  [[nodiscard]] Nanoseconds next_event() const;
  /// Lets happen what is due at `now`.
  void run(Nanoseconds now);
  /// The next batch in sequence, if it is prepared.
  bool take(TrainedBatch& batch);
  [[nodiscard]] bool ended() const { return m_waits_for == WaitsFor::nothing_more && m_taken == m_begun; }
  void release_slots(std::size_t count, Nanoseconds now);

  struct EpochCounts {
    std::uint64_t samples = 0;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    Bytes storage_bytes = 0;
  };
  [[nodiscard]] std::span<const EpochCounts> counts() const { return m_counts; }
  [[nodiscard]] double storage_busy_seconds() const { return m_storage.busy_seconds(); }
  [[nodiscard]] const PrepStage& prep() const { return m_prep; }

 private:
  static constexpr std::uint32_t in_window = UINT32_MAX;

  enum class Source : std::uint8_t { cache, storage, storage_for_cache };
  /// A sample on its way to a worker.
  struct Item {
    Nanoseconds ready = 0;
    SampleId sample = 0;
    std::uint32_t entry = 0;
    Source source = Source::cache;
  };
  struct Request {
    SampleId sample = 0;
    std::uint32_t entry = 0;
    Source source = Source::storage;
  };
  struct Entry {
    std::uint32_t pending = 0;
    bool prepared = false;
    TrainedBatch batch;
  };
  /// A sample of the shuffle buffer.
  struct Place {
    Item item;
    bool arrived = false;
    bool drawn = false;
  };
  struct Worker {
    std::array<Item, worker_group> items;
    std::uint32_t count = 0;
    std::uint32_t at = 0;
    std::uint32_t done_of_entry = 0;
  };
  /// What the feeder is about to do, and what it waits for meanwhile.
  enum class Feeding { next_step, ahead, slice, submit_ahead, submit_slice };
  enum class WaitsFor { nothing, settled, slot, room, nothing_more };

  void settle_down(Nanoseconds now);
  void feed(Nanoseconds now);
  bool begin_step();
  void look_ahead(Nanoseconds now);
  void begin_slice(Nanoseconds now);
  bool submit(Nanoseconds now);
  void dispatch(std::span<const SampleId> samples, std::uint32_t entry, Nanoseconds now);
  void draw_from_window(std::span<const SampleId> samples, std::uint32_t entry, Nanoseconds now);
  void arrive(const Item& item);
  void complete_requests(Nanoseconds now);
  void end_sample(Worker& worker, Nanoseconds now);
  Nanoseconds go_on(Worker& worker, Nanoseconds now);
  bool take_group(Worker& worker);
  void start_idle_workers(Nanoseconds now);

  void push(const Item& item) {
    m_ready[(m_ready_head + m_ready_count) % m_ready.size()] = item;
    ++m_ready_count;
  }

  const EpochSetup& m_setup;
  EpochDraws m_draws;
  CacheStage m_cache;
  StorageStage m_storage;
  PrepStage m_prep;
  std::uint32_t m_slices;  // batches of a step

  // Feeder.
  Feeding m_feeding = Feeding::next_step;
  WaitsFor m_waits_for = WaitsFor::nothing;
  Nanoseconds m_looks_up_at = never;
  std::uint64_t m_next_epoch = 0;
  std::uint64_t m_step = 0;  // of the epoch
  std::span<const SampleId> m_global;
  std::span<const SampleId> m_ahead;
  std::uint32_t m_slice = 0;
  std::uint32_t m_step_slices = 0;
  std::vector<Request> m_misses;  // of the group that is being submitted
  std::size_t m_submitted = 0;
  std::uint32_t m_free_slots;
  std::uint32_t m_free_places;
  std::uint64_t m_unsettled = 0;
  bool m_room = false;     // a worker has done with a group since the feeder looked
  bool m_settled = false;  // nothing is unsettled any more since it looked

  // Between the threads.
  EventHeap<Request> m_requests;
  std::vector<Item> m_ready;  // a ring
  std::size_t m_ready_head = 0;
  std::size_t m_ready_count = 0;
  std::vector<Place> m_window;  // by sample; with a shuffle buffer
  std::vector<Worker> m_workers;
  EventHeap<std::uint32_t> m_busy_workers;
  std::vector<std::uint32_t> m_idle_workers;
  std::vector<Entry> m_entries;
  std::uint64_t m_begun = 0;  // batches
  std::uint64_t m_taken = 0;
  std::vector<EpochCounts> m_counts;
};

/// The loop of src/profile/training.cpp: one thread that asks the loader for batches, hands them to the accelerators, and gives slots back. It does
/// one thing at a time: while it waits for a batch, it gives nothing back, at most for a quarter of a second.
class TrainingLoop {
 public:
  explicit TrainingLoop(const SimulatedAccelerators& accelerators) : m_accelerators(accelerators) {}
  /// Goes as far as it can without time passing. Batches that started are appended to `started`.
  void run(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started);
  /// When it goes on if no batch comes before.
  [[nodiscard]] Nanoseconds next_event() const { return m_goes_on_at; }
  [[nodiscard]] bool done() const { return m_doing == Doing::nothing_more; }
  [[nodiscard]] const AcceleratorStage& accelerators() const { return m_accelerators; }

 private:
  enum class Doing { looks, awaits_batch, awaits_end, nothing_more };

  /// False when it has to wait.
  bool ask(LoaderStage& loader, Nanoseconds now, std::vector<TrainedBatch>& started);
  void begin_reaping(Nanoseconds now);

  AcceleratorStage m_accelerators;
  Doing m_doing = Doing::looks;
  bool m_more = true;
  Nanoseconds m_goes_on_at = never;
};

}  // namespace dsanalyze::simulation
