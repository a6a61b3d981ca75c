#pragma once

#include <memory>
#include <stop_token>

#include "base/clock.hpp"
#include "core/partition/collective.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze {

/// The ranks of which this process is one, for the loader and the run. Threads: collective() one at a time.
class RankTeam {
 public:
  explicit RankTeam(std::unique_ptr<Ranks> ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  [[nodiscard]] std::uint32_t rank() const;
  [[nodiscard]] std::uint32_t world() const;
  ElasticCollective& collective();
  /// How long ranks that are alive are waited for, and by what time.
  struct Patience {
    double seconds = 0;
    std::stop_token stop;
    Timing timing;
  };
  /// The ranks that are alive agree on who they are, as ElasticCollective::agree(). Throws Interrupted once this rank is asked to stop.
  Status agree(AliveRanks& alive, const Patience& patience);
  /// Whether this rank tells the result, of the ranks in `alive` that all have it, and leaves in `alive` who of them is left. The ranks agree twice
  /// before: on who is left, of whom the lowest tells, and that all know it. From then on no other rank does, whatever becomes of that one, so there
  /// are never two results. The others wait for told_result(); where the patience ends before, the one that tells is alive and still telling. Throws
  /// Error where the others went on without this rank, and where the one that tells is lost before told_result(); Interrupted.
  bool tells_result(AliveRanks& alive, const Patience& patience);
  /// Lets the ranks that wait in tells_result() go. An interrupt changes nothing in that.
  void told_result(const Patience& patience);
  Ranks& ranks() { return *m_ranks; }
  [[nodiscard]] const Ranks& ranks() const { return *m_ranks; }

 private:
  class Agreeing;
  std::unique_ptr<Ranks> m_ranks;
  std::unique_ptr<Agreeing> m_agreeing;
};

}  // namespace dsanalyze
