#include "result_json.hpp"

#include <fmt/format.h>

namespace dsanalyze {
namespace {

const char* error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::undecided:
      return "undecided";
    case ErrorKind::interrupted:
      return "interrupted";
    case ErrorKind::failed:
      break;
  }
  return "failed";
}

const char* severity_name(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::info:
      return "info";
    case Finding::Severity::warning:
      return "warning";
    case Finding::Severity::error:
      break;
  }
  return "error";
}

}  // namespace

Json tool_json(const ToolRecord& tool) { return {{"name", tool.name}, {"version", tool.version}, {"commit", tool.commit}}; }

Json interval_json(const Interval& interval) { return {{"low", interval.low}, {"high", interval.high}}; }

Json findings_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"code", finding.code}, {"severity", severity_name(finding.severity)}, {"message", finding.message}});
  }
  return list;
}

Json advice_json(const std::vector<AdviceRecord>& advice) {
  Json list = Json::array();
  for (const AdviceRecord& each : advice) {
    Json steps = Json::array();
    for (const LoaderStep& step : each.steps) steps.push_back({{"loader", step.loader}, {"text", step.text}});
    list.push_back({{"code", each.code}, {"text", each.text}, {"evidence", each.evidence}, {"steps", std::move(steps)}});
  }
  return list;
}

void require_schema(JsonObject& root, const std::string& schema, const std::string& command) {
  const std::string found = root.text("schema");
  if (found != schema) root.fail("schema", fmt::format(R"(found "{}", expected "{}", the result of `{}`)", found, schema, command));
}

ToolRecord read_tool(JsonObject object) { return {object.text("name"), object.text("version"), object.text("commit")}; }

Interval read_interval(JsonObject parent, std::string_view key, double low, double high) {
  JsonObject object = parent.object(key);
  const Interval interval{object.number("low", low, high), object.number("high", low, high)};
  if (interval.low > interval.high) object.fail("low", fmt::format("found {}, expected at most /high ({})", interval.low, interval.high));
  return interval;
}

std::uint64_t read_count(JsonObject& object, std::string_view key) { return static_cast<std::uint64_t>(object.integer(key, 0, most_integer)); }

std::optional<std::uint64_t> read_known_count(JsonObject& object, std::string_view key) {
  if (!is_known(object, key)) return std::nullopt;
  return read_count(object, key);
}

int read_small(JsonObject& object, std::string_view key) { return static_cast<int>(object.integer(key, 0, std::numeric_limits<int>::max())); }

std::string read_resource(JsonObject& object, std::string_view key) { return object.choice(key, {"gpu", "cpu", "io"}); }

std::vector<std::string> read_texts(JsonObject& object, std::string_view key) {
  const nlohmann::json& list = object.raw(key);
  if (!list.is_array()) object.fail(key, "found no list, expected a list of texts");
  std::vector<std::string> texts;
  for (const nlohmann::json& item : list) {
    if (!item.is_string()) object.fail(key, "found an item that is no text, expected a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<AdviceRecord> read_advice(JsonObject& root) {
  std::vector<AdviceRecord> advice;
  for (JsonObject& object : root.objects("advice")) {
    AdviceRecord each{object.text("code"), object.text("text"), read_texts(object, "evidence")};
    if (is_known(object, "steps"))
      for (JsonObject& step : object.objects("steps")) each.steps.push_back({step.text("loader"), step.text("text")});
    advice.push_back(std::move(each));
  }
  return advice;
}

std::vector<Finding> read_findings(JsonObject& root) {
  std::vector<Finding> findings;
  for (JsonObject& object : root.objects("findings")) {
    const std::string severity = object.choice("severity", {"info", "warning", "error"});
    const Finding::Severity level = severity == "info"      ? Finding::Severity::info
                                    : severity == "warning" ? Finding::Severity::warning
                                                            : Finding::Severity::error;
    findings.push_back({object.text("code"), level, object.text("message")});
  }
  return findings;
}

std::string document_text(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

bool is_known(JsonObject& object, std::string_view key) { return object.has(key) && !object.raw(key).is_null(); }

std::string error_json(ErrorKind kind, const std::string& message, int exit_code) {
  return document_text({{"schema", "dsanalyze.error/1"},
                        {"tool", tool_json(this_tool())},
                        {"error", {{"kind", error_kind_name(kind)}, {"message", message}, {"exit_code", exit_code}}}});
}

std::string to_json(const DatasetCommandResult& result) {
  Json document = {{"schema", "dsanalyze.dataset/1"},
                   {"tool", tool_json(result.tool)},
                   {"command", result.command},
                   {"path", result.path},
                   {"format", result.format},
                   {"samples", result.samples},
                   {"bytes", result.bytes},
                   {"mean_sample_bytes", result.mean_sample_bytes},
                   {"digest", result.digest},
                   {"index_digest", result.digest},
                   {"sizes_sampled", result.sizes_sampled}};
  add_if_known(document, "content_sample_digest", result.content_sample_digest);
  add_if_known(document, "labels", result.labels);
  add_if_known(document, "skipped", result.skipped);
  add_if_known(document, "already_there", result.already_there);
  add_if_known(document, "index_file", result.index_file);
  add_if_known(document, "content_digest", result.content_digest);
  const auto add_named = [&document](const char* key, const std::vector<DatasetCommandResult::Failure>& samples) {
    document[key] = Json::array();
    for (const DatasetCommandResult::Failure& sample : samples) document[key].push_back({{"path", sample.path}, {"cause", sample.cause}});
  };
  add_if_known(document, "failed", result.failed);
  if (result.failed) add_named("failures", result.failures);
  add_if_known(document, "patched", result.patched);
  if (result.patched) add_named("patched_samples", result.patched_samples);
  add_if_known(document, "damaged_files", result.damaged_files);
  add_if_known(document, "files", result.files);
  if (result.array) document["array"] = {{"dtype", result.array->dtype}, {"shape", result.array->shape}};
  add_if_known(document, "destination", result.destination);
  add_if_known(document, "to", result.to);
  add_if_known(document, "seconds", result.seconds);
  document["findings"] = findings_json(result.findings);
  return document_text(document);
}

Json attained_json(const ProfileResult::Attained& attained) {
  return {{"samples_per_s", attained.samples_per_s},
          {"ci95_samples_per_s", interval_json(attained.ci95_samples_per_s)},
          {"by_rates_samples_per_s", attained.by_rates_samples_per_s},
          {"ci95_by_rates_samples_per_s", interval_json(attained.ci95_by_rates_samples_per_s)},
          {"evidence", attained.evidence}};
}

ProfileResult::Attained read_attained(JsonObject object) {
  return {object.number("samples_per_s", 0, most_number), read_interval(object, "ci95_samples_per_s", 0, most_number),
          object.number("by_rates_samples_per_s", 0, most_number), read_interval(object, "ci95_by_rates_samples_per_s", 0, most_number),
          read_texts(object, "evidence")};
}

}  // namespace dsanalyze
