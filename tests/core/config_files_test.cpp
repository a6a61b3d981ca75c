#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/records/price_list.hpp"
#include "core/records/scenario.hpp"
#include "core/workload.hpp"

using namespace dsanalyze;

namespace {

// Name without ".json" and content of each file of a folder of configs.
std::map<std::string, std::string> files_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(CONFIGS_FOLDER) / folder)) {
    REQUIRE(entry.path().extension() == ".json");
    std::ostringstream content;
    content << std::ifstream(entry.path()).rdbuf();
    files[entry.path().stem().string()] = content.str();
  }
  REQUIRE_FALSE(files.empty());
  return files;
}

bool has(const std::map<std::string, std::string>& files, const std::string& name) { return files.contains(name); }

}  // namespace

TEST_CASE("every workload file is valid, named after its file, and refers to a dataset that exists") {
  const auto datasets = files_of("datasets");
  const auto files = files_of("workloads");
  for (const auto& file : files) {
    const std::string& name = file.first;
    const std::string& text = file.second;
    CAPTURE(name);
    const Workload workload = parse_workload(text, name);
    CHECK(workload.name == name);
    CHECK(has(datasets, workload.dataset));
    CHECK_NOTHROW(workload.image_prep.validate());
    CHECK(workload.prep_rate_per_core.has_value());
    CHECK(workload.accelerator_rates.contains("v100"));
    CHECK(workload.accelerator_rates.contains("1080ti"));
    for (const auto& [kind, rate] : workload.accelerator_rates) CHECK(rate.source.size() > 20);
  }
  // [DS-Analyzer, Table 1]
  for (const char* name : {"shufflenetv2", "alexnet", "resnet18", "squeezenet", "mobilenetv2", "resnet50", "vgg11", "ssd-resnet18", "m5"}) {
    CHECK(has(files, name));
  }
}

TEST_CASE("every server file is valid, and its accelerator is known to every workload") {
  const auto storages = files_of("storage");
  const auto workloads = files_of("workloads");
  for (const auto& file : files_of("servers")) {
    const std::string& name = file.first;
    const std::string& text = file.second;
    CAPTURE(name);
    const Server server = parse_server(text, name);
    CHECK(server.name == name);
    REQUIRE(has(storages, server.storage.name));
    const StorageSpec preset = parse_storage(storages.at(server.storage.name), server.storage.name);
    CHECK(preset.bandwidth_bytes_per_s.value == server.storage.bandwidth_bytes_per_s.value);
    CHECK(preset.request_latency_seconds.value == server.storage.request_latency_seconds.value);
    CHECK(preset.queue_depth == server.storage.queue_depth);
    for (const auto& [workload_name, workload_text] : workloads) {
      CHECK(parse_workload(workload_text, workload_name).accelerator_rates.contains(server.accelerator));
    }
  }
}

TEST_CASE("the servers are those of the paper's Table 2") {
  const auto servers = files_of("servers");
  const Server ssd = parse_server(servers.at("config-ssd-v100"), "config-ssd-v100");
  CHECK(ssd.accelerators == 8);
  CHECK(ssd.cores == 24);
  CHECK(ssd.memory_bytes == Bytes{500} << 30);
  CHECK(ssd.storage.bandwidth_bytes_per_s.value == 530e6);
  const Server hdd = parse_server(servers.at("config-hdd-1080ti"), "config-hdd-1080ti");
  CHECK(hdd.storage.queue_depth == 1);
  CHECK(hdd.storage.request_latency_seconds.value == 0.008);
  CHECK(hdd.storage.bandwidth_bytes_per_s.value == 150e6);
}

TEST_CASE("every dataset file is valid, and the sizes are those of the paper's Table 1") {
  const std::map<std::string, double> paper_bytes = {
      {"imagenet-1k", 146e9}, {"imagenet-22k", 1.3e12}, {"openimages", 561e9}, {"openimages-extended", 645e9}, {"fma", 950e9}};
  const auto files = files_of("datasets");
  for (const auto& file : files) {
    const std::string& name = file.first;
    const std::string& text = file.second;
    CAPTURE(name);
    const DatasetSpec dataset = parse_dataset_spec(text, name);
    CHECK(dataset.name == name);
    CHECK_FALSE(dataset.source.empty());
    REQUIRE(paper_bytes.contains(name));
    CHECK(static_cast<double>(dataset.total_bytes()) == doctest::Approx(paper_bytes.at(name)).epsilon(0.001));
  }
  for (const auto& [name, bytes] : paper_bytes) CHECK(has(files, name));
}

TEST_CASE("every scenario is valid, named after its file, and refers to presets that exist") {
  const auto files = files_of("scenarios");
  CHECK(files.size() >= 4);
  for (const auto& file : files) {
    const std::string& name = file.first;
    CAPTURE(name);
    const Scenario scenario = parse_scenario(file.second, name);
    CHECK(scenario.name == name);
    CHECK(has(files_of("datasets"), scenario.preset));
    if (!scenario.storage.empty()) CHECK(has(files_of("storage"), scenario.storage));
    CHECK(scenario.source.find("Assumed:") != std::string::npos);
    CHECK(scenario.epochs > 1);
    CHECK(scenario.seed.has_value());
  }
}

TEST_CASE("every price list is valid, named after its file, and its accelerators can be compared with V100") {
  const auto files = files_of("prices");
  CHECK(files.size() >= 2);
  for (const auto& file : files) {
    const std::string& name = file.first;
    const std::string& text = file.second;
    CAPTURE(name);
    const PriceList list = parse_price_list(text, name);
    CHECK(list.name == name);
    REQUIRE(list.accelerators.contains("v100"));
    CHECK(list.accelerators.at("v100").relative_speed.value == 1);
    for (const auto& [kind, price] : list.accelerators) CHECK(price.price.listed.source.size() > 20);
    for (const auto& [kind, storage] : list.storage) {
      CHECK(storage.price_per_gb.listed.source.size() > 15);
      CHECK(storage.included_rate(1000) > 0);
    }
  }
}

TEST_CASE("the derived prices of Google's list add up to the machines that they come from") {
  const PriceList list = parse_price_list(files_of("prices").at("google-us-central1"), "google-us-central1");
  const double core = list.core.price.per_hour;
  const double gib = list.memory.price_per_gib.per_hour;
  CHECK(12 * core + 85 * gib == doctest::Approx(0.73948).epsilon(1e-4));   // a2-highgpu-1g without its accelerator
  CHECK(12 * core + 170 * gib == doctest::Approx(1.09962).epsilon(1e-4));  // a2-ultragpu-1g
  CHECK(8 * core + 52 * gib == doctest::Approx(0.47321).epsilon(1e-4));    // n1-highmem-8
}
