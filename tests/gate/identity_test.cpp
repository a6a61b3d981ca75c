#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "../base/texts.hpp"
#include "base/error.hpp"
#include "gate/runs.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;

namespace {

std::vector<GateRun> one(const ProfileResult& profile, const std::string& source) { return {{source, profile, 0}}; }

std::string refusal(const ProfileResult& current, const GateOptions& options = {}) {
  try {
    require_comparable(one(test::plain_profile(), "a.json"), one(current, "b.json"), options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("results of another machine, dataset or setting are refused with every differing field and both values") {
  ProfileResult other = test::plain_profile();
  other.host.cpu_model = "another CPU";
  other.dataset.digest = "other";
  other.settings.workers = 3;
  const std::string text = refusal(other);
  for (const char* part : {"host.cpu_model: a CPU in a.json, another CPU in b.json", "dataset.digest", "settings.workers: 0 in a.json, 3 in b.json"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

TEST_CASE("trainings that other commands start are compared only if that is asked for") {
  ProfileResult training = test::plain_profile();
  training.command = {"python3", "train.py"};
  ProfileResult other = training;
  other.command.emplace_back("--fast");
  const auto compare = [&](const ProfileResult& one_side, const GateOptions& options) {
    return require_comparable(one(one_side, "a.json"), one(other, "b.json"), options);
  };
  CHECK(testing::says(testing::message_of<UsageError>([&] { compare(training, {}); }),
                      "command: python3 train.py in a.json, python3 train.py --fast in b.json"));
  CHECK(testing::says(testing::message_of<UsageError>([&] { compare(test::plain_profile(), {}); }), "command: not there in a.json"));
  GateOptions ignoring;
  ignoring.ignore = {"command"};
  CHECK(compare(training, ignoring).size() == 1);
  CHECK(compare(other, ignoring).empty());
}

TEST_CASE("other jobs, another sharing, other producers, another search are other settings") {
  ProfileResult other = test::plain_profile();
  other.settings.jobs = 8;
  other.settings.share = JobSharing::coordinated;
  other.settings.producers = Producers::coordinator;
  other.settings.trials = 16;
  other.settings.stop_at_epochs = 1;
  const std::string text = refusal(other);
  for (const char* part : {"settings.jobs: 1 in a.json, 8 in b.json", "settings.share: none in", "settings.producers: jobs in",
                           "settings.trials: 0 in", "settings.stop_at_epochs: null in"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

TEST_CASE("other ranks, another partition, another storage scope or network are other settings") {
  ProfileResult other = test::plain_profile();
  other.settings.world = 4;
  other.settings.partition = PartitionMode::locality;
  other.settings.balance_from = BalanceFrom::storage;
  other.settings.storage_scope = StorageScope::shared;
  other.settings.network = Seam::emulated;
  other.settings.network_bytes_per_s = 5e9;
  const std::string text = refusal(other);
  for (const std::string part :
       {"settings.world: 1 in a.json, 4 in b.json", "settings.partition: none in a.json, locality in b.json",
        "settings.balance_from: peers in a.json, storage in b.json", "settings.storage_scope: server in a.json, shared in b.json",
        "settings.network: real in a.json, emulated in b.json", "settings.network_bytes_per_s: 0.0 in a.json, 5000000000.0 in b.json"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}

TEST_CASE("where, how long and with which seed was measured makes no difference") {
  ProfileResult other = test::plain_profile();
  other.settings.dataset = "/elsewhere";
  other.settings.time_budget_seconds = 1;
  other.settings.seed = 99;
  other.host.kernel = "6.1.0-22-amd64";
  other.host.memory_bytes = 1;
  other.host.memory_total_bytes += 20 << 20;
  other.tool.commit = "def";
  CHECK(refusal(other).empty());
}

TEST_CASE("memory may differ by what a kernel reserves, wherever rounding would put it") {
  ProfileResult other = test::plain_profile();
  const Bytes memory = other.host.memory_total_bytes;
  for (const Bytes less : {memory / 400, memory / 130, memory / 60}) {
    other.host.memory_total_bytes = memory - less;
    CHECK(refusal(other).empty());
  }
  other.host.memory_total_bytes = memory - memory / 30;
  CHECK(refusal(other).find("host.memory_total: 16 GiB in") != std::string::npos);
}

TEST_CASE("another series of the kernel makes one") {
  ProfileResult other = test::plain_profile();
  other.host.kernel = "6.12.1";
  CHECK(refusal(other).find("host.kernel: 6.1 in") != std::string::npos);
}

TEST_CASE("an ignored field, or a group of them, passes and is noted") {
  ProfileResult other = test::plain_profile();
  other.settings.workers = 3;
  for (const char* name : {"settings.workers", "settings"}) {
    GateOptions options;
    options.ignore = {name};
    const auto passed = require_comparable(one(test::plain_profile(), "a"), one(other, "b"), options);
    REQUIRE(passed.size() == 1);
    CHECK(passed[0].field == "settings.workers");
    CHECK(passed[0].current == "3");
  }
}

namespace {

/// A result whose sample of the contents, drawn by the seed, has this digest.
ProfileResult with_contents(const std::string& digest, std::uint64_t seed = 1) {
  ProfileResult profile = test::plain_profile();
  profile.dataset.content_sample_digest = digest;
  profile.settings.seed = seed;
  return profile;
}

/// Why the last result cannot be compared with the others, which are the baseline; "" when it can. Results are named by their places.
std::string refusal_of_last(const std::vector<ProfileResult>& results, const GateOptions& options = {}) {
  std::vector<GateRun> runs;
  for (const ProfileResult& result : results) runs.push_back({std::to_string(runs.size()), result, 0});
  const std::span<const GateRun> all(runs);
  try {
    require_comparable(all.first(runs.size() - 1), all.last(1), options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a dataset that was overwritten in place, with the same names, sizes and labels, is another one") {
  CHECK(refusal_of_last({with_contents("one"), with_contents("one")}).empty());
  CHECK(refusal_of_last({with_contents("one"), with_contents("other")}).find("\n  dataset.content_sample_digest: one in 0, other in 1") !=
        std::string::npos);
}

TEST_CASE("contents are compared where both results know them, of the same samples: not with older results, another seed or another index") {
  CHECK(refusal_of_last({test::plain_profile(), with_contents("one")}).empty());
  CHECK(refusal_of_last({with_contents("one"), test::plain_profile()}).empty());
  CHECK(refusal_of_last({with_contents("one", 1), with_contents("other", 2)}).empty());
  GateOptions options;
  options.ignore = {"dataset.digest"};
  ProfileResult of_another_index = with_contents("other");
  of_another_index.dataset.digest = "another";
  CHECK(refusal_of_last({with_contents("one"), of_another_index}, options).empty());
}

TEST_CASE("an older result or another seed at the front of the baseline hides no change of contents behind it") {
  const std::string text = refusal_of_last({test::plain_profile(), with_contents("x", 2), with_contents("one"), with_contents("other")});
  CHECK(text.find("dataset.content_sample_digest: one in 2, other in 3") != std::string::npos);
  CHECK(refusal_of_last({test::plain_profile(), with_contents("one"), with_contents("other"), test::plain_profile()})
            .find("dataset.content_sample_digest: one in 1, other in 2") != std::string::npos);
}

TEST_CASE("a difference of contents can be ignored by its name or with the dataset, also where the first result lacks the field") {
  for (const char* name : {"dataset.content_sample_digest", "dataset"}) {
    GateOptions options;
    options.ignore = {name};
    CHECK(refusal_of_last({test::plain_profile(), with_contents("one"), with_contents("other")}, options).empty());
    const auto passed = require_comparable(one(with_contents("one"), "a"), one(with_contents("other"), "b"), options);
    REQUIRE(passed.size() == 1);
    CHECK(passed[0].field == "dataset.content_sample_digest");
    CHECK(passed[0].baseline == "one");
    CHECK(passed[0].current == "other");
  }
}

TEST_CASE("a field that there is not cannot be ignored, and the nearest is named") {
  GateOptions options;
  options.ignore = {"setings.workers"};
  CHECK(refusal(test::plain_profile(), options).find("did you mean \"settings.workers\"") != std::string::npos);
}

TEST_CASE("control characters in a stranger's result do not reach the terminal") {
  ProfileResult other = test::plain_profile();
  other.host.cpu_model = "evil\x1b[2J";
  const std::string text = refusal(other);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\\x1b") != std::string::npos);
}

TEST_CASE("ways of reading that were chosen differently are a finding, no refusal") {
  ProfileResult other = test::plain_profile();
  other.settings.read_mode = ReadMode::direct;
  CHECK(refusal(other).empty());
  std::vector<Finding> findings;
  find_chosen_differently(one(test::plain_profile(), "a"), one(other, "b"), findings);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "reads-chosen-differently");
}
