#include "saved_profiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/text.hpp"
#include "models/whatif/whatif.hpp"

namespace dsanalyze::cli {
namespace {

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw UsageError(fmt::format(
      "{}: no result of dsanalyze{}: give the JSON that `dsanalyze profile -o FILE` (or whatif, simulate, doctor, gate) wrote", source, why));
}

std::string text_of(const std::filesystem::path& file) {
  try {
    return read_file(file);
  } catch (const Error& error) {
    throw Error(fmt::format("{}; give the JSON that `dsanalyze profile -o FILE` wrote", error.what()));
  }
}

/// A record that was cut or edited is told where; of any other file the parser's words would say nothing.
JsonObject object_of(const std::string& text, const std::string& source) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) refuse(source, " (it is empty)");
  if (text[begin] != '{') refuse(source, "");
  JsonObject root = parse_json_object(text, source);
  if (!root.has("schema")) refuse(source, " (it has no \"schema\")");
  return root;
}

ReportInput read_one(const std::filesystem::path& file, const std::string& label, bool with_curves) {
  const std::string text = text_of(file);
  const std::string source = file.string();
  JsonObject root = object_of(text, source);
  const std::string schema = root.text("schema");
  const auto without_models = [&](auto record) { return ReportInput{label, std::move(record), {}, ""}; };
  if (schema.starts_with("dsanalyze.profile/")) {
    ProfileResult profile = profile_from_json(text, source);
    return with_curves ? report_input(label, source, std::move(profile)) : without_models(std::move(profile));
  }
  if (schema.starts_with("dsanalyze.whatif/")) return without_models(whatif_from_json(text, source));
  if (schema.starts_with("dsanalyze.simulate/")) return without_models(simulate_from_json(text, source));
  if (schema.starts_with("dsanalyze.doctor/")) return without_models(doctor_from_json(text, source));
  if (schema.starts_with("dsanalyze.gate/")) return without_models(gate_from_json(text, source));
  root.fail("schema",
            fmt::format(R"(found "{}", expected the result of `dsanalyze profile`, whatif, simulate, doctor or gate: "dsanalyze.profile/1" )"
                        "and so on",
                        schema));
}

/// "dsanalyze whatif"
std::string command_of(const ReportInput& input) {
  constexpr std::array commands{"profile", "whatif", "simulate", "doctor", "gate"};
  static_assert(commands.size() == std::variant_size_v<decltype(ReportInput::record)>);
  return fmt::format("`dsanalyze {}`", commands.at(input.record.index()));
}

void refuse_mixed_kinds(const std::vector<ReportInput>& inputs) {
  for (const ReportInput& input : inputs)
    if (input.record.index() != inputs.front().record.index())
      throw UsageError(fmt::format("{} is a result of {}, {} one of {}: only results of one kind go into one report; make a report of each kind",
                                   inputs.front().label, command_of(inputs.front()), input.label, command_of(input)));
}

std::string label_of(const std::filesystem::path& file, const std::vector<std::filesystem::path>& all) {
  const auto same = std::ranges::count_if(all, [&](const std::filesystem::path& other) { return other.filename() == file.filename(); });
  return same > 1 ? file.string() : file.filename().string();
}

}  // namespace

ReportInput report_input(const std::string& label, const std::string& file, ProfileResult profile) {
  // A name that begins with "-" would be read as an option.
  ReportInput input{label, std::move(profile), {}, "dsanalyze whatif " + shell_word(file.starts_with('-') ? "./" + file : file)};
  try {
    input.curves = report_curves(std::get<ProfileResult>(input.record));
  } catch (const std::exception&) {
    // Rates that the models refuse are no reason to leave out what was measured.
  }
  return input;
}

std::vector<ReportInput> read_report_inputs(const std::vector<std::filesystem::path>& files, bool with_curves) {
  std::vector<ReportInput> inputs;
  inputs.reserve(files.size());
  for (const std::filesystem::path& file : files) inputs.push_back(read_one(file, label_of(file, files), with_curves));
  refuse_mixed_kinds(inputs);
  return inputs;
}

}  // namespace dsanalyze::cli
