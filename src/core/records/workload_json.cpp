#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "core/device.hpp"
#include "core/workload.hpp"
#include "sourced_json.hpp"

namespace dsanalyze {

SourcedNumber read_sourced(JsonObject number, double low, double high, Zero zero) {
  SourcedNumber sourced;
  sourced.value = number.number("value", low, high);
  if (zero == Zero::refused && sourced.value <= 0) number.fail("value", "found 0, expected a number above 0");
  sourced.provenance = number.named<Provenance>("provenance");
  sourced.source = number.text("source");
  if (sourced.source.empty()) number.fail("source", "found an empty text, expected where the number comes from");
  return sourced;
}

SourcedNumber read_rate(JsonObject& parent, std::string_view key, double high) { return read_sourced(parent.object(key), 0, high, Zero::refused); }

SourcedNumber read_whole(JsonObject& parent, std::string_view key, double low, double high) {
  JsonObject number = parent.object(key);
  number.integer("value", static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
  return read_sourced(number, low, high, Zero::allowed);
}

std::string read_name(JsonObject& root) {
  std::string name = root.text("name");
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    root.fail("name", fmt::format("found \"{}\", expected lower-case letters, digits, '-' and '.'", name));
  }
  return name;
}
namespace {

/// The number's value; where it is from goes behind the `sources`.
double cited(std::string& sources, std::string_view what, const SourcedNumber& number) {
  sources += fmt::format("{}{}: {} ({})", sources.empty() ? "" : "; ", what, number.source, provenance_name(number.provenance));
  return number.value;
}

template <std::size_t count>
std::array<double, count> read_array(JsonObject& parent, std::string_view key, double low, double high) {
  const std::vector<double> values = parent.numbers(key, count, count, low, high);
  std::array<double, count> result{};
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

std::array<double, 2> read_range(JsonObject& parent, std::string_view key, double low, double high) {
  const std::array<double, 2> range = read_array<2>(parent, key, low, high);
  if (range[0] > range[1]) parent.fail(key, fmt::format("found {} before {}, expected the smaller first", range[0], range[1]));
  return range;
}

ImagePrep read_image_prep(JsonObject object) {
  ImagePrep prep;
  JsonObject crop = object.object("crop");
  prep.crop_size = static_cast<int>(crop.integer("size", 1, 4096));
  prep.scale = read_range(crop, "scale", 1e-4, 1);
  prep.ratio = read_range(crop, "ratio", 0.01, 100);
  prep.flip_probability = object.number("flip_probability", 0, 1);
  prep.mean = read_array<3>(object, "mean", 0, 1);
  prep.deviation = read_array<3>(object, "deviation", 1e-3, 1);
  return prep;
}

StorageSpec read_storage(JsonObject object) {
  StorageSpec storage;
  storage.name = read_name(object);
  storage.bandwidth_bytes_per_s = read_rate(object, "bandwidth_bytes_per_s", most_bytes_per_s);
  storage.request_latency_seconds = read_sourced(object.object("request_latency_seconds"), 0, 60, Zero::allowed);
  storage.queue_depth = static_cast<int>(read_whole(object, "queue_depth", 1, StorageDeviceState::max_queue_depth).value);
  return storage;
}

}  // namespace

std::string to_json(const ImagePrep& prep) {
  return nlohmann::ordered_json{{"crop", {{"size", prep.crop_size}, {"scale", prep.scale}, {"ratio", prep.ratio}}},
                                {"flip_probability", prep.flip_probability},
                                {"mean", prep.mean},
                                {"deviation", prep.deviation}}
      .dump();
}

ImagePrep image_prep_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  const ImagePrep prep = read_image_prep(root);
  root.finish();
  return prep;
}

Workload parse_workload(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  Workload workload;
  workload.name = read_name(root);
  workload.description = root.text("description");
  workload.dataset = root.text("dataset");
  workload.task = root.named<PrepTaskKind>("task");
  if (workload.task == PrepTaskKind::image_classification) workload.image_prep = read_image_prep(root.object("prep"));
  if (root.has("torchvision")) workload.torchvision = root.text("torchvision");
  workload.batch_size = static_cast<int>(read_whole(root, "batch_size", 1, 65'536).value);
  JsonObject rates = root.object("accelerator_rates_samples_per_s");
  for (const std::string& kind : rates.keys()) workload.accelerator_rates[kind] = read_rate(rates, kind, most_samples_per_s);
  if (root.has("prep_rate_samples_per_s_per_core")) {
    workload.prep_rate_per_core = read_rate(root, "prep_rate_samples_per_s_per_core", most_samples_per_s);
  }
  root.finish();
  return workload;
}

Server parse_server(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  Server server;
  server.name = read_name(root);
  server.description = root.text("description");
  server.accelerator = root.text("accelerator");
  server.accelerators = static_cast<int>(cited(server.source, "accelerators", read_whole(root, "accelerators", 1, 1024)));
  server.cores = static_cast<int>(cited(server.source, "cores", read_whole(root, "cores", 1, 4096)));
  server.memory_bytes = static_cast<Bytes>(cited(server.source, "memory", read_whole(root, "memory_bytes", 1, most_bytes)));
  server.cache_bytes = static_cast<Bytes>(cited(server.source, "cache", read_whole(root, "cache_bytes", 0, most_bytes)));
  const JsonObject network = root.object("network_bytes_per_s");
  server.network_bytes_per_s = cited(server.source, "network", read_sourced(network, 0, most_bytes_per_s, Zero::allowed));
  if (server.cache_bytes > server.memory_bytes)
    root.fail("cache_bytes", fmt::format("found {}, expected at most memory_bytes ({})", server.cache_bytes, server.memory_bytes));
  server.storage = read_storage(root.object("storage"));
  root.finish();
  return server;
}

StorageSpec parse_storage(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  StorageSpec storage = read_storage(root);
  root.finish();
  return storage;
}

DatasetSpec parse_dataset_spec(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  DatasetSpec dataset;
  dataset.name = read_name(root);
  dataset.description = root.text("description");
  dataset.samples = static_cast<std::uint64_t>(cited(dataset.source, "samples", read_whole(root, "samples", 1, 4e9)));
  dataset.mean_sample_bytes = static_cast<Bytes>(cited(dataset.source, "mean bytes", read_whole(root, "mean_sample_bytes", 1, 1e12)));
  const JsonObject deviation = root.object("sample_bytes_deviation");
  dataset.sample_bytes_deviation = cited(dataset.source, "deviation", read_sourced(deviation, 0, 10, Zero::allowed));
  dataset.labels = static_cast<std::uint32_t>(cited(dataset.source, "labels", read_whole(root, "labels", 1, 4e9)));
  root.finish();
  return dataset;
}

}  // namespace dsanalyze
