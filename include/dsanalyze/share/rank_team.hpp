#pragma once

#include <memory>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/core/collective.hpp"
#include "dsanalyze/transport/ranks.hpp"

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
  Ranks& ranks() { return *m_ranks; }
  [[nodiscard]] const Ranks& ranks() const { return *m_ranks; }

 private:
  class Agreeing;
  std::unique_ptr<Ranks> m_ranks;
  std::unique_ptr<Agreeing> m_agreeing;
};

}  // namespace dsanalyze
