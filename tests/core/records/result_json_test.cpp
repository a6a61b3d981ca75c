#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "../sample_results.hpp"
#include "base/error.hpp"
#include "core/records/result.hpp"

using namespace dsanalyze;
using nlohmann::json;

namespace {

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

json full_document() { return json::parse(to_json(test::full_profile())); }

void check_refused(const json& document, const std::string& place) {
  CAPTURE(place);
  CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(("p.json: " + place).c_str()), UsageError);
}

}  // namespace

TEST_CASE("what a run fetched is its epochs' and what lies beyond them, which is not known where an epoch does not say or is left out") {
  RunRecord run;
  run.requested_bytes = 30;
  run.cache_hits = 9;
  run.cache_misses = 7;
  EpochRecord epoch;
  epoch.requested_bytes = 10;
  epoch.cache_hits = 4;
  epoch.cache_misses = 3;
  run.epochs = {epoch, epoch};
  run.epochs[1].epoch = 1;
  const auto beyond = fetched_beyond_epochs(run);
  REQUIRE(beyond.has_value());
  CHECK(beyond->requested_bytes == 10);
  CHECK(beyond->cache_hits == 1);
  CHECK(beyond->cache_misses == 1);
  run.epochs[1].epoch = 2;
  CHECK_FALSE(fetched_beyond_epochs(run).has_value());
  run.epochs[1].epoch = 1;
  run.epochs[1].cache_hits.reset();
  CHECK_FALSE(fetched_beyond_epochs(run).has_value());
  run.epochs[1].cache_hits = 6;
  CHECK_FALSE(fetched_beyond_epochs(run).has_value());
}

TEST_CASE("a profile has the documented keys in the documented order") {
  const auto document = nlohmann::ordered_json::parse(to_json(test::full_profile()));
  CHECK(keys_of(document) == std::vector<std::string>{"schema",     "tool",     "started_utc",   "host",     "settings", "dataset",
                                                      "rates",      "curves",   "distributions", "order",    "runs",     "sharing",
                                                      "jobs",       "trials",   "partition",     "ranks",    "stalls",   "attained",
                                                      "bottleneck", "observed", "advice",        "findings", "trusted"});
  CHECK(document["schema"] == "dsanalyze.profile/1");
  CHECK(keys_of(document["rates"]) == std::vector<std::string>{"G", "P", "C", "S", "N", "F"});
  CHECK(document["host"]["storage"]["device"] == "vda");
  CHECK(document["host"]["accelerator"]["description"] == "none");
  CHECK(document["rates"]["F"]["cache_fraction"] == 0.35);
  CHECK_FALSE(document["rates"]["P"].contains("cache_fraction"));
  CHECK(document["rates"]["S"]["ci95_samples_per_s"]["low"].get<double>() < 4698.5);
  CHECK(document["curves"]["P_by_cores"][1]["cores"] == 2);
  CHECK(document["runs"][0]["storage_bytes"].is_null());
  CHECK(document["runs"][1]["epochs"][0]["storage_bytes"] == 77);
  CHECK(document["settings"]["cache_size"]["fraction"] == 0.35);
  CHECK(document["settings"]["subset"]["bytes"] == 1 << 30);
}

TEST_CASE("a profile reads back equal, to the last digit") {
  for (const ProfileResult& result : {test::full_profile(), test::least_profile()}) {
    const std::string text = to_json(result);
    CHECK(to_json(profile_from_json(text, "p.json")) == text);
  }
  const ProfileResult read = profile_from_json(to_json(test::full_profile()), "p.json");
  REQUIRE(read.run("full") != nullptr);
  CHECK(read.run("full")->samples_per_s == 1234.56789012345678);
  CHECK(read.run("cached") == nullptr);
  CHECK(read.settings.seed == 0xffff'ffff'ffff'fffe);
  CHECK(read.settings.cache == CacheKind::lru);
  CHECK_FALSE(profile_from_json(to_json(test::least_profile()), "p.json").ingestion.has_value());
}

TEST_CASE("fields that a later version added are ignored") {
  json document = full_document();
  document["racks"] = json::array({1, 2});
  document["sharing"]["transport"] = "wire";
  document["partition"]["links"] = 12;
  document["ranks"][0]["rack"] = "b";
  document["jobs"][0]["node"] = 3;
  document["rates"]["T"] = {{"samples_per_s", 1}};
  document["settings"]["racks"] = 2;
  CHECK(to_json(profile_from_json(document.dump(), "p.json")) == to_json(test::full_profile()));
}

TEST_CASE("what an older version measured and this one does not is ignored") {
  json document = full_document();
  document["on_fewer_cores"] = {{"cores", 1}, {"samples_per_s", 100}, {"ci95_samples_per_s", {{"low", 99}, {"high", 101}}}};
  json point = {
      {"workers", 2}, {"samples_per_s", 200}, {"ci95_samples_per_s", {{"low", 198}, {"high", 202}}}, {"main_thread_seconds_per_sample", nullptr}};
  point["on_fewer_cores"] = document["on_fewer_cores"];
  document["curves"]["P_by_workers"] = json::array({point});
  const ProfileResult read = profile_from_json(document.dump(), "p.json");
  REQUIRE(read.prep_by_workers.size() == 1);
  CHECK(read.prep_by_workers[0].samples_per_s == 200);
  CHECK(to_json(read).find("on_fewer_cores") == std::string::npos);
}

TEST_CASE("a profile of another schema is refused") {
  json document = full_document();
  document["schema"] = "dsanalyze.profile/2";
  check_refused(document, "/schema");
  document.erase("schema");
  check_refused(document, "/schema");
}

TEST_CASE("a profile without rates, or with rates that cannot be, is refused by the field's name") {
  json document = full_document();
  document.erase("rates");
  check_refused(document, "/rates");
  document["rates"] = {{"P", nullptr}};
  document["runs"] = nlohmann::ordered_json::array();
  check_refused(document, "/rates");
  for (const json& wrong : {json(0), json(-1), json(nullptr), json("fast"), json(true)}) {
    document = full_document();
    document["rates"]["S"]["samples_per_s"] = wrong;
    CAPTURE(wrong.dump());
    check_refused(document, "/rates/S/samples_per_s");
  }
  document = full_document();
  document["rates"]["S"].erase("samples_per_s");
  check_refused(document, "/rates/S/samples_per_s");
}

TEST_CASE("a profile that contradicts itself is refused") {
  json document = full_document();
  document["rates"]["P"]["samples_per_s"] = 1;
  check_refused(document, "/rates/P/samples_per_s");
  document = full_document();
  document["rates"]["P"]["ci95_samples_per_s"] = {{"low", 2}, {"high", 1}};
  check_refused(document, "/rates/P/ci95_samples_per_s/low");
  document = full_document();
  document["rates"]["F"]["cache_fraction"] = 1.5;
  check_refused(document, "/rates/F/cache_fraction");
  document = full_document();
  document["dataset"]["bytes"] = 99;
  check_refused(document, "/dataset/bytes");
}

TEST_CASE("when a profile began, its waits and its utilisation may be missing, but not be nonsense") {
  json document = full_document();
  CHECK(document["started_utc"] == "2026-11-20T21:05:33Z");
  CHECK(document["runs"][1]["prep_operators"][0]["seconds_per_sample"] == 0.0021);
  CHECK(document["runs"][1]["stall_seconds"]["count"] == 40);
  CHECK(document["runs"][1]["mlperf_storage_au"]["value"] == 42.5);
  CHECK_FALSE(document["runs"][0].contains("mlperf_storage_au"));
  document.erase("started_utc");
  document["runs"][1].erase("stall_seconds");
  document["runs"][1].erase("mlperf_storage_au");
  document["runs"][1]["prep_operators"][0].erase("seconds_per_sample");
  const ProfileResult older = profile_from_json(document.dump(), "p.json");
  CHECK(older.started_utc.empty());
  CHECK_FALSE(older.run("full")->stall_seconds.has_value());
  CHECK_FALSE(older.run("full")->mlperf_storage_au.has_value());
  CHECK_FALSE(older.run("full")->prep_operators.front().seconds_per_sample.has_value());

  document = full_document();
  document["started_utc"] = "yesterday";
  check_refused(document, "/started_utc");
  document = full_document();
  document["runs"][1]["mlperf_storage_au"]["value"] = -1;
  check_refused(document, "/runs/1/mlperf_storage_au/value");
  document = full_document();
  CHECK(document["distributions"]["sample_bytes"]["deviation"] == 66.5);
  CHECK(document["distributions"]["prep_seconds"]["deviation"].is_null());
  document["distributions"]["sample_bytes"]["deviation"] = -1;
  check_refused(document, "/distributions/sample_bytes/deviation");
  document["distributions"]["sample_bytes"].erase("deviation");  // as older results
  document["runs"][1]["stall_seconds"]["quantiles"] = {3, 2, 1};
  check_refused(document, "/runs/1/stall_seconds/quantiles");
}

TEST_CASE("a profile of one job has no keys of several, and one from before there were jobs is of one") {
  const json least = json::parse(to_json(test::least_profile()));
  for (const char* key : {"sharing", "jobs", "trials"}) CHECK_FALSE(least.contains(key));
  json older = full_document();
  for (const char* key : {"sharing", "jobs", "trials"}) older.erase(key);
  for (const char* key : {"jobs", "share", "producers", "batch_copy", "trials", "stop_at_epochs"}) older["settings"].erase(key);
  const ProfileResult read = profile_from_json(older.dump(), "p.json");
  CHECK(read.jobs.empty());
  CHECK_FALSE(read.sharing.has_value());
  CHECK(read.settings.jobs == 1);
  CHECK(read.settings.share == JobSharing::none);
  CHECK(read.settings.producers == Producers::jobs);
  CHECK(read.settings.batch_copy == BatchCopy::none);
  CHECK(read.settings.trials == 0);
  CHECK_FALSE(read.settings.stop_at_epochs.has_value());
}

TEST_CASE("several jobs read back with what each did") {
  const ProfileResult read = profile_from_json(to_json(test::full_profile()), "p.json");
  REQUIRE(read.jobs.size() == 2);
  CHECK(read.jobs[0].end == JobEnd::died);
  CHECK_FALSE(read.jobs[0].storage_bytes.has_value());
  CHECK(read.jobs[1].samples_per_s == 617.25);
  CHECK(read.jobs[1].epochs[1].digest == "50-aa");
  CHECK(read.jobs[1].training->by_epoch.front().loss == 2.3);
  CHECK(read.jobs[1].trial == 7);
  CHECK(read.sharing->handover_seconds_per_batch == 0.000'014);
  CHECK(read.trials[1].end == JobEnd::stopped);
  CHECK(read.settings.stop_at_epochs == 2);
}

TEST_CASE("wrong fields of several jobs are refused by their place") {
  const std::vector<std::pair<std::string, json>> wrongs = {
      {"/settings/share", "unified-producer"},
      {"/settings/producers", "all"},
      {"/settings/batch_copy", true},
      {"/settings/jobs", "8"},
      {"/settings/stop_at_epochs", -1},
      {"/jobs", 2},
      {"/jobs/0", nullptr},
      {"/jobs/0/end", "well"},
      {"/jobs/0/job", -1},
      {"/jobs/1/stall_fraction", 1.5},
      {"/jobs/1/ci95_samples_per_s/low", 1e9},
      {"/jobs/1/epochs/0/digest", 5},
      {"/jobs/1/epochs/0/samples", 0.5},
      {"/jobs/1/training/precision", "half"},
      {"/sharing", 1},
      {"/sharing/share", "all"},
      {"/sharing/staged_bytes", -1},
      {"/sharing/jobs", "two"},
      {"/sharing/handover_seconds_per_batch", -1},
      {"/trials/0/judged_by", "taste"},
      {"/trials/1/end", ""},
  };
  for (const auto& wrong : wrongs) {
    const std::string& pointer = wrong.first;
    json document = full_document();
    document[json::json_pointer(pointer)] = wrong.second;
    CAPTURE(pointer);
    CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(pointer.c_str()), UsageError);
  }
  for (const char* place : {"/jobs/0", "/jobs/1/epochs/0", "/sharing", "/trials/0"}) {
    const json object = full_document()[json::json_pointer(place)];
    for (const auto& item : object.items()) {
      if (item.key() == "storage_bytes" || item.key() == "handover_seconds_per_batch") continue;
      const bool fetched = item.key() == "cache_hits" || item.key() == "cache_misses" || item.key() == "requested_bytes";
      if (fetched && std::string_view(place).ends_with("/epochs/0")) continue;  // older records lack them
      json document = full_document();
      document[json::json_pointer(place)].erase(item.key());
      CAPTURE(item.key());
      CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(item.key().c_str()), UsageError);
    }
  }
}

TEST_CASE("jobs that drew dependently read back with their speeds, what was drawn and what it saved; wrong fields are refused by their place") {
  const std::string text = to_json(test::dependent_profile());
  const ProfileResult read = profile_from_json(text, "p.json");
  CHECK(to_json(read) == text);
  REQUIRE(read.sharing->dependent.has_value());
  CHECK(read.sharing->dependent->samples_from_store == 40);
  CHECK(read.sharing->dependent->policy == "lru");
  REQUIRE(read.sharing->fastest.has_value());
  CHECK(read.sharing->fastest->job == 1);
  CHECK(read.sharing->fastest->independent_per_sample == 2.53);
  CHECK(read.jobs[1].speed == 0.45);
  CHECK_FALSE(read.jobs[0].speed.has_value());
  CHECK(read.settings.job_speeds == std::vector<double>{1, 0.6, 0.45, 0.28});
  CHECK(read.settings.staging_size->fraction == 0.1);
  CHECK(read.settings.staging_policy == StagingPolicy::lru);
  const std::vector<std::pair<std::string, json>> wrongs = {{"/sharing/dependent/policy", "fifo"},
                                                            {"/sharing/dependent/samples_drawn", -1},
                                                            {"/sharing/fastest/preparations_per_sample", "many"},
                                                            {"/jobs/1/speed", -0.5},
                                                            {"/settings/job_speeds", 0.5},
                                                            {"/settings/job_speeds/1", "fast"},
                                                            {"/settings/staging_policy", "fifo"}};
  for (const auto& wrong : wrongs) {
    const std::string& pointer = wrong.first;
    json document = json::parse(text);
    document[json::json_pointer(pointer)] = wrong.second;
    CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(pointer.c_str()), UsageError);
  }
  for (const char* key : {"samples_drawn", "policy", "store_bytes"}) {
    json document = json::parse(text);
    document["sharing"]["dependent"].erase(key);
    CHECK_THROWS_WITH_AS(profile_from_json(document.dump(), "p.json"), doctest::Contains(key), UsageError);
  }
}

TEST_CASE("of an epoch of several jobs, zeros for hits and misses in an older record are read as not known, and null is") {
  const json::json_pointer place("/runs/1/epochs/0");
  json document = full_document();
  REQUIRE(document[place]["samples"] > 0);
  document[place]["cache_hits"] = document[place]["cache_misses"] = document[place]["requested_bytes"] = 0;
  EpochRecord epoch = profile_from_json(document.dump(), "p.json").runs.at(1).epochs.at(0);
  CHECK_FALSE(epoch.cache_hits.has_value());
  CHECK_FALSE(epoch.cache_misses.has_value());
  CHECK_FALSE(epoch.requested_bytes.has_value());
  document[place]["cache_hits"] = nullptr;
  document[place]["cache_misses"] = 3;
  epoch = profile_from_json(document.dump(), "p.json").runs.at(1).epochs.at(0);
  CHECK_FALSE(epoch.cache_hits.has_value());
  CHECK(epoch.cache_misses == 3U);
}

TEST_CASE("numbers that JSON does not have are refused") {
  const std::string text = to_json(test::full_profile());
  for (const char* number : {"NaN", "Infinity", "1e999"}) {
    std::string broken = text;
    broken.replace(broken.find("4698.5"), 6, number);
    CAPTURE(number);
    CHECK_THROWS_AS(profile_from_json(broken, "p.json"), UsageError);
  }
}

TEST_CASE("a profile cut off anywhere is refused") {
  const std::string text = to_json(test::full_profile());
  for (std::size_t length = 0; length + 2 < text.size(); length += 97) {
    CAPTURE(length);
    CHECK_THROWS_AS(profile_from_json(text.substr(0, length), "p.json"), UsageError);
  }
}

TEST_CASE("an answer holds what was changed and nothing else, and null for what is not known") {
  const json document = json::parse(to_json(test::full_whatif()));
  CHECK(document["schema"] == "dsanalyze.whatif/1");
  CHECK(document["answers"][0]["change"] == json::object());
  CHECK(document["answers"][0]["stalls"]["prep"] == 0.34);
  CHECK(document["answers"][1]["change"]["cache_fraction"] == 0.5);
  CHECK(document["answers"][1]["change"].size() == 19);
  CHECK(document["answers"][1]["G"].is_null());
  CHECK(document["answers"][1]["stalls"].is_null());
  CHECK(document["answers"][1]["epoch_seconds"].is_null());
  CHECK(document["found"][1]["value"].is_null());
  CHECK(document["source"]["from"] == "profile.json");
}

TEST_CASE("an error document names its kind and exit code") {
  const json document = json::parse(error_json(ErrorKind::usage, "no such \"dataset\"", 2));
  CHECK(document["schema"] == "dsanalyze.error/1");
  CHECK(document["error"]["kind"] == "usage");
  CHECK(document["error"]["message"] == "no such \"dataset\"");
  CHECK(document["error"]["exit_code"] == 2);
  CHECK(json::parse(error_json(ErrorKind::interrupted, "", 130))["error"]["kind"] == "interrupted");
}

TEST_CASE("a dataset result leaves out what the command did not do, and survives names that are not UTF-8") {
  const json full = json::parse(to_json(test::full_dataset_result()));
  CHECK(full["failures"][0]["cause"] == "cut off");
  CHECK(full["command"] == "verify");
  CHECK(full["patched"] == 1);
  CHECK(full["patched_samples"] == json::parse(R"([{"path": "a/b.jpg", "cause": "Corrupt JPEG data: bad Huffman code"}])"));
  DatasetCommandResult info = test::full_dataset_result();
  info.failed.reset();
  info.labels.reset();
  info.patched.reset();
  const json least = json::parse(to_json(info));
  CHECK_FALSE(least.contains("failures"));
  CHECK_FALSE(least.contains("labels"));
  CHECK_FALSE(least.contains("patched"));
  CHECK_FALSE(least.contains("patched_samples"));
}

TEST_CASE("the program knows its version") {
  CHECK(this_tool().name == "dsanalyze");
  CHECK_FALSE(this_tool().version.empty());
  CHECK_FALSE(this_tool().commit.empty());
}

TEST_CASE("a gate's record reads back as it was written, and every field of it is needed") {
  const std::string text = to_json(test::full_gate());
  CHECK(to_json(gate_from_json(text, "gate.json")) == text);
  const auto document = nlohmann::json::parse(text);
  for (const char* field : {"schema", "tool", "mode", "verdict", "min_effect", "baseline", "metrics", "absent", "findings"}) {
    auto broken = document;
    broken.erase(field);
    CHECK_THROWS_WITH_AS(gate_from_json(broken.dump(), "gate.json"), doctest::Contains(field), UsageError);
  }
}

TEST_CASE("a profile whose time was too short for any rate is read again, and one without even a run is refused") {
  ProfileResult result = test::full_profile();
  result.ingestion = result.prep = result.cache = result.storage = result.fetch = std::nullopt;
  CHECK(profile_from_json(to_json(result), "short.json").runs.size() == result.runs.size());
  result.runs.clear();
  CHECK_THROWS_WITH_AS(profile_from_json(to_json(result), "short.json"), doctest::Contains("no run"), UsageError);
}
