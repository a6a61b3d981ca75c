#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../loader_rig.hpp"
#include "loaders/partition/partitioned_share.hpp"
#include "partition_rig.hpp"

namespace dsanalyze::testing {

/// Where the ranks of a test, which are threads, meet.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::uint32_t world) : alive(world), m_arrived(world), m_said(world) {}

  /// All that are alive come, each with its bytes; false once the rank itself is lost.
  bool meet(std::uint32_t rank, std::span<const std::byte> mine,
            const std::function<void(const AliveRanks&, std::span<const std::vector<std::byte>>)>& look) {
    std::unique_lock lock(m_mutex);
    const std::uint64_t round = m_arrived[rank] + 1;
    if (const auto dying = m_dying.find(rank); dying != m_dying.end() && round >= dying->second) alive.lose(rank);
    m_changed.notify_all();
    if (!alive.alive(rank)) return false;
    m_arrived[rank] = round;
    m_said[rank][round] = {mine.begin(), mine.end()};
    m_changed.notify_all();
    m_changed.wait(lock, [&] {
      if (!alive.alive(rank)) return true;
      for (std::uint32_t other = 0; other < alive.ranks(); ++other)
        if (alive.alive(other) && m_arrived[other] < round) return false;
      return true;
    });
    if (!alive.alive(rank)) return false;
    const AliveRanks& together = m_met.try_emplace(round, alive).first->second;  // who was alive when the first one went on: the same for all
    std::vector<std::vector<std::byte>> said;
    for (std::uint32_t other = 0; other < alive.ranks(); ++other)
      said.push_back(together.alive(other) ? m_said[other][round] : std::vector<std::byte>(mine.size()));
    look(together, said);
    return true;
  }
  void lose(std::uint32_t rank) {
    const std::scoped_lock lock(m_mutex);
    alive.lose(rank);
    m_changed.notify_all();
  }
  /// The rank will be lost when it should come to that meeting, counted from 1.
  void lose_at(std::uint32_t rank, std::uint64_t round) {
    const std::scoped_lock lock(m_mutex);
    m_dying[rank] = round;
  }
  /// To how many meetings the rank came.
  [[nodiscard]] std::uint64_t rounds(std::uint32_t rank) {
    const std::scoped_lock lock(m_mutex);
    return m_arrived[rank];
  }
  [[nodiscard]] bool is_alive(std::uint32_t rank) {
    const std::scoped_lock lock(m_mutex);
    return alive.alive(rank);
  }

 private:
  std::mutex m_mutex;
  std::condition_variable m_changed;
  AliveRanks alive;
  std::vector<std::uint64_t> m_arrived;
  std::vector<std::map<std::uint64_t, std::vector<std::byte>>> m_said;
  std::map<std::uint64_t, AliveRanks> m_met;       ///< by round
  std::map<std::uint32_t, std::uint64_t> m_dying;  ///< by rank, the round that it does not come to
};

class MetRanks final : public ElasticCollective {
 public:
  MetRanks(MeetingPlace& place, std::uint32_t rank, std::uint32_t world) : m_place(place), m_rank(rank), m_world(world), m_agreed(world) {}
  [[nodiscard]] int rank() const override { return static_cast<int>(m_rank); }
  [[nodiscard]] int world() const override { return static_cast<int>(m_world); }
  Status barrier(Deadline) override {
    return met({}, [](const auto&, const auto&) {});
  }
  Status sum(std::span<double>, Deadline) override { return {StatusCode::unsupported, 0}; }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline) override {
    bool all_came = true;
    const Status status = met(mine, [&](const AliveRanks& now, std::span<const std::vector<std::byte>> said) {
      all_came = now == m_agreed;
      for (std::size_t i = 0; i < said.size(); ++i) std::ranges::copy(said[i], all.begin() + static_cast<std::ptrdiff_t>(i * mine.size()));
    });
    return status.ok() && !all_came ? Status{StatusCode::io, 0} : status;
  }
  Status agree(AliveRanks& alive, Deadline) override {
    return met({}, [&](const AliveRanks& now, const auto&) { alive = m_agreed = now; });
  }

 private:
  template <typename Look>
  Status met(std::span<const std::byte> mine, const Look& look) {
    return m_place.meet(m_rank, mine, look) ? Status{} : Status{StatusCode::io, 0};
  }
  MeetingPlace& m_place;
  std::uint32_t m_rank;
  std::uint32_t m_world;
  AliveRanks m_agreed;  ///< on last
};

/// Several servers of one job in one process: each with a cache, storage, loader and share of its own.
class RanksRig {
 public:
  struct Spec {
    std::shared_ptr<const DatasetIndex> index;
    std::vector<Bytes> capacities;  ///< by rank
    PartitionMode mode = PartitionMode::partitioned;
    std::uint32_t batch = 4;
    std::uint64_t epochs = 3;
    BalanceFrom balance = BalanceFrom::peers;
  };
  explicit RanksRig(Spec spec) : m_spec(std::move(spec)), m_place(world()) {
    for (std::uint32_t rank = 0; rank < world(); ++rank) m_ranks.push_back(std::make_unique<Rank>(*this, rank));
  }
  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(m_spec.capacities.size()); }

  struct Result {
    Seen seen;
    std::vector<EpochTotals> epochs;
    PartitionedShare::Account account;
    std::uint64_t redirected = 0;
  };
  /// Runs all ranks to their ends; `lost` dies once it has taken so many batches.
  std::vector<Result> run(std::optional<std::uint32_t> lost = std::nullopt, std::uint64_t after_batches = 0) {
    std::vector<Result> results(world());
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < world(); ++rank) {
        threads.emplace_back([&, rank] {
          Rank& mine = *m_ranks[rank];
          results[rank].seen = consume(*mine.loader, rank == lost ? after_batches : UINT64_MAX);
          if (rank == lost) m_place.lose(rank);
          mine.loader->stop();
          results[rank].epochs = mine.loader->epochs();
          if (AliveRanks met(world()); rank != lost && mine.ranks.agree(met, system_timing().clock->after(60)).ok()) mine.share.ended(met);
          results[rank].account = mine.share.account();
          results[rank].redirected = mine.engine->redirected();
        });
      }
    }
    return results;
  }
  [[nodiscard]] const HeldSamples& held(std::uint32_t rank) const { return m_ranks[rank]->server.held(); }

 private:
  struct Rank {
    Rank(RanksRig& rig, std::uint32_t number)
        : server(options(rig.m_spec, number), system_timing()),
          ranks(rig.m_place, number, rig.world()),
          peers(64,
                [&rig](std::uint32_t other, SampleId sample, std::vector<std::byte>& bytes) -> Status {
                  if (!rig.m_place.is_alive(other)) return {StatusCode::io, 0};
                  const auto found = rig.held(other).find(sample);
                  if (found.empty()) return {StatusCode::not_found, 0};
                  bytes.assign(found.begin(), found.end());
                  return {};
                }),
          share({rig.m_spec.index, &server.cache(), &server.held(), &ranks, system_timing()},
                {.mode = rig.m_spec.mode, .balance = rig.m_spec.balance, .rank_batch = rig.m_spec.batch, .seed = 1, .patience_seconds = 60}),
          engine(make_partitioned_engine(rig.m_spec.index, make_null_engine(Rig::fetch(16), system_timing()), peers, share, system_timing())),
          cache(make_partitioned_cache(server.cache(), share)),
          prep(no_prep()) {
      share.read_with(*engine);
      LoaderOptions loading = loader_options(rig.m_spec.batch, rig.m_spec.epochs);
      loading.workers = 1;
      loading.start.samples = rig.m_spec.index->size();
      loader = std::make_unique<Loader>(Loader::Parts{.index = rig.m_spec.index,
                                                      .engine = engine.get(),
                                                      .cache = cache.get(),
                                                      .prep = prep.get(),
                                                      .storage_bytes = {},
                                                      .timing = system_timing(),
                                                      .share = &share},
                                        loading);
    }
    static CacheOptions options(const Spec& spec, std::uint32_t number) {
      CacheOptions cache{CacheKind::minio, spec.capacities[number], spec.index->size(), spec.index->bytes(), largest_sample(*spec.index), 4096};
      cache.least_priority = partition_priority;
      return cache;
    }
    ServerHolder server;
    MetRanks ranks;
    FakePeers peers;
    PartitionedShare share;
    std::unique_ptr<PartitionedEngine> engine;
    std::unique_ptr<RawCache> cache;
    std::unique_ptr<PrepFactory> prep;
    std::unique_ptr<Loader> loader;
  };

  Spec m_spec;
  MeetingPlace m_place;
  std::vector<std::unique_ptr<Rank>> m_ranks;
};

}  // namespace dsanalyze::testing
