#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text/json_reader.hpp"
#include "core/records/doctor_result.hpp"
#include "core/records/gate_result.hpp"
#include "core/records/price_list.hpp"
#include "core/records/result.hpp"
#include "core/records/scenario.hpp"
#include "core/records/share_result.hpp"
#include "core/records/simulate_result.hpp"
#include "core/records/whatif_result.hpp"
#include "core/workload.hpp"
#include "fuzz.hpp"

namespace dsanalyze::fuzz {
namespace {

const std::string source = "input.json";

/// As accepts(), of a reader: what it refuses is the user's mistake, and its message names the file.
template <typename Read>
bool reads(const Read& read) {
  try {
    read();
    return true;
  } catch (const UsageError& error) {
    require(std::string_view(error.what()).find(source) != std::string_view::npos, "a refusal names the file");
    return false;
  }
}

void check_number(const SourcedNumber& number) {
  require(std::isfinite(number.value) && number.value >= 0, "a configured number is finite and not negative");
  require(!number.source.empty(), "a configured number has a source");
}

void check_workload(const Workload& workload) {
  require(workload.batch_size >= 1, "a batch has a sample");
  require(accepts([&] { workload.image_prep.validate(); }), "a workload that was read has a prep that is valid");
  for (const auto& [kind, rate] : workload.accelerator_rates) {
    check_number(rate);
    require(rate.value > 0, "an accelerator takes samples");
  }
  if (workload.prep_rate_per_core) check_number(*workload.prep_rate_per_core);
}

void check_server(const Server& server) {
  require(server.accelerators >= 1 && server.cores >= 1, "a server has accelerators and cores");
  check_number(server.storage.bandwidth_bytes_per_s);
  require(server.storage.bandwidth_bytes_per_s.value > 0 && server.storage.queue_depth >= 1, "storage delivers");
}

void check_price(const ListedPrice& price) {
  check_number(price.listed);
  require(price.per_hour > 0 && std::isfinite(price.per_hour), "a price is above 0");
}

void check_price_list(const PriceList& list) {
  check_price(list.core.price);
  check_price(list.memory.price_per_gib);
  require(list.core.least <= list.core.most && list.memory.most_bytes >= list.server.memory_bytes, "bounds are in order");
  require(!list.accelerators.empty() && !list.storage.empty(), "a list has accelerators and storage");
  for (const auto& [kind, accelerator] : list.accelerators) {
    check_price(accelerator.price);
    require(accelerator.relative_speed.value > 0, "an accelerator is faster than nothing");
  }
  for (const auto& [kind, storage] : list.storage) {
    check_price(storage.price_per_gb);
    const double rate = storage.included_rate(100);
    require(rate >= 0 && rate <= storage.most_bytes_per_s.value, "what is included is at most the most");
  }
}

/// Whether a document that was written says what the one that was read says, as far as both say something.
bool agrees(const nlohmann::json& written, const nlohmann::json& read) {
  if (written.is_object() && read.is_object()) {
    return std::all_of(written.items().begin(), written.items().end(),
                       [&](const auto& item) { return !read.contains(item.key()) || agrees(item.value(), read.at(item.key())); });
  }
  if (written.is_array() && read.is_array()) {
    return written.size() == read.size() && std::equal(written.begin(), written.end(), read.begin(), agrees);
  }
  if (written.is_number() && read.is_number()) {
    const double a = written.get<double>();
    const double b = read.get<double>();
    return std::abs(a - b) <= 1e-9 * std::abs(b);
  }
  return read.is_null() || written == read;
}

void check_profile(const ProfileResult& profile, std::string_view text) {
  const std::string written = to_json(profile);
  ProfileResult again;
  require(reads([&] { again = profile_from_json(written, source); }), "a profile that was read can be written and read");
  require(to_json(again) == written, "and says the same");
  require(agrees(nlohmann::json::parse(written), nlohmann::json::parse(text)), "what was read is what is written");
}

/// Of every kind of record: what is accepted can be written, and what was written says the same when it is read.
template <typename Read>
void check_record(const Read& read, std::string_view text) {
  using Record = decltype(read(text, source));
  Record record;
  if (!reads([&] { record = read(text, source); })) return;
  const std::string written = to_json(record);
  Record again;
  require(reads([&] { again = read(written, source); }), "a record that was read can be written and read");
  require(to_json(again) == written, "and says the same");
}

/// Walks an object by the reader's own means: every value answers to one type.
void walk(JsonObject& object, int depth) {
  require(depth <= 64, "nesting is bounded");
  for (const std::string& key : object.keys()) {
    require(object.has(key), "a key that is listed is there");
    const nlohmann::ordered_json& value = object.raw(key);
    if (value.is_object()) {
      JsonObject inner = object.object(key);
      walk(inner, depth + 1);
    } else if (value.is_string()) {
      require(object.text(key) == value.get<std::string>(), "a text is itself");
    } else if (value.is_number() && reads([&] { object.number(key, -1e300, 1e300); })) {
      require(std::isfinite(object.number(key, -1e300, 1e300)), "a number is finite");
    }
  }
}

void read_as_records(const JsonObject& object, std::string_view text) {
  if (object.has("task")) {
    Workload workload;
    if (reads([&] { workload = parse_workload(text, source); })) check_workload(workload);
  }
  if (object.has("cores")) {
    Server server;
    if (reads([&] { server = parse_server(text, source); })) check_server(server);
  }
  if (object.has("currency")) {
    PriceList list;
    if (reads([&] { list = parse_price_list(text, source); })) check_price_list(list);
  }
  if (object.has("queue_depth")) reads([&] { parse_storage(text, source); });
  if (object.has("labels")) {
    DatasetSpec dataset;
    if (reads([&] { dataset = parse_dataset_spec(text, source); })) {
      require(dataset.samples > 0 && dataset.mean_sample_bytes > 0, "a dataset has samples with bytes");
    }
  }
  if (object.has("policies")) {
    Scenario scenario;
    if (reads([&] { scenario = parse_scenario(text, source); })) {
      require(scenario.jobs >= 1 && scenario.epochs >= 1 && !scenario.policies.empty() && !scenario.cache_sizes.empty(),
              "a scenario asks for something");
      require(std::isfinite(scenario.stagger) && scenario.stagger >= 0, "jobs begin one after another");
    }
  }
  if (object.has("schema")) {
    ProfileResult profile;
    if (reads([&] { profile = profile_from_json(text, source); })) check_profile(profile, text);
    check_record(whatif_from_json, text);
    check_record(simulate_from_json, text);
    check_record(doctor_from_json, text);
    check_record(gate_from_json, text);
    check_record(share_from_json, text);
  }
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze;
  using namespace dsanalyze::fuzz;
  const std::string_view text = text_of(data, size);
  const bool is_object = reads([&] {
    JsonObject object = parse_json_object(text, source);
    walk(object, 1);
    object.finish();
    read_as_records(object, text);
  });
  if (!is_object) require(!reads([&] { parse_storage(text, source); }), "what is no JSON object is no record either");
  return 0;
}
