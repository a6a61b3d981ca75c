#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "core/partition/collective.hpp"
#include "job.hpp"
#include "members.hpp"
#include "transport/wire/wire.hpp"

namespace dsanalyze::transport {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;
using Say = std::function<void(std::uint32_t rank, FrameKind kind, std::uint64_t number, const SharedBytes& bytes)>;

/// Rounds in which every rank tells all others its part, in frames of one kind. Who is in round n + 1 has ended round n; so two parts of each other
/// rank are kept, and a newer one than the one waited for says that the other has given up. Threads: one at a time; hear() any.
class Exchange {
 public:
  /// Whether a rank does something else by now: a part that has not come of it will not come.
  using WentOn = std::function<bool(std::uint32_t rank)>;
  Exchange(Members& members, FrameKind kind, Say say, WentOn went_on);

  /// What is waited for may end sooner than it comes: asked whenever something is new. Not ok: the round's end.
  using Ending = std::function<Status()>;
  /// The parts of all in `taking_part` into `all`, zeros of the others.
  Status gather(std::uint64_t number, const RankMask& taking_part, std::span<const std::byte> mine, std::span<std::byte> all, const Ending& ending,
                Deadline deadline);
  /// As gather(), and adds up in the order of ranks.
  Status sum(std::uint64_t number, const RankMask& taking_part, std::span<double> values, const Ending& ending, Deadline deadline);
  void hear(std::uint32_t rank, std::uint64_t number, std::vector<std::byte> bytes);

 private:
  struct Part {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  struct Heard {
    std::optional<Part> older;
    std::optional<Part> newer;
  };
  /// Takes rank's part of the round into `out`. Status busy: it has not come yet.
  Status take_part(std::uint32_t rank, std::uint64_t number, std::span<std::byte> out);

  Members* m_members;
  FrameKind m_kind;
  Say m_say;
  WentOn m_went_on;
  std::vector<std::byte> m_sums;
  std::mutex m_mutex;
  std::vector<Heard> m_heard;  ///< guarded by m_mutex; one a rank
};

/// Rounds among the ranks of the last agreement, and agreements on who is left. A round's number is that of the last agreement and a count since, so
/// what is late is never taken for another round's.
///
/// An agreement floods masks of who is alive: everyone tells all when its own shrinks, by a death or by another's mask. Who has heard the very same
/// mask from all in it has the outcome and tells all; who hears an outcome, from one that it has not excluded itself, takes it, passes it on once and
/// says no further mask. Hence a rank that decides by masks alone needs one from each survivor, and no rank that knows of another outcome gives it.
/// A cut network leaves two sides that agree on different masks: only one of them goes on (may_go_on()). Ranks that are left out and can hear of it
/// end. Where the others may go on only once they have, they wait for that: waits_for_ends().
class Rounds final : public Collective {
 public:
  Rounds(Job& job, Say say);

  [[nodiscard]] int rank() const override { return static_cast<int>(m_members->own()); }
  [[nodiscard]] int world() const override { return static_cast<int>(m_members->world()); }
  Status barrier(Deadline deadline) override { return gather({}, {}, deadline); }
  Status sum(std::span<double> values, Deadline deadline) override;
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) override;
  Agreement agree(std::uint64_t epoch, Deadline deadline);
  /// As Ranks::stop_rounds().
  void stop() {
    m_is_stopped = true;
    m_members->tell();
  }
  void restart() { m_is_stopped = false; }

  /// Threads: any. False when it makes no sense.
  bool hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes);

 private:
  void tell_all(FrameKind kind, std::uint64_t number, const RankMask& mask);
  [[nodiscard]] std::optional<RankMask> outcome_of_another(std::uint64_t epoch, const RankMask& mask);
  /// Leaves in `mask` who is alive and in the masks of all that are in it. Whether all of those said the very same mask.
  bool shrink(std::uint64_t epoch, RankMask& mask);
  /// Whether this rank may go on with `mask` once the ranks that it leaves out have ended, and every one of them has or can hear that it is to.
  [[nodiscard]] bool waits_for_ends(std::uint64_t epoch, const RankMask& mask);
  Agreement settle(std::uint64_t epoch, const RankMask& mask);
  /// Whether a rank has come to a later agreement than the last one here: what it has not said of these rounds it will not say.
  [[nodiscard]] bool went_on(std::uint32_t rank);
  /// Whether a rank that is alive has given up the block of this agreement.
  [[nodiscard]] bool is_given_up(std::uint64_t epoch);
  [[nodiscard]] Exchange::Ending ending() const;

  Members* m_members;
  Job* m_job;
  Say m_say;
  Exchange m_exchange;
  RankMask m_taking_part;
  std::uint64_t m_next = 1;  ///< round
  /// Of the running agreement, with its epoch. Kept from call to call: who was excluded once is not taken back, for others may have gone by that.
  std::optional<std::pair<std::uint64_t, RankMask>> m_mask;
  std::optional<std::pair<std::uint64_t, RankMask>> m_told;  ///< the last mask, with its epoch
  std::atomic<bool> m_is_stopped{false};
  std::mutex m_mutex;
  std::optional<std::uint64_t> m_settled;  ///< guarded by m_mutex: the last agreement's epoch
  /// Guarded by m_mutex; one a rank: the last masks of kinds mask and decided, with their epochs.
  std::vector<std::map<FrameKind, std::pair<std::uint64_t, RankMask>>> m_masks;
};

/// The rounds of who trains, beside those of who loads. Who takes part is settled by the first round: the ranks of the last agreement then. Its
/// number tells how many those are, so that two rounds with different ranks never pass for one. Threads: one at a time; stop() and hear() any.
class TrainingRounds final : public Collective {
 public:
  TrainingRounds(Members& members, Say say)
      : m_members(&members), m_exchange(members, FrameKind::training, std::move(say), [](std::uint32_t) { return false; }) {}

  [[nodiscard]] int rank() const override { return static_cast<int>(m_members->own()); }
  [[nodiscard]] int world() const override { return static_cast<int>(m_members->world()); }
  Status barrier(Deadline deadline) override { return gather({}, {}, deadline); }
  Status sum(std::span<double> values, Deadline deadline) override {
    if (Status status = begin(); !status.ok()) return status;
    return m_exchange.sum(++m_number, *m_taking_part, values, ending(), deadline);
  }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) override {
    if (Status status = begin(); !status.ok()) return status;
    return m_exchange.gather(++m_number, *m_taking_part, mine, all, ending(), deadline);
  }

  void stop() {
    m_is_stopped = true;
    m_members->tell();
  }
  void hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
    m_exchange.hear(rank, head.number, std::move(bytes));
    m_members->tell();
  }

 private:
  static constexpr unsigned round_bits = 48;

  Status begin() {
    if (!m_taking_part) {
      m_taking_part = m_members->taking_part();
      const auto lost = static_cast<std::uint64_t>(std::ranges::count(*m_taking_part, false));
      m_number = lost << round_bits;
    }
    return state();
  }
  /// A sum that lacks a part is none: one death is the end of all rounds.
  [[nodiscard]] Status state() const {
    if (m_is_stopped) return {StatusCode::cancelled, 0};
    for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
      if ((*m_taking_part)[rank] && !m_members->alive(rank)) return {StatusCode::io, ECONNRESET};
    }
    return {};
  }
  [[nodiscard]] Exchange::Ending ending() const {
    return [this] { return state(); };
  }

  Members* m_members;
  Exchange m_exchange;
  std::optional<RankMask> m_taking_part;
  std::uint64_t m_number = 0;
  std::atomic<bool> m_is_stopped{false};
};

}  // namespace dsanalyze::transport
