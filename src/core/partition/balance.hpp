#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dsanalyze {

/// So many samples of a mini-batch that one rank hands to another: one message.
struct Transfer {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t count = 0;
  bool operator==(const Transfer&) const = default;
};

/// Algorithm 1 of [Yang-Cong, section V-C]: the largest surplus goes to the largest deficit, two heaps. At most one message fewer than there are
/// ranks out of balance, so p - 1, and at most twice the fewest that would do (Theorem 2); O(p log p). Deterministic: of equal imbalances the lower
/// rank is first. Threads: one an object. Allocation: none once it has seen as many ranks.
class Balancer {
 public:
  /// `imbalances`: by rank, samples above its target, below 0 what lacks. What has no counterpart, where they do not add up to 0, stays. Valid until
  /// the next call.
  std::span<const Transfer> balance(std::span<const std::int32_t> imbalances);

 private:
  std::vector<std::uint64_t> m_surpluses;  ///< heaps
  std::vector<std::uint64_t> m_deficits;
  std::vector<Transfer> m_transfers;
};

}  // namespace dsanalyze
