#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
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

}  // namespace dsanalyze::transport
