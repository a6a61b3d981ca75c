#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "../../base/sanitizers.hpp"
#include "loaders/partition/partitioned_share.hpp"
#include "loaders/sampler.hpp"
#include "ranks_rig.hpp"

namespace dsanalyze {
namespace {

using testing::emulated_dataset;
using testing::MeetingPlace;
using testing::MetRanks;

constexpr std::uint32_t lost_test_samples = 90;
constexpr std::uint64_t lost_test_epochs = 3;
constexpr std::uint32_t lost_test_batch = 5;

/// Storage that gives every sample at once, read past the loader only.
class InstantStorage final : public PartitionedEngine {
 public:
  explicit InstantStorage(const DatasetIndex& index) : m_index(index) {}
  Status read_aside(std::span<const SampleId> samples, const Take& take, Deadline) override {
    for (const SampleId sample : samples) {
      const std::vector<std::byte> bytes(m_index[sample].length);
      take(sample, bytes);
    }
    return {};
  }
  [[nodiscard]] std::uint64_t redirected() const override { return 0; }
  Status submit(std::span<const FetchRequest>) override { return {StatusCode::unsupported, 0}; }
  std::size_t reap(std::span<FetchCompletion>, Deadline) override { return 0; }
  void release(std::span<const FetchBuffer>) override {}
  void cancel() override {}
  [[nodiscard]] std::size_t capacity() const override { return 0; }
  [[nodiscard]] std::size_t free_places() const override { return 0; }
  [[nodiscard]] Bytes requested() const override { return 0; }

 private:
  const DatasetIndex& m_index;
};

/// What a rank had of an epoch that began.
struct EpochSeen {
  std::uint32_t ranks = 0;
  std::vector<std::vector<SampleId>> global;  ///< by step
  std::set<SampleId> mine;
  std::size_t largest_part = 0;
};

struct RankSeen {
  std::vector<EpochSeen> epochs;
  Status end;  ///< of the last begin_epoch()
  PartitionedShare::Account account;
  std::set<SampleId> held;
  std::set<std::uint32_t> asked;  ///< at the end
};

struct LossCase {
  PartitionMode mode = PartitionMode::partitioned;
  std::vector<Bytes> capacities;                             ///< by rank
  std::optional<std::uint64_t> enough_after = std::nullopt;  ///< epochs
};

/// Ranks without loaders: each draws, takes its parts, and keeps what its cache is for.
class Job {
 public:
  explicit Job(LossCase given) : m_case(std::move(given)), m_index(emulated_dataset(lost_test_samples, 1000)), m_place(world()) {}
  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(m_case.capacities.size()); }
  /// How often ranks meet from the begin to the end.
  std::uint64_t rounds() { return m_place.rounds(0); }

  std::vector<RankSeen> run(std::optional<std::uint32_t> victim = std::nullopt, std::uint64_t at_round = 0) {
    if (victim) m_place.lose_at(*victim, at_round);
    std::vector<RankSeen> seen(world());
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < world(); ++rank) threads.emplace_back([this, rank, &seen] { be_rank(rank, seen[rank]); });
    }
    return seen;
  }

 private:
  void be_rank(std::uint32_t rank, RankSeen& seen) {
    CacheOptions options{CacheKind::minio, m_case.capacities[rank], m_index->size(), m_index->bytes(), largest_sample(*m_index), 4096};
    options.least_priority = partition_priority;
    ServerHolder server(options, system_timing());
    MetRanks ranks(m_place, rank, world());
    std::atomic<std::uint64_t> begun{0};
    PartitionedShare share({m_index, &server.cache(), &server.held(), &ranks, system_timing()},
                           {.mode = m_case.mode,
                            .rank_batch = lost_test_batch,
                            .seed = 1,
                            .enough = [&] { return m_case.enough_after && begun >= *m_case.enough_after; },
                            .patience_seconds = 60});
    InstantStorage storage(*m_index);
    share.read_with(storage);
    const auto cache = make_partitioned_cache(server.cache(), share);
    SamplerState start;
    start.samples = m_index->size();
    Sampler sampler(start, lost_test_batch);
    for (; begun < lost_test_epochs; ++begun) {
      seen.end = share.begin_epoch(begun, 0);
      if (!seen.end.ok()) break;
      sampler.set_batch_size(lost_test_batch * share.ranks());
      train(share, sampler, *cache, seen.epochs.emplace_back());
    }
    AliveRanks met(world());
    if ((seen.end.ok() || seen.end.code == StatusCode::end) && ranks.agree(met, {INT64_MAX}).ok()) share.ended(met);
    seen.account = share.account();
    for (SampleId sample = 0; sample < m_index->size(); ++sample) {
      if (!server.held().find(sample).empty()) seen.held.insert(sample);
      for (std::uint32_t attempt = 0; const auto asked = share.ask(sample, attempt); ++attempt) seen.asked.insert(*asked);
    }
  }

  void train(PartitionedShare& share, Sampler& sampler, RawCache& cache, EpochSeen& seen) {
    seen.ranks = share.ranks();
    std::uint64_t epoch = 0;
    for (bool last = false; !last;) {
      const auto global = sampler.next(epoch, last);
      seen.global.emplace_back(global.begin(), global.end());
      const auto part = share.mine(global);
      seen.largest_part = std::max(seen.largest_part, part.size());
      seen.mine.insert(part.begin(), part.end());
      for (const SampleId sample : part) keep(cache, sample);
    }
  }

  void keep(RawCache& cache, SampleId sample) {
    const CacheAccess access{sample, (*m_index)[sample].length, 0, 0};
    CacheLookup lookup;
    cache.lookup({&access, 1}, {&lookup, 1});
    const std::vector<std::byte> bytes(access.bytes);
    if (lookup.decision == CacheDecision::admit) CHECK(cache.store(sample, bytes).ok());
    if (lookup.decision == CacheDecision::hit) cache.release({&lookup, 1});
  }

  LossCase m_case;
  std::shared_ptr<const DatasetIndex> m_index;
  MeetingPlace m_place;
};

/// All samples that ranks trained in an epoch; none twice.
std::set<SampleId> trained_by(const std::vector<RankSeen>& seen, std::size_t epoch) {
  std::set<SampleId> all;
  std::size_t count = 0;
  for (const RankSeen& rank : seen) {
    if (rank.epochs.size() <= epoch) continue;
    count += rank.epochs[epoch].mine.size();
    all.insert(rank.epochs[epoch].mine.begin(), rank.epochs[epoch].mine.end());
  }
  CHECK(count == all.size());
  return all;
}

std::set<SampleId> held_by(const std::vector<RankSeen>& seen) {
  std::set<SampleId> held;
  for (const RankSeen& rank : seen) held.insert(rank.held.begin(), rank.held.end());
  return held;
}

/// `seen`: of all ranks, the victim among them.
void check_survivors(std::vector<RankSeen> seen, std::uint32_t victim, std::uint64_t epochs, PartitionMode mode) {
  const RankSeen lost = std::move(seen[victim]);
  seen.erase(seen.begin() + victim);
  const std::size_t lost_in = lost.epochs.empty() ? 0 : lost.epochs.size() - 1;
  for (const RankSeen& rank : seen) {
    CHECK((rank.end.ok() || rank.end.code == StatusCode::end));
    REQUIRE(rank.epochs.size() == epochs);
    CHECK(rank.account.lost.size() == 1);
    for (const PartitionedShare::Lost& named : rank.account.lost) {
      CHECK(named.rank == victim);
      CHECK(named.epoch == lost_in);
      CHECK(std::set<SampleId>(named.share.begin(), named.share.end()) == (lost.epochs.empty() ? std::set<SampleId>() : lost.epochs[lost_in].mine));
    }
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
      CHECK(rank.epochs[epoch].largest_part <= lost_test_batch);
      CHECK(rank.epochs[epoch].global == seen[0].epochs[epoch].global);
      CHECK(rank.epochs[epoch].ranks == seen.size() + (epoch < lost.epochs.size() ? 1 : 0));
    }
    if (lost.epochs.size() < epochs) CHECK(!rank.asked.contains(victim));
  }
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    std::set<SampleId> all = trained_by(seen, epoch);
    if (epoch < lost.epochs.size()) all.insert(lost.epochs[epoch].mine.begin(), lost.epochs[epoch].mine.end());
    CHECK(all.size() == lost_test_samples);
  }
  if (lost.epochs.size() != 1 || epochs == 1 || mode == PartitionMode::none) return;
  // It was lost before the directory stood, which is of what the others hold.
  for (const RankSeen& rank : seen) CHECK(held_by(seen).size() == lost_test_samples - rank.account.nowhere_samples);
}

}  // namespace

TEST_CASE("a rank may be lost at any meeting: it is named once, in the epoch that it had begun, and no part outgrows a batch") {
  const std::vector<std::vector<Bytes>> memories = {{9'000, 54'000}, {5'000, 54'000, 54'000}, {5'000, 18'000, 36'000, 54'000}};
  for (const PartitionMode mode : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality}) {
    for (const std::vector<Bytes>& capacities : memories) {
      Job whole({mode, capacities});
      const auto all = whole.run();
      for (std::size_t epoch = 0; epoch < lost_test_epochs; ++epoch) CHECK(trained_by(all, epoch).size() == lost_test_samples);
      for (std::uint64_t round = 1; round <= whole.rounds(); ++round) {
        const std::uint32_t step = testing::too_often ? whole.world() : 1;  // each rank in turn
        for (auto victim = static_cast<std::uint32_t>(round % step); victim < whole.world(); victim += step) {
          CAPTURE(partition_mode_name(mode));
          CAPTURE(capacities.size());
          CAPTURE(round);
          CAPTURE(victim);
          Job job({mode, capacities});
          check_survivors(job.run(victim, round), victim, lost_test_epochs, mode);
        }
      }
    }
  }
}

TEST_CASE("a rank that is lost once the others have had enough was lost in the last epoch that began") {
  for (const PartitionMode mode : {PartitionMode::none, PartitionMode::partitioned, PartitionMode::locality}) {
    for (const std::uint64_t epochs : {1, 2}) {
      const LossCase ends_early{mode, {5'000, 54'000, 54'000}, epochs};
      Job whole(ends_early);
      whole.run();
      for (std::uint64_t round = 1; round <= whole.rounds(); ++round) {
        CAPTURE(partition_mode_name(mode));
        CAPTURE(epochs);
        CAPTURE(round);
        Job job(ends_early);
        check_survivors(job.run(1, round), 1, epochs, mode);
      }
    }
  }
}

TEST_CASE("what a rank was to adopt is adopted by the others when it is lost over it") {
  const LossCase one_without_memory{PartitionMode::partitioned, {0, 60'000, 60'000, 60'000}};
  Job whole(one_without_memory);
  whole.run();
  std::uint64_t lost_over_it = 0;
  for (std::uint64_t round = 1; round <= whole.rounds(); ++round) {
    CAPTURE(round);
    Job job(one_without_memory);
    auto seen = job.run(3, round);
    if (seen[3].epochs.size() != 1 || seen[3].account.adopted_samples == 0) continue;
    ++lost_over_it;
    seen.pop_back();
    CHECK(held_by(seen).size() == lost_test_samples);
    CHECK(seen[0].account.nowhere_samples == 0);
  }
  CHECK(lost_over_it == 1);
}

}  // namespace dsanalyze
