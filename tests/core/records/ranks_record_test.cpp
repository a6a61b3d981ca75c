#include "core/records/ranks_record.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "../sample_results.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using nlohmann::json;

namespace {

json document_of_ranks() { return json::parse(to_json(test::full_profile())); }

/// A document that names the place, where something is wrong there.
void check_named(const json& document, const std::string& place) {
  CAPTURE(place);
  CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(("p.json: " + place + ":").c_str()), UsageError);
}

}  // namespace

TEST_CASE("ranks read back with what each did, N and what they had in common") {
  const ProfileResult read = profile_from_json(to_json(test::full_profile()), "p.json");
  REQUIRE(read.ranks.size() == 3);
  CHECK(read.ranks[2].end == JobEnd::lost);
  CHECK_FALSE(read.ranks[2].storage_bytes.has_value());
  CHECK(read.ranks[1].host == "node-b");
  CHECK(read.ranks[1].peer_bytes == 1320);
  CHECK(read.ranks[1].longest_stall_seconds == 0.0125);
  CHECK(read.ranks[1].peak_memory_bytes == 4096);
  CHECK(read.ranks[1].epochs[1].digest == "35-bb");
  CHECK(read.ranks[1].epochs[1].end_seconds == 21.75);
  CHECK(read.ranks[1].epochs[0].storage_bytes == 4096);
  CHECK(read.ranks[1].training->by_epoch.front().loss == 2.3);
  CHECK_FALSE(read.ranks[0].training.has_value());
  CHECK(read.partition->balance_traffic == 0.034);
  REQUIRE(read.partition->lost.size() == 2);
  CHECK(read.partition->lost[0].untrained == std::vector<SampleId>{3, 4, 17, 40});
  CHECK(read.partition->lost[1].untrained.empty());
  CHECK(read.network->samples_per_s == 45'454.5);
  CHECK(read.run("full")->epochs[1].peer_hits == 1);
  CHECK(read.run("full")->epochs[1].peer_bytes == 110);
  CHECK(read.settings.world == 3);
  CHECK(read.settings.partition == PartitionMode::locality);
  CHECK(read.settings.balance_from == BalanceFrom::storage);
  CHECK(read.settings.storage_scope == StorageScope::shared);
  CHECK(read.settings.network == Seam::emulated);
  CHECK(read.settings.network_bytes_per_s == 5e9);
}

TEST_CASE("one rank's record travels by itself, unknown fields are refused there, and a name that is not UTF-8 does no harm") {
  RankRecord rank = test::full_ranks()[1];
  const std::string text = to_json(rank);
  CHECK(to_json(rank_from_json(text, "rank 1")) == text);
  json more = json::parse(text);
  more["rack"] = 3;
  CHECK_THROWS_WITH_AS(rank_from_json(more.dump(), "rank 1"), doctest::Contains("rack"), UsageError);
  rank.host = "node-\xff\x1b[2J";
  CHECK(rank_from_json(to_json(rank), "rank 1").host == "node-\xef\xbf\xbd\x1b[2J");
}

TEST_CASE("a profile of one server has no keys of ranks, and one from before there were ranks is of one") {
  ProfileResult alone = test::full_profile();
  alone.ranks.clear();
  alone.partition.reset();
  alone.network.reset();
  const json least = json::parse(to_json(alone));
  for (const char* key : {"partition", "ranks"}) CHECK_FALSE(least.contains(key));
  CHECK_FALSE(least["rates"].contains("N"));
  for (const char* key : {"peer_hits", "peer_bytes"}) CHECK_FALSE(least["runs"][1]["epochs"][0].contains(key));

  json older = least;
  for (const char* key : {"world", "partition", "balance_from", "storage_scope", "network", "network_bytes_per_s"}) older["settings"].erase(key);
  const ProfileResult read = profile_from_json(older.dump(), "p.json");
  CHECK(read.ranks.empty());
  CHECK_FALSE(read.partition.has_value());
  CHECK_FALSE(read.network.has_value());
  CHECK(read.run("full")->epochs[1].peer_hits == 0);
  CHECK(read.settings.world == 1);
  CHECK(read.settings.partition == PartitionMode::none);
  CHECK(read.settings.balance_from == BalanceFrom::peers);
  CHECK(read.settings.storage_scope == StorageScope::server);
  CHECK(read.settings.network == Seam::real);
  CHECK(read.settings.network_bytes_per_s == 0);
}

TEST_CASE("wrong fields of ranks are refused by their place") {
  const std::vector<std::pair<std::string, json>> wrongs = {
      {"/settings/world", "4"},
      {"/settings/world", -1},
      {"/settings/partition", "shared"},
      {"/settings/balance_from", "disk"},
      {"/settings/storage_scope", 2},
      {"/settings/network", "null"},
      {"/settings/network", true},
      {"/settings/network_bytes_per_s", -1},
      {"/rates/N/samples_per_s", 0},
      {"/runs/1/epochs/0/peer_hits", -1},
      {"/runs/1/epochs/0/peer_bytes", 0.5},
      {"/ranks", 2},
      {"/ranks/0", nullptr},
      {"/ranks/0/rank", -1},
      {"/ranks/0/rank", 4096},
      {"/ranks/0/host", 5},
      {"/ranks/0/end", "died"},
      {"/ranks/1/peer_hits", "many"},
      {"/ranks/1/stall_fraction", 1.5},
      {"/ranks/1/ci95_samples_per_s/low", 1e9},
      {"/ranks/1/epochs/0/digest", 5},
      {"/ranks/1/epochs/1/peer_bytes", -1},
      {"/ranks/1/training/precision", "half"},
      {"/partition", 1},
      {"/partition/partition", "all"},
      {"/partition/balance_from", "disk"},
      {"/partition/storage_scope", ""},
      {"/partition/world", 0},
      {"/partition/world", 4097},
      {"/partition/ranks_at_end", 4},
      {"/partition/nowhere_bytes", -1},
      {"/partition/balance_traffic", 1.01},
      {"/partition/lost", "2"},
      {"/partition/lost/0/rank", 4096},
      {"/partition/lost/0/untrained_samples", 3},
  };
  for (const auto& [pointer, value] : wrongs) {
    json document = document_of_ranks();
    document[json::json_pointer(pointer)] = value;
    check_named(document, pointer);
  }
  for (const char* place : {"/ranks/0", "/ranks/1/epochs/0", "/partition", "/partition/lost/0"}) {
    const json object = document_of_ranks()[json::json_pointer(place)];
    for (const auto& item : object.items()) {
      if (item.key() == "storage_bytes") continue;
      json document = document_of_ranks();
      document[json::json_pointer(place)].erase(item.key());
      check_named(document, std::string(place) + "/" + item.key());
    }
  }
}

TEST_CASE("untrained samples are one text of ascending numbers, and nothing else is") {
  const json document = document_of_ranks();
  CHECK(document["partition"]["lost"][0]["untrained"] == "3,4,17,40");
  CHECK(document["partition"]["lost"][0]["untrained_samples"] == 4);
  CHECK(document["partition"]["lost"][1]["untrained"] == "");
  for (const std::string text : {",", "3,", ",3", "3,,4", "4,3", "3,3", "3, 4", " 3", "-1", "+3", "3-5", "0x3", "03", "00", "4294967296",
                                 "99999999999999999999", "3;4", "3,4,17,40\n", "all"}) {
    json wrong = document;
    wrong["partition"]["lost"][0]["untrained"] = text;
    CAPTURE(text);
    check_named(wrong, "/partition/lost/0/untrained");
  }
  json most = document;
  most["partition"]["lost"][0]["untrained"] = "0,4294967295";
  most["partition"]["lost"][0]["untrained_samples"] = 2;
  CHECK(profile_from_json(most.dump(), "p.json").partition->lost[0].untrained == std::vector<SampleId>{0, 4'294'967'295});
}

TEST_CASE("what a lost rank leaves takes no line a sample") {
  ProfileResult result = test::full_profile();
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  const auto before = lines(to_json(result));
  for (SampleId sample = 100'000; sample < 101'000; ++sample) result.partition->lost[0].untrained.push_back(sample);
  CHECK(lines(to_json(result)) == before);
}

TEST_CASE("a rank's cache holds a share of the dataset, whatever share of its samples is found there") {
  ProfileResult result;
  CHECK_FALSE(result.cache_fraction().has_value());
  result.fetch.emplace().cache_fraction = 0.9;
  CHECK(result.cache_fraction() == 0.9);
  result.ranks = test::full_ranks();
  result.dataset.subset_bytes = 7480;
  CHECK(result.cache_fraction() == 0.25);  // the lost one holds nothing that is known
  result.settings.cache = CacheKind::lru;
  CHECK(result.cache_fraction() == 0.9);
  result.settings.cache = CacheKind::minio;
  result.dataset.subset_bytes = 10;
  CHECK(result.cache_fraction() == 1);
}
