#include "command.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/options/typed_options.hpp"
#include "cli/process/data_files.hpp"
#include "core/records/price_list.hpp"
#include "core/records/result.hpp"
#include "core/records/scenario.hpp"
#include "core/workload.hpp"

namespace dsanalyze::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A number of a configuration file with its source, under its key path ("accelerator_rates_samples_per_s v100").
struct ListedNumber {
  std::string key;
  double value = 0;
  std::string per;  ///< prices: what time they are for
  std::string provenance;
  std::string source;
};

void collect_numbers(const Json& value, const std::string& path, std::vector<ListedNumber>& numbers) {
  if (!value.is_object()) return;
  if (value.contains("value") && value.contains("provenance")) {
    numbers.push_back(
        {path, value["value"].get<double>(), value.value("per", ""), value["provenance"].get<std::string>(), value.value("source", "")});
    return;
  }
  for (const auto& [key, inner] : value.items()) collect_numbers(inner, path.empty() ? key : fmt::format("{} {}", path, key), numbers);
}

/// "530 MB/s" for a key that ends in bytes_per_s, and so on.
std::string number_text(const ListedNumber& number) {
  if (!number.per.empty()) return fmt::format("{}/{}", format_number(number.value), number.per);
  if (number.key.ends_with("bytes_per_s")) return format_bytes_per_second(number.value);
  if (number.key.ends_with("bytes")) return format_bytes(static_cast<Bytes>(std::llround(number.value)));
  if (number.key.ends_with("seconds")) return format_seconds(number.value);
  return format_number(number.value);
}

void validate(ConfigKind kind, const ConfigFile& file) {
  switch (kind) {
    case ConfigKind::workload:
      parse_workload(file.text, file.source);
      break;
    case ConfigKind::server:
      parse_server(file.text, file.source);
      break;
    case ConfigKind::dataset:
      parse_dataset_spec(file.text, file.source);
      break;
    case ConfigKind::storage:
      parse_storage(file.text, file.source);
      break;
    case ConfigKind::prices:
      parse_price_list(file.text, file.source);
      break;
    case ConfigKind::scenario:
      parse_scenario(file.text, file.source);
      break;
  }
}

ConfigKind kind_of(const std::string& what) {
  if (const auto kind = enum_named<ConfigKind>(what)) return *kind;
  throw UsageError(fmt::format("what to list is missing: expected {}", fmt::join(enum_names<ConfigKind>, ", ")));
}

enum class Sources { hidden, shown };

std::string item_text(const ConfigFile& file, const Json& document, const std::vector<ListedNumber>& numbers, Sources sources) {
  std::string text = file.name + "\n";
  if (document.contains("description")) text += fmt::format("  {}\n", document["description"].get<std::string>());
  for (const ListedNumber& number : numbers) {
    text += fmt::format("  {:<42} {:>14}  [{}]\n", number.key, number_text(number), number.provenance);
    if (sources == Sources::shown) text += fmt::format("      {}\n", number.source);
  }
  return text;
}

class ListCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const std::string& what = context.typed.text("WHAT");
    const ConfigKind kind = kind_of(what);

    const ToolRecord tool = this_tool();
    Json result{{"schema", "dsanalyze.list/1"},
                {"tool", {{"name", tool.name}, {"version", tool.version}, {"commit", tool.commit}}},
                {"kind", what},
                {"items", Json::array()}};
    std::string text;
    for (const ConfigFile& file : config_files(kind)) {
      validate(kind, file);
      const Json document = Json::parse(file.text);
      std::vector<ListedNumber> numbers;
      collect_numbers(document, "", numbers);
      text += (text.empty() ? "" : "\n") + item_text(file, document, numbers, context.options.verbose ? Sources::shown : Sources::hidden);
      Json item{{"name", file.name}, {"path", file.source}, {"numbers", Json::array()}, {"config", document}};
      for (const ListedNumber& number : numbers)
        item["numbers"].push_back({{"key", number.key}, {"value", number.value}, {"provenance", number.provenance}, {"source", number.source}});
      result["items"].push_back(std::move(item));
    }
    if (!context.options.verbose) text += "\nthe numbers' sources: --verbose or --json\n";
    return {result.dump(2), text};
  }
};

}  // namespace

std::unique_ptr<Command> make_list_command() { return std::make_unique<ListCommand>(); }

}  // namespace dsanalyze::cli
