#include "job_messages.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dsanalyze/base/json_reader.hpp"

namespace dsanalyze::job_messages {
namespace {

using MessageJson = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kinds{"epoch", "record", "ended", "failed"};

std::string text_of(const MessageJson& message) { return message.dump(-1, ' ', false, MessageJson::error_handler_t::replace); }

}  // namespace

std::string epoch(std::uint64_t epoch, const std::optional<TrainingRecord>& training) {
  MessageJson message{{"kind", "epoch"}, {"epoch", epoch}};
  if (training && !training->by_epoch.empty() && std::isfinite(training->by_epoch.back().loss)) message["loss"] = training->by_epoch.back().loss;
  return text_of(message);
}

std::string record(const JobRecord& record) { return text_of({{"kind", "record"}, {"record", MessageJson::parse(to_json(record))}}); }

std::string ended() { return text_of({{"kind", "ended"}}); }

std::string failed(std::string_view what) { return text_of({{"kind", "failed"}, {"what", what}}); }

Message parse(const std::string& line) {
  JsonObject root = parse_json_object(line, "a job's message");
  Message message;
  const std::string kind = root.choice("kind", {kinds.begin(), kinds.end()});
  if (kind == "epoch") {
    message.kind = Message::Kind::epoch;
    message.epoch = static_cast<std::uint64_t>(root.integer("epoch", 0, std::numeric_limits<std::int64_t>::max()));
    message.loss = root.optional_number("loss", std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
  } else if (kind == "record") {
    message.kind = Message::Kind::record;
    message.record = job_from_json(root.raw("record").dump(), "a job's record");
  } else if (kind == "ended") {
    message.kind = Message::Kind::ended;
  } else {
    message.what = root.text("what");
  }
  root.finish();
  return message;
}

}  // namespace dsanalyze::job_messages
