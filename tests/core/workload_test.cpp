#include "core/workload.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../base/texts.hpp"
#include "base/error.hpp"
#include "base/text/enum_names.hpp"

using namespace dsanalyze;
using testing::replaced;

namespace {

const std::string workload_text = R"({
  "name": "tiny-net", "description": "a network", "dataset": "imagenet-1k", "task": "image_classification",
  "prep": {"crop": {"size": 192, "scale": [0.1, 0.9], "ratio": [0.8, 1.25]}, "flip_probability": 0.25, "mean": [0.1, 0.2, 0.3], "deviation": [0.4, 0.5, 0.6]},
  "batch_size": {"value": 64, "provenance": "assumed", "source": "a test"},
  "accelerator_rates_samples_per_s": {"v100": {"value": 1234.5, "provenance": "paper", "source": "Table 9"}},
  "prep_rate_samples_per_s_per_core": {"value": 250, "provenance": "measured", "source": "here"}
})";

void check_workload_refused(const std::string& from, const std::string& to, const std::string& place) {
  CAPTURE(to);
  CHECK_THROWS_WITH_AS(parse_workload(replaced(workload_text, from, to), "w.json"), doctest::Contains(("w.json: " + place).c_str()), UsageError);
}

}  // namespace

TEST_CASE("a workload file is read whole, with the source of each number") {
  const Workload workload = parse_workload(workload_text, "w.json");
  CHECK(workload.name == "tiny-net");
  CHECK(workload.dataset == "imagenet-1k");
  CHECK(workload.task == PrepTaskKind::image_classification);
  CHECK(workload.image_prep.crop_size == 192);
  CHECK(workload.image_prep.scale == std::array{0.1, 0.9});
  CHECK(workload.image_prep.ratio == std::array{0.8, 1.25});
  CHECK(workload.image_prep.flip_probability == 0.25);
  CHECK(workload.image_prep.mean == std::array{0.1, 0.2, 0.3});
  CHECK(workload.image_prep.deviation == std::array{0.4, 0.5, 0.6});
  CHECK(workload.batch_size == 64);
  REQUIRE(workload.accelerator_rates.contains("v100"));
  CHECK(workload.accelerator_rates.at("v100").value == 1234.5);
  CHECK(workload.accelerator_rates.at("v100").provenance == Provenance::paper);
  CHECK(workload.accelerator_rates.at("v100").source == "Table 9");
  REQUIRE(workload.prep_rate_per_core.has_value());
  CHECK(workload.prep_rate_per_core->value == 250);
  CHECK(workload.prep_rate_per_core->provenance == Provenance::measured);
}

TEST_CASE("a mistake in a workload file is named by file and place") {
  check_workload_refused("192", "-224", "/prep/crop/size");
  check_workload_refused("[0.1, 0.9]", "[0.9, 0.1]", "/prep/crop/scale");
  check_workload_refused("0.25", "1.5", "/prep/flip_probability");
  check_workload_refused("[0.4, 0.5, 0.6]", "[0.4, 0.5]", "/prep/deviation");
  check_workload_refused("\"value\": 64", "\"value\": 64.5", "/batch_size/value");
  check_workload_refused("1234.5", "0", "/accelerator_rates_samples_per_s/v100/value");
  check_workload_refused("\"paper\"", "\"rumour\"", "/accelerator_rates_samples_per_s/v100/provenance");
  check_workload_refused("\"Table 9\"", "\"\"", "/accelerator_rates_samples_per_s/v100/source");
  check_workload_refused("image_classification", "video", "/task");
  check_workload_refused("tiny-net", "../tiny", "/name");
  check_workload_refused("\"flip_probability\"", "\"flip_probabilty\"", "/prep/flip_prob");
}

TEST_CASE("an unknown key of a workload file is refused") {
  CHECK_THROWS_AS(parse_workload(replaced(workload_text, "\"description\"", "\"colour\": 1, \"description\""), "w.json"), UsageError);
}

TEST_CASE("a server whose cache exceeds its memory is refused") {
  const auto sourced = [](const std::string& value) { return R"({"value": )" + value + R"(, "provenance": "assumed", "source": "a test"})"; };
  const auto server = [&](const std::string& cache) {
    return R"({"name": "s", "description": "d", "accelerator": "v100", "accelerators": )" + sourced("8") + R"(, "cores": )" + sourced("24") +
           R"(, "memory_bytes": )" + sourced("1000") + R"(, "cache_bytes": )" + sourced(cache) + R"(, "network_bytes_per_s": )" + sourced("0") +
           R"(, "storage": {"name": "ssd", "bandwidth_bytes_per_s": )" + sourced("530000000") + R"(, "request_latency_seconds": )" + sourced("0") +
           R"(, "queue_depth": )" + sourced("32") + "}}";
  };
  const Server read = parse_server(server("1000"), "s.json");
  CHECK(read.cores == 24);
  CHECK(read.storage.queue_depth == 32);
  CHECK(read.source.find("cores: a test (assumed)") != std::string::npos);
  CHECK_THROWS_WITH_AS(parse_server(server("1001"), "s.json"), doctest::Contains("s.json: /cache_bytes"), UsageError);
}

TEST_CASE("prep that cannot be done is refused by its field") {
  ImagePrep prep;
  CHECK_NOTHROW(prep.validate());
  prep.scale = {0.0, 1.0};
  CHECK_THROWS_WITH_AS(prep.validate(), doctest::Contains("crop/scale"), UsageError);
  prep = {};
  prep.deviation[1] = 0;
  CHECK_THROWS_WITH_AS(prep.validate(), doctest::Contains("deviation"), UsageError);
}

TEST_CASE("storage given by its bandwidth has no fixed cost a request") {
  const StorageSpec storage = storage_from_bandwidth(530e6);
  CHECK(storage.name == "530 MB/s");
  CHECK(storage.bandwidth_bytes_per_s.value == 530e6);
  CHECK(storage.request_latency_seconds.value == 0);
}

TEST_CASE("provenance names read back") {
  for (const Provenance each : {Provenance::measured, Provenance::paper, Provenance::derived, Provenance::assumed}) {
    CHECK(enum_named<Provenance>(provenance_name(each)) == each);
  }
  CHECK_FALSE(enum_named<Provenance>("guess"));
}
