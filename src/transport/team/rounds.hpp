#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "exchange.hpp"
#include "job.hpp"
#include "transport/wire/wire.hpp"

namespace dsanalyze::transport {

/// Rounds among the ranks of the last agreement, and agreements on who is left. A round's number is that of the last agreement and a count since, so
/// what is late is never taken for another round's.
///
/// An agreement floods masks of who is alive: everyone tells all when its own shrinks, by a death or by another's mask. Who has heard the very same
/// mask from all in it has the outcome and tells all; who hears an outcome, from one that it has not excluded itself, takes it, passes it on once and
/// says no further mask. Hence a rank that decides by masks alone needs one from each survivor, and nobody who knows of another outcome gives it.
/// A cut network leaves two sides that agree on different masks: only one of them goes on (may_go_on()).
class Rounds final : public Collective {
 public:
  Rounds(Job& job, Say say);

  [[nodiscard]] int rank() const override { return static_cast<int>(m_members->own()); }
  [[nodiscard]] int world() const override { return static_cast<int>(m_members->world()); }
  Status barrier(Deadline deadline) override { return gather({}, {}, deadline); }
  Status sum(std::span<double> values, Deadline deadline) override;
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) override;
  Agreement agree(std::uint64_t epoch, Deadline deadline);

  /// Threads: any. False when it makes no sense.
  bool hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes);

 private:
  void tell_all(FrameKind kind, std::uint64_t number, const RankMask& mask);
  [[nodiscard]] std::optional<RankMask> outcome_of_another(std::uint64_t epoch, const RankMask& mask);
  /// Leaves in `mask` who is alive and in the masks of all that are in it. Whether all of those said the very same mask.
  bool shrink(std::uint64_t epoch, RankMask& mask);
  Agreement settle(std::uint64_t epoch, const RankMask& mask);
  /// Whether a rank has come to a later agreement than the last one here: what it has not said of these rounds it will not say.
  [[nodiscard]] bool went_on(std::uint32_t rank);

  Members* m_members;
  Job* m_job;
  Say m_say;
  Exchange m_exchange;
  RankMask m_taking_part;
  std::uint64_t m_next = 1;  ///< round
  /// Of the agreement under way, with its epoch. Kept from call to call: who was excluded once is not taken back, for others may have gone by that.
  std::optional<std::pair<std::uint64_t, RankMask>> m_mask;
  std::optional<std::pair<std::uint64_t, RankMask>> m_told;  ///< the last mask, with its epoch
  std::mutex m_mutex;
  std::optional<std::uint64_t> m_settled;  ///< guarded by m_mutex: the last agreement's epoch
  /// Guarded by m_mutex; one a rank: the last masks of kinds mask and decided, with their epochs.
  std::vector<std::map<FrameKind, std::pair<std::uint64_t, RankMask>>> m_masks;
};

}  // namespace dsanalyze::transport
