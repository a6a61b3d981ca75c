#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <stop_token>

#include "../loaders/dataset/made_dataset.hpp"
#include "../ranks/made_ranks.hpp"
#include "base/error.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze {
namespace {

/// What a test has a rank do, and what it saw of it.
struct LoneRankFacts {
  std::uint64_t ends_at = UINT64_MAX;  ///< at which agreement, counted from 0
  Status end;                          ///< that it gives from then on
  std::stop_source stop;               ///< asked to stop then
  std::uint64_t agreements = 0;
  const HeldSamples* held = nullptr;  ///< that others would be served from
  std::uint64_t served = 0;           ///< times that something was, which was still there at the end
};

/// A rank alone, whose agreements can go wrong.
class LoneRank final : public Ranks {
 public:
  explicit LoneRank(LoneRankFacts& facts) : m_facts(facts) {}
  Collective& collective() override { return m_collective; }
  Collective& training() override { return m_collective; }
  void stop_training() override {}
  void stop_rounds() override {}
  void restart_rounds() override {}
  void leave(Deadline /*deadline*/) override {}
  PeerSource& peers() override { return m_peers; }
  void serve(const HeldSamples* held) override {
    // As a connection would that still sends from it.
    if (m_facts.held != nullptr && !m_facts.held->find(0).empty()) ++m_facts.served;
    m_facts.held = held;
  }
  Agreement agree_alive(std::uint64_t, Deadline) override {
    if (m_facts.agreements++ < m_facts.ends_at) return {{}, {0}};
    m_facts.stop.request_stop();
    return {m_facts.end, {0}};
  }
  [[nodiscard]] std::string given_up() const override { return ""; }
  [[nodiscard]] std::vector<std::uint32_t> alive() const override { return {0}; }
  [[nodiscard]] RankCounters counters() const override { return {}; }

 private:
  LoneRankFacts& m_facts;
  SingleRank m_collective;
  test::NoPeers m_peers;  // in a job of one rank there is none to ask
};

ProfileInputs inputs_of_a_rank() {
  ProfileInputs given;
  given.index = testing::emulated_dataset(100, 1000);
  given.host = read_host_facts();
  ProfileSettings& settings = given.settings;
  settings.dataset = "emulated:test";
  settings.partition = PartitionMode::partitioned;
  settings.runs = {"full"};
  settings.storage = Seam::null;
  settings.prep = Seam::null;
  settings.accelerator = AcceleratorKind::null;
  settings.batch_size = 10;
  settings.epochs = 2;
  settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, 1};
  settings.time_budget_seconds = 1;
  return given;
}

ProfileResult profile_of_a_rank(LoneRankFacts& facts) {
  ProfileInputs given = inputs_of_a_rank();
  const ProfilePlan plan = plan_profile(given);
  RankTeam team(std::make_unique<LoneRank>(facts));
  given.team = &team;
  return run_profile(given, plan, null_events(), facts.stop.get_token(), system_timing());
}

}  // namespace

TEST_CASE("a rank that is interrupted at any meeting ends as one that is, and no other rank is served from a cache that is gone") {
  LoneRankFacts whole;
  CHECK(profile_of_a_rank(whole).ranks.size() == 1);
  CHECK(whole.held == nullptr);
  CHECK(whole.served == 1);
  constexpr std::array ways_to_end{Status{}, Status{StatusCode::timeout, 0}, Status{StatusCode::io, 0}};
  std::uint64_t served = 0;
  for (std::uint64_t at = 0; at < whole.agreements; ++at) {
    LoneRankFacts facts;
    facts.ends_at = at;
    facts.end = ways_to_end[at % ways_to_end.size()];
    CAPTURE(at);
    CAPTURE(status_name(facts.end.code));
    try {
      profile_of_a_rank(facts);
      CHECK((facts.end.ok() && at + 1 == whole.agreements));  // interrupted when all was done
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::interrupted);
    }
    CHECK(facts.held == nullptr);
    served += facts.served;
  }
  CHECK(served > 0);
}

TEST_CASE("a rank that the others go on without ends with an error, and serves none any more") {
  LoneRankFacts whole;
  profile_of_a_rank(whole);
  for (std::uint64_t at = 1; at < whole.agreements; at += 3) {
    CAPTURE(at);
    LoneRankFacts facts;
    facts.ends_at = at;
    facts.end = {StatusCode::io, 0};
    facts.stop = std::stop_source(std::nostopstate);
    CHECK_THROWS_AS(profile_of_a_rank(facts), Error);
    CHECK(facts.held == nullptr);
  }
}

}  // namespace dsanalyze
