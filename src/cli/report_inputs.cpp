#include "report_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "dsanalyze/base/json_reader.hpp"
#include "dsanalyze/models/report_curves.hpp"
#include "dsanalyze/models/whatif.hpp"
#include "live_models.hpp"

namespace dsanalyze::cli {
namespace {

ReportInput read_one(const std::filesystem::path& file, const std::string& label) {
  const std::string text = read_file(file);
  JsonObject root = parse_json_object(text, file.string());
  const std::string schema = root.text("schema");
  if (schema.starts_with("dsanalyze.profile/")) return report_input(label, file.string(), profile_from_json(text, file.string()));
  root.fail("schema", fmt::format(R"(found "{}", expected the result of `dsanalyze profile`, "dsanalyze.profile/1")", schema));
}

std::string label_of(const std::filesystem::path& file, const std::vector<std::filesystem::path>& all) {
  const auto same = std::ranges::count_if(all, [&](const std::filesystem::path& other) { return other.filename() == file.filename(); });
  return same > 1 ? file.string() : file.filename().string();
}

}  // namespace

ReportInput report_input(const std::string& label, const std::string& file, ProfileResult profile) {
  ReportInput input{label, std::move(profile), {}, ""};
  try {
    input.curves = report_curves(rate_model(std::get<ProfileResult>(input.record)));
    input.live_model = live_model_json(std::get<ProfileResult>(input.record), file);
  } catch (const Error&) {
    // Rates that the models refuse are no reason to leave out what was measured.
  }
  return input;
}

std::vector<ReportInput> read_report_inputs(const std::vector<std::filesystem::path>& files) {
  std::vector<ReportInput> inputs;
  inputs.reserve(files.size());
  for (const std::filesystem::path& file : files) inputs.push_back(read_one(file, label_of(file, files)));
  return inputs;
}

}  // namespace dsanalyze::cli
