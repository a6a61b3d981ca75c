#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "transport/team/ranks.hpp"

namespace dsanalyze::test {

/// Gathers this rank's own bytes from all ranks.
class MadeCollective final : public Collective {
 public:
  MadeCollective(int rank, int world) : m_rank(rank), m_world(world) {}
  [[nodiscard]] int rank() const override { return m_rank; }
  [[nodiscard]] int world() const override { return m_world; }
  Status barrier(Deadline) override { return {}; }
  Status sum(std::span<double>, Deadline) override { return {}; }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline) override {
    for (std::size_t at = 0; at < all.size(); ++at) all[at] = mine[at % mine.size()];
    return {};
  }

 private:
  int m_rank;
  int m_world;
};

/// Never asked.
class NoPeers final : public PeerSource {
 public:
  void deliver_to(Sink) override {}
  Status submit(std::span<const PeerRequest>) override { return {StatusCode::unsupported, 0}; }
  void release(std::span<const std::uint32_t>) override {}
  void cancel() override {}
  [[nodiscard]] std::size_t capacity() const override { return 1024; }
  [[nodiscard]] std::size_t free_places() const override { return 1024; }
  [[nodiscard]] bool alive(std::uint32_t) const override { return false; }
  [[nodiscard]] Bytes received() const override { return 0; }
};

/// What a made rank was asked, and what it answers. Outlives the rank.
struct MadeFacts {
  int rank = 0;
  int world = 1;
  std::function<Agreement(std::uint64_t epoch, Deadline deadline)> agree;
  std::string given_up;
  std::vector<std::uint64_t> epochs;        ///< of the agreements, in order
  std::vector<Nanoseconds> deadlines;       ///< of the agreements
  std::vector<const HeldSamples*> serving;  ///< each that serve() was given, in order
};

/// One rank of a job whose other ranks are what the test says they are.
class MadeRanks final : public Ranks {
 public:
  explicit MadeRanks(MadeFacts& facts) : m_facts(facts), m_collective(facts.rank, facts.world) {}
  Collective& collective() override { return m_collective; }
  Collective& training() override { return m_collective; }
  void stop_training() override {}
  void stop_rounds() override {}
  void restart_rounds() override {}
  void leave(Deadline /*deadline*/) override {}
  PeerSource& peers() override { return m_peers; }
  void serve(const HeldSamples* held) override { m_facts.serving.push_back(held); }
  Agreement agree_alive(std::uint64_t epoch, Deadline deadline) override {
    m_facts.epochs.push_back(epoch);
    m_facts.deadlines.push_back(deadline.at);
    return m_facts.agree(epoch, deadline);
  }
  [[nodiscard]] std::string given_up() const override { return m_facts.given_up; }
  [[nodiscard]] std::vector<std::uint32_t> alive() const override { return {}; }
  [[nodiscard]] RankCounters counters() const override { return {}; }

 private:
  MadeFacts& m_facts;
  MadeCollective m_collective;
  NoPeers m_peers;
};

}  // namespace dsanalyze::test
