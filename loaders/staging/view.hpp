#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "memory.hpp"

namespace dsanalyze::staging {

constexpr JobSet bit(std::uint32_t place) { return JobSet{1} << place; }
std::uint32_t count(JobSet jobs);
/// The n-th smallest of the places.
std::uint32_t nth(JobSet jobs, std::uint64_t n);

/// What everyone derives from the group's memory. Decides nothing and writes nothing. Threads: any; map() one at a time.
class View {
 public:
  explicit View(const Board& board) : m_board(board), m_facts(board.facts) {}

  void map_page(std::uint32_t place, const ControlPage* page) { m_pages[place].store(page, std::memory_order_release); }
  void map_slab(std::uint32_t place, const SlabHead* slab) { m_slabs[place].store(slab, std::memory_order_release); }
  [[nodiscard]] const ControlPage* page(std::uint32_t place) const { return m_pages[place].load(std::memory_order_acquire); }
  [[nodiscard]] const SlabHead* slab(std::uint32_t place) const { return m_slabs[place].load(std::memory_order_acquire); }
  [[nodiscard]] const Board& board() const { return m_board; }
  [[nodiscard]] const StagingFacts& facts() const { return m_facts; }

  [[nodiscard]] std::uint64_t epoch_of(Sequence sequence) const { return sequence / m_facts.batches_per_epoch; }
  /// The epoch's first batch; of the first epoch the one that the group starts with.
  [[nodiscard]] Sequence start_of(std::uint64_t epoch) const {
    return epoch * m_facts.batches_per_epoch + (epoch == m_facts.first_epoch ? m_facts.first_batch : 0);
  }

  struct Members {
    JobSet members = 0;
    JobSet live = 0;
    JobSet readable = 0;
  };
  /// Of an open epoch; nothing for one that is not open yet or has made room for its next but one.
  [[nodiscard]] std::optional<Members> members(std::uint64_t epoch) const;
  [[nodiscard]] std::uint64_t opened() const { return m_board.opened.load(std::memory_order_acquire); }
  /// Whether the place was a member of the epoch before this one, and counts in it no more: who goes on from there was put out.
  [[nodiscard]] bool uncounted_before(std::uint64_t epoch, std::uint32_t place) const;
  /// The older of the epochs that may be open.
  [[nodiscard]] std::uint64_t oldest_open() const;

  struct Slowest {
    Sequence position = 0;         ///< the first batch that not all live jobs have released; the first of the next epoch when there is none
    std::uint32_t place = no_job;  ///< of a job that has not
  };
  [[nodiscard]] Slowest slowest() const;
  /// Whether no live job needs the batch any more, so that its slot may be written.
  [[nodiscard]] bool released_by_all(Sequence sequence) const;
  /// Whether a live job may be reading the batch.
  [[nodiscard]] bool held(Sequence sequence) const;
  /// Who is to make a batch: its home, or a live job when that is gone; `no_job` when its epoch is not open or has no live job.
  [[nodiscard]] std::uint32_t responsible(Sequence sequence) const;
  /// Whether a batch was the place's to make from the beginning.
  [[nodiscard]] bool at_home(Sequence sequence, std::uint32_t place) const;

  struct Place {
    std::uint32_t producer = no_job;
    std::uint32_t slot = 0;
    const SlabHead* slab = nullptr;  ///< as it was mapped when it was found
  };
  /// Where a batch can be read.
  [[nodiscard]] std::optional<Place> find(Sequence sequence) const;
  /// Whether it can be read, or a live producer is at it.
  [[nodiscard]] bool in_hand(Sequence sequence) const;

 private:
  [[nodiscard]] Sequence released(std::uint32_t place) const;
  [[nodiscard]] std::optional<Place> slot_with(std::uint32_t producer, Tag tag) const;
  template <typename Visit>
  bool any_producer(JobSet jobs, const Visit& visit) const;

  const Board& m_board;
  const StagingFacts m_facts;
  std::array<std::atomic<const ControlPage*>, most_jobs> m_pages{};
  std::array<std::atomic<const SlabHead*>, most_jobs + 1> m_slabs{};
};

}  // namespace dsanalyze::staging
