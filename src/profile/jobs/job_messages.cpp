#include "job_messages.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text/json_reader.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::job_messages {
namespace {

using MessageJson = nlohmann::ordered_json;

constexpr std::string_view trial_word = "trial ";
constexpr std::array<const char*, 4> kinds{"epoch", "record", "ended", "failed"};

std::string text_of(const MessageJson& message) { return message.dump(-1, ' ', false, MessageJson::error_handler_t::replace); }

}  // namespace

std::string epoch(const TrialEpoch& end) {
  MessageJson message{{"kind", "epoch"}, {"epoch", end.epoch}, {"seconds", end.seconds}};
  if (std::isfinite(end.samples_per_s)) message["samples_per_s"] = end.samples_per_s;
  if (end.loss && std::isfinite(*end.loss)) message["loss"] = *end.loss;
  return text_of(message);
}

std::string trial(int number) { return fmt::format("{}{}", trial_word, number); }

std::optional<int> parse_trial(std::string_view line) {
  if (!line.starts_with(trial_word)) return std::nullopt;
  return static_cast<int>(parse_integer(line.substr(trial_word.size()), 0, std::numeric_limits<int>::max()));
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
    constexpr double most = std::numeric_limits<double>::max();
    message.epoch.epoch = static_cast<std::uint64_t>(root.integer("epoch", 0, std::numeric_limits<std::int64_t>::max()));
    message.epoch.seconds = root.number("seconds", 0, most);
    message.epoch.samples_per_s = root.optional_number("samples_per_s", 0, most).value_or(0);
    message.epoch.loss = root.optional_number("loss", -most, most);
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
