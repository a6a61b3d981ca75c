#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "job.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

/// Rounds in which every rank tells all others its part, and agreements on who is left.
///
/// A round's number is that of the last agreement and a count since, so what is late is never taken for another round's. Who is in round n + 1 has
/// ended round n; so a rank keeps two parts of each other one, and a newer one than it waits for says that the other has given up.
///
/// An agreement floods masks of who is alive: everyone tells all when its own shrinks, by a death or by another's mask. Who has heard the very same
/// mask from all in it has the outcome and tells all; who hears an outcome, from one that it has not excluded itself, takes it, passes it on once and
/// says no further mask. Hence a rank that decides by masks alone needs one from each survivor, and nobody who knows of another outcome gives it.
class Rounds final : public Collective {
 public:
  using Say = std::function<void(std::uint32_t rank, FrameKind kind, std::uint64_t number, const SharedBytes& bytes)>;
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
  struct Part {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  struct Heard {
    std::optional<Part> older;
    std::optional<Part> newer;
    std::map<FrameKind, std::pair<std::uint64_t, RankMask>> masks;  ///< the last ones of kinds mask and decided, with their epochs
  };
  void tell_all(FrameKind kind, std::uint64_t number, const SharedBytes& bytes);
  /// Takes rank's part of the round into `out`. Status busy: it has not come yet.
  Status take_part(std::uint32_t rank, std::uint64_t number, std::span<std::byte> out);
  [[nodiscard]] std::optional<RankMask> outcome_of_another(std::uint64_t epoch, const RankMask& mask);
  /// Leaves in `mask` who is alive and in the masks of all that are in it. Whether all of these said the very same.
  bool shrink(std::uint64_t epoch, RankMask& mask);
  Agreement settle(std::uint64_t epoch, const RankMask& mask);

  Members* m_members;
  Job* m_job;
  Say m_say;
  RankMask m_taking_part;
  std::uint64_t m_next = 1;  ///< round
  std::vector<std::byte> m_sums;
  std::mutex m_mutex;
  std::vector<Heard> m_heard;  ///< guarded by m_mutex; one a rank
};

}  // namespace dsanalyze::transport
