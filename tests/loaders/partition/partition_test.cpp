#include "loaders/partition/partition.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>

#include "../loader_rig.hpp"
#include "partition_rig.hpp"

namespace dsanalyze {
namespace {

using testing::FakePeers;
using testing::FakeRules;
using testing::FileDataset;
using testing::Rig;

std::string content_of_file(int number) { return "sample " + std::to_string(number) + std::string(static_cast<std::size_t>(number), '.'); }

std::shared_ptr<const DatasetIndex> twelve_files(FileDataset& data) {
  for (int i = 0; i < 12; ++i) data.add(fmt::format("{:02}.txt", i), content_of_file(i));
  return data.index();
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct FetchedFromRanks {
  std::map<SampleId, std::vector<std::byte>> bytes;
  std::map<SampleId, FetchSource> source;
};

/// All samples once through the engine, each released.
FetchedFromRanks fetch_from_ranks(FetchEngine& engine, const DatasetIndex& index) {
  FetchedFromRanks fetched;
  SampleId next = 0;
  while (fetched.bytes.size() < index.size()) {
    while (next < index.size()) {
      const FetchRequest request{1000 + next, next, index[next].extent()};
      if (!engine.submit({&request, 1}).ok()) break;
      ++next;
    }
    std::array<FetchCompletion, 4> completions;
    const std::size_t count = engine.reap(completions, system_timing().clock->after(20));
    REQUIRE(count > 0);
    for (const FetchCompletion& completion : std::span(completions).first(count)) {
      CHECK(completion.status.ok());
      CHECK(completion.tag == 1000 + completion.sample);
      CHECK(fetched.bytes.emplace(completion.sample, std::vector(completion.bytes.begin(), completion.bytes.end())).second);
      fetched.source[completion.sample] = completion.source;
      engine.release({&completion.buffer, 1});
    }
  }
  return fetched;
}

Status well_served(std::uint32_t /*rank*/, SampleId sample, std::vector<std::byte>& bytes) {
  bytes = bytes_of(content_of_file(static_cast<int>(sample)));
  return {};
}

}  // namespace

TEST_CASE("a sample comes from the peer that the rules name, and from storage where they name none") {
  FileDataset data;
  const auto index = twelve_files(data);
  FakePeers peers(8, well_served);
  const FakeRules rules([](SampleId sample) { return sample % 3 == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{sample % 3}; });
  auto engine = make_partitioned_engine(index, make_thread_engine(index, Rig::fetch(4), system_timing()), peers, rules, system_timing());
  CHECK(engine->capacity() == 4);
  const FetchedFromRanks fetched = fetch_from_ranks(*engine, *index);
  Bytes of_storage = 0;
  for (SampleId sample = 0; sample < 12; ++sample) {
    CAPTURE(sample);
    CHECK(fetched.bytes.at(sample) == bytes_of(content_of_file(static_cast<int>(sample))));
    CHECK(fetched.source.at(sample) == (sample % 3 == 0 ? FetchSource::storage : FetchSource::peer));
    if (sample % 3 == 0) of_storage += (*index)[sample].length;
  }
  CHECK(engine->requested() == of_storage);
  CHECK(engine->redirected() == 0);
  CHECK(engine->free_places() == 4);
  CHECK(peers.unreleased() == 0);
}

TEST_CASE("what a peer does not give is asked of the next, and read from storage in the end: no sample is lost") {
  FileDataset data;
  const auto index = twelve_files(data);
  // Rank 1 is dead, rank 2 lacks what is even, rank 3 is right.
  FakePeers peers(8, [](std::uint32_t rank, SampleId sample, std::vector<std::byte>& bytes) -> Status {
    if (rank == 1) return {StatusCode::io, 0};
    if (rank == 2 && sample % 2 == 0) return {StatusCode::not_found, 0};
    return well_served(rank, sample, bytes);
  });
  const FakeRules rules([](SampleId sample) { return sample < 6 ? std::vector<std::uint32_t>{1, 2, 3} : std::vector<std::uint32_t>{1}; });
  auto engine = make_partitioned_engine(index, make_thread_engine(index, Rig::fetch(4), system_timing()), peers, rules, system_timing());
  const FetchedFromRanks fetched = fetch_from_ranks(*engine, *index);
  for (SampleId sample = 0; sample < 12; ++sample) {
    CAPTURE(sample);
    CHECK(fetched.bytes.at(sample) == bytes_of(content_of_file(static_cast<int>(sample))));
    CHECK(fetched.source.at(sample) == (sample < 6 ? FetchSource::peer : FetchSource::storage));
  }
  CHECK(peers.asked_for(2) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(peers.asked_for(3) == std::vector<std::uint32_t>{1, 2});
  CHECK(engine->redirected() == 3 * 2 + 3 + 6);
}

TEST_CASE("samples are read aside from storage while the loader has none in flight") {
  FileDataset data;
  const auto index = twelve_files(data);
  FakePeers peers(8, well_served);
  const FakeRules rules([](SampleId) { return std::vector<std::uint32_t>{1}; });
  auto engine = make_partitioned_engine(index, make_thread_engine(index, Rig::fetch(4), system_timing()), peers, rules, system_timing());
  std::map<SampleId, std::vector<std::byte>> taken;
  const std::vector<SampleId> wanted{0, 3, 4, 5, 7, 8, 9, 11};
  const auto take = [&taken](SampleId sample, std::span<const std::byte> bytes) { taken[sample] = {bytes.begin(), bytes.end()}; };
  REQUIRE(engine->read_aside(wanted, take, system_timing().clock->after(20)).ok());
  CHECK(taken.size() == wanted.size());
  for (const SampleId sample : wanted) CHECK(taken.at(sample) == bytes_of(content_of_file(static_cast<int>(sample))));
  CHECK(peers.asked_for(0).empty());
  CHECK(engine->free_places() == 4);
  std::filesystem::remove(data.folder().root() / "03.txt");
  taken.clear();
  REQUIRE(engine->read_aside(wanted, take, system_timing().clock->after(20)).ok());
  CHECK(taken.size() == wanted.size() - 1);
}

TEST_CASE("an emulated link carries one sample after another, and not faster than it is") {
  FileDataset data;
  const auto index = twelve_files(data);
  FakePeers peers(16, well_served);
  constexpr double bytes_per_second = 2000;
  const auto link = make_emulated_network(peers, bytes_per_second, system_timing());
  const FakeRules rules([](SampleId) { return std::vector<std::uint32_t>{1}; });
  auto engine = make_partitioned_engine(index, make_thread_engine(index, Rig::fetch(12), system_timing()), *link, rules, system_timing());
  const Nanoseconds begun = system_timing().clock->now();
  const FetchedFromRanks fetched = fetch_from_ranks(*engine, *index);
  CHECK(fetched.bytes.at(7) == bytes_of(content_of_file(7)));
  CHECK(fetched.source.at(7) == FetchSource::peer);
  CHECK(to_seconds(system_timing().clock->now() - begun) >= 0.98 * static_cast<double>(index->bytes()) / bytes_per_second);
  CHECK(peers.unreleased() == 0);
}

TEST_CASE("what waits on an emulated link comes at once when it is cancelled") {
  FileDataset data;
  const auto index = twelve_files(data);
  FakePeers peers(16, well_served);
  const auto link = make_emulated_network(peers, 1, system_timing());  // a byte a second
  const FakeRules rules([](SampleId) { return std::vector<std::uint32_t>{1}; });
  auto engine = make_partitioned_engine(index, make_thread_engine(index, Rig::fetch(12), system_timing()), *link, rules, system_timing());
  const FetchRequest request{7, 7, (*index)[7].extent()};
  REQUIRE(engine->submit({&request, 1}).ok());
  std::array<FetchCompletion, 1> completions;
  std::size_t count = 0;
  while (count == 0) {
    engine->cancel();
    count = engine->reap(completions, system_timing().clock->after(0.01));
  }
  engine->release({&completions[0].buffer, 1});
  CHECK(engine->free_places() == 12);
}

TEST_CASE("a partitioned cache admits what the rules keep here, and nothing else") {
  FileDataset data;
  const auto index = twelve_files(data);
  CacheOptions options{CacheKind::minio, index->bytes(), index->size(), index->bytes(), 64, 64};
  options.least_priority = partition_priority;
  ServerHolder server(options, system_timing());
  const FakeRules rules([](SampleId) { return std::vector<std::uint32_t>{}; }, {1, 4, 7});
  const auto cache = make_partitioned_cache(server.cache(), rules);
  std::vector<CacheAccess> accesses;
  for (SampleId sample = 0; sample < 12; ++sample) accesses.push_back({sample, (*index)[sample].length, 0, 0});
  std::vector<CacheLookup> lookups(12);
  cache->lookup(accesses, lookups);
  for (SampleId sample = 0; sample < 12; ++sample) {
    CAPTURE(sample);
    const bool kept = sample % 3 == 1 && sample < 10;
    CHECK(lookups[sample].decision == (kept ? CacheDecision::admit : CacheDecision::bypass));
    CHECK(server.held().find(sample).empty());
    if (kept) CHECK(cache->store(sample, bytes_of(content_of_file(static_cast<int>(sample)))).ok());
  }
  cache->lookup(accesses, lookups);
  for (SampleId sample = 0; sample < 12; ++sample) {
    CAPTURE(sample);
    const bool kept = sample % 3 == 1 && sample < 10;
    CHECK((lookups[sample].decision == CacheDecision::hit) == kept);
    CHECK(std::ranges::equal(server.held().find(sample), kept ? bytes_of(content_of_file(static_cast<int>(sample))) : std::vector<std::byte>{}));
  }
  CHECK(server.held().find(12).empty());
  CHECK(cache->totals().items == 3);
}

TEST_CASE("a server without MinIO holds nothing for others") {
  const ServerHolder server({CacheKind::none, 0, 12, 1000, 64, 64}, system_timing());
  CHECK(server.held().find(0).empty());
}

}  // namespace dsanalyze
