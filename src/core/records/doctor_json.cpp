#include <algorithm>
#include <array>
#include <limits>

#include "doctor_result.hpp"
#include "result_json.hpp"

namespace dsanalyze {
namespace {

constexpr std::array<std::string_view, 5> status_names{"ok", "note", "warning", "problem", "unknown"};
constexpr std::array<std::string_view, 3> where_names{"here", "host", "launch"};

template <typename Enum, std::size_t size>
Enum read_name(JsonObject& object, std::string_view key, const std::array<std::string_view, size>& names) {
  const std::string name = object.choice(key, {names.begin(), names.end()});
  return static_cast<Enum>(std::ranges::find(names, name) - names.begin());
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json check_json(const DoctorCheck& check) {
  Json commands = Json::array();
  for (const DoctorCommand& each : check.commands) commands.push_back({{"where", doctor_where_name(each.where)}, {"command", each.command}});
  return {{"code", check.code},
          {"group", check.group},
          {"title", check.title},
          {"status", doctor_status_name(check.status)},
          {"found", check.found},
          {"why", check.why},
          {"mend", text_or_null(check.mend)},
          {"commands", std::move(commands)}};
}

DoctorCheck read_check(JsonObject object) {
  DoctorCheck check;
  check.code = object.text("code");
  check.group = object.text("group");
  check.title = object.text("title");
  check.status = read_name<DoctorStatus>(object, "status", status_names);
  check.found = object.text("found");
  check.why = object.text("why");
  check.mend = object.optional_text("mend").value_or("");
  for (JsonObject& each : object.objects("commands"))
    check.commands.push_back({read_name<DoctorCommand::Where>(each, "where", where_names), each.text("command")});
  return check;
}

}  // namespace

std::string_view doctor_status_name(DoctorStatus status) { return status_names.at(static_cast<std::size_t>(status)); }

std::string_view doctor_where_name(DoctorCommand::Where where) { return where_names.at(static_cast<std::size_t>(where)); }

std::size_t DoctorResult::count(DoctorStatus status) const {
  return static_cast<std::size_t>(std::ranges::count_if(checks, [&](const DoctorCheck& check) { return check.status == status; }));
}

std::string to_json(const DoctorResult& result) {
  Json counts = Json::object();
  for (std::size_t i = 0; i < status_names.size(); ++i) counts[std::string(status_names.at(i))] = result.count(static_cast<DoctorStatus>(i));
  Json document = {{"schema", "dsanalyze.doctor/1"},
                   {"tool", tool_json(result.tool)},
                   {"host",
                    {{"cpu_model", result.cpu_model},
                     {"cores", result.cores_usable},
                     {"cores_online", result.cores_online},
                     {"memory_bytes", result.memory_usable_bytes},
                     {"kernel", result.kernel},
                     {"container", text_or_null(result.container)}}},
                   {"dataset", text_or_null(result.dataset)},
                   {"counts", std::move(counts)},
                   {"checks", Json::array()}};
  for (const DoctorCheck& check : result.checks) document["checks"].push_back(check_json(check));
  return document_text(document);
}

DoctorResult doctor_from_json(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  root.choice("schema", {"dsanalyze.doctor/1"});
  DoctorResult result;
  result.tool = read_tool(root.object("tool"));
  JsonObject host = root.object("host");
  result.cpu_model = host.text("cpu_model");
  result.cores_usable = host.number("cores", 0, std::numeric_limits<int>::max());
  result.cores_online = static_cast<int>(host.integer("cores_online", 1, std::numeric_limits<int>::max()));
  result.memory_usable_bytes = static_cast<Bytes>(host.integer("memory_bytes", 0, std::numeric_limits<std::int64_t>::max()));
  result.kernel = host.text("kernel");
  result.container = host.optional_text("container").value_or("");
  result.dataset = root.optional_text("dataset").value_or("");
  for (JsonObject& check : root.objects("checks")) result.checks.push_back(read_check(check));
  JsonObject counts = root.object("counts");
  for (std::size_t i = 0; i < status_names.size(); ++i) {
    const auto counted = static_cast<std::int64_t>(result.count(static_cast<DoctorStatus>(i)));
    if (counts.integer(status_names.at(i), 0, std::numeric_limits<int>::max()) != counted)
      counts.fail(status_names.at(i), "found another number than /checks has of this status");
  }
  root.finish();
  return result;
}

}  // namespace dsanalyze
