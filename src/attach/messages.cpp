#include "messages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text/enum_names.hpp"
#include "base/text/json_reader.hpp"

namespace dsanalyze {
namespace {

constexpr double most_nanoseconds = 9e15;  // exact in a double; 104 days since the machine's start
constexpr std::size_t most_steps = 1'000'000;
constexpr int most_workers = 65536;

Nanoseconds instant(JsonObject& object, std::string_view key) { return object.integer(key, 0, static_cast<std::int64_t>(most_nanoseconds)); }
std::uint64_t count(JsonObject& object, std::string_view key) {
  return static_cast<std::uint64_t>(object.optional_integer(key, 0, static_cast<std::int64_t>(most_nanoseconds)).value_or(0));
}

/// A list, or one number that holds for every step.
std::vector<double> step_numbers(JsonObject& object, std::string_view key, std::size_t steps, double most) {
  std::vector<double> list;
  if (object.raw(key).is_number())
    list.assign(steps, object.number(key, 0, most));
  else
    list = object.numbers(key, 0, most_steps, 0, most);
  return list;
}

std::vector<double> seconds(JsonObject& object, std::string_view key, std::size_t steps) {
  if (!object.has(key)) return std::vector<double>(steps);
  std::vector<double> list = step_numbers(object, key, steps, most_nanoseconds);
  std::ranges::transform(list, list.begin(), [](double each) { return each * 1e-9; });
  return list;
}

StepWindow read_window(JsonObject object) {
  StepWindow window;
  window.begin = instant(object, "begin");
  window.end = instant(object, "end");
  if (window.end < window.begin) object.fail("end", "found an instant before /begin");
  constexpr double most_samples = 1e12;
  window.skipped = count(object, "skipped");
  if (!object.has("wait")) {
    window.samples = step_numbers(object, "samples", 0, most_samples);
    window.cut = object.boolean("cut");
    return window;
  }
  window.wait = seconds(object, "wait", 0);
  const std::size_t steps = window.wait.size();
  window.compute = seconds(object, "compute", steps);
  window.outside = seconds(object, "outside", steps);
  window.validation = seconds(object, "validation", steps);
  window.ranks = seconds(object, "ranks", steps);
  window.outside_ranks = seconds(object, "outside_ranks", steps);
  window.samples = step_numbers(object, "samples", steps, most_samples);
  for (const std::vector<double>* list :
       {&window.compute, &window.outside, &window.validation, &window.ranks, &window.outside_ranks, &window.samples})
    if (list->size() != steps) object.fail("wait", "expected as many as the other lists have");
  const std::vector<double> optimizer_steps = step_numbers(object, "steps", steps, most_samples);
  window.optimizer_steps = static_cast<std::uint64_t>(std::accumulate(optimizer_steps.begin(), optimizer_steps.end(), 0.0));
  window.sampling_seconds = to_seconds(static_cast<Nanoseconds>(count(object, "sampling")));
  return window;
}

HelloMessage read_hello(JsonObject& object) {
  HelloMessage hello;
  hello.pid = static_cast<int>(object.integer("pid", 1, INT32_MAX));
  hello.world = static_cast<int>(object.integer("world", 1, most_workers));
  hello.rank = static_cast<int>(object.integer("rank", 0, hello.world - 1));
  if (const auto local = object.optional_integer("local_world", 1, most_workers)) hello.local_world = static_cast<int>(*local);
  hello.distributed = object.has("distributed") && object.boolean("distributed");
  return hello;
}

LoaderMessage read_loader(JsonObject& object) {
  LoaderMessage message;
  LoaderRecord& loader = message.loader;
  loader.name = object.text("name");
  loader.version = object.text("version");
  loader.dataset_class = object.text("dataset_class");
  loader.workers = static_cast<int>(object.integer("workers", 0, most_workers));
  const auto small = [&](std::string_view key) -> std::optional<int> {
    const auto value = object.optional_integer(key, 0, INT32_MAX);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  const auto large = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto value = object.optional_integer(key, 0, INT64_MAX);
    return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
  };
  loader.prefetch = small("prefetch");
  loader.pin_memory = object.boolean("pin_memory");
  loader.persistent = object.boolean("persistent");
  loader.made_anew = object.has("made_anew") && object.boolean("made_anew");
  loader.batch_size = small("batch_size");
  loader.batches = large("batches");
  loader.samples = large("samples");
  loader.style = object.named<LoaderRecord::Style>("style");
  loader.file = object.optional_text("file").value_or("");
  loader.line = small("line").value_or(0);
  return message;
}

std::optional<StepWindow> optional_window(JsonObject& object) {
  auto window = object.optional_object("window");
  return window ? std::optional(read_window(*window)) : std::nullopt;
}

std::optional<EpochGap> optional_gap(JsonObject& object) {
  auto between = object.optional_object("between");
  if (!between) return std::nullopt;
  EpochGap gap{instant(*between, "begin"), instant(*between, "end"), to_seconds(instant(*between, "start")),
               to_seconds(instant(*between, "validation"))};
  gap.sampling_seconds = to_seconds(static_cast<Nanoseconds>(count(*between, "sampling")));
  if (gap.end < gap.begin) between->fail("end", "found an instant before /begin");
  return gap;
}

DeviceMessage read_device(JsonObject& object) {
  constexpr std::size_t most_cpus = 65536;
  DeviceMessage device{object.boolean("cuda"), object.optional_text("device").value_or("")};
  device.gpus = object.optional_text("gpus").value_or("");
  if (object.has("cpus"))
    for (const double cpu : object.numbers("cpus", 0, most_cpus, 0, most_cpus)) device.cpus.push_back(static_cast<int>(cpu));
  return device;
}

SpentTime read_spent(JsonObject& object) {
  SpentTime spent;
  spent.what = object.named<ScriptCostRecord::What>("what");
  spent.file = object.optional_text("file").value_or("");
  spent.line = static_cast<int>(object.optional_integer("line", 0, INT32_MAX).value_or(0));
  spent.count = count(object, "count");
  spent.seconds = to_seconds(instant(object, "time"));
  spent.waited_seconds = to_seconds(instant(object, "waited"));
  if (const auto workers = object.optional_integer("workers", 0, most_workers)) spent.workers = static_cast<int>(*workers);
  return spent;
}

CheckpointMessage read_checkpoint(JsonObject& object) {
  CheckpointMessage message;
  message.why = object.named<CheckpointMessage::Why>("why");
  message.step = count(object, "step");
  message.window = optional_window(object);
  message.between = optional_gap(object);
  message.kept = count(object, "kept");
  message.copies = count(object, "copies");
  if (auto copy = object.optional_object("copy")) message.copy = {count(*copy, "bytes"), to_seconds(instant(*copy, "time")), copy->boolean("pinned")};
  if (const auto tokens = object.optional_integer("tokens", 2, INT64_MAX)) message.tokens = static_cast<std::uint64_t>(*tokens);
  constexpr double most_pixels = 1 << 20;
  if (object.has("picture")) {
    const std::vector<double> sides = object.numbers("picture", 2, 2, 1, most_pixels);
    message.picture = {static_cast<int>(sides[0]), static_cast<int>(sides[1])};
  }
  if (object.has("spent"))
    for (JsonObject& spent : object.objects("spent")) message.spent.push_back(read_spent(spent));
  return message;
}

DrainedMessage read_drained(JsonObject& object) {
  DrainedMessage message;
  message.workers = static_cast<int>(object.integer("workers", 0, most_workers));
  message.measured = object.choice("pass", {"warm", "measure"}) == "measure";
  message.begin = instant(object, "start");
  for (const double at : object.numbers("times", 0, most_steps, 0, most_nanoseconds)) message.delivered.push_back(static_cast<Nanoseconds>(at));
  message.samples = object.numbers("samples", 0, most_steps, 0, 1e12);
  if (message.samples.size() != message.delivered.size()) object.fail("samples", "expected as many as /times has");
  if (!std::ranges::is_sorted(message.delivered)) object.fail("times", "expected instants in their order");
  if (object.has("restarts"))
    for (const double batch : object.numbers("restarts", 0, most_steps, 0, most_steps)) message.restarts.push_back(static_cast<std::size_t>(batch));
  if (!std::ranges::is_sorted(message.restarts)) object.fail("restarts", "expected numbers in their order");
  message.main_thread_cpu_seconds = to_seconds(static_cast<Nanoseconds>(count(object, "main_cpu")));
  if (auto cpu = object.optional_object("cpu"))
    message.cpu = {cpu->number("samples", 0, 1e15), to_seconds(instant(*cpu, "thread")), to_seconds(instant(*cpu, "process")),
                   to_seconds(instant(*cpu, "workers"))};
  if (object.has("takes"))
    for (const double taken : object.numbers("takes", 0, most_steps, 0, most_nanoseconds)) message.takes.push_back(static_cast<Nanoseconds>(taken));
  if (object.has("stages"))
    for (JsonObject& stage : object.objects("stages"))
      message.stages.push_back({stage.text("name"), stage.text("file"), static_cast<int>(stage.integer("line", 0, INT32_MAX)), count(stage, "count"),
                                to_seconds(instant(stage, "cpu"))});
  message.error = object.optional_text("error").value_or("");
  return message;
}

SeenMessage read_seen(JsonObject& object) {
  SeenMessage seen{count(object, "batches"), count(object, "with_gradients"), count(object, "backward"), count(object, "optimizer_steps"), "", "", 0};
  seen.dataset_class = object.optional_text("dataset_class").value_or("");
  seen.file = object.optional_text("file").value_or("");
  seen.line = static_cast<int>(object.optional_integer("line", 0, INT32_MAX).value_or(0));
  return seen;
}

NoteMessage read_note(JsonObject& object) { return {object.text("code"), object.text("text")}; }

}  // namespace

HookMessage parse_hook_message(std::string_view line) {
  JsonObject object = parse_json_object(line, "the training process");
  const std::string type = object.choice("t", {"hello", "rank", "device", "loader", "at", "drained", "note", "seen", "off", "passive", "bye"});
  if (type == "hello" || type == "rank") return read_hello(object);
  if (type == "device") return read_device(object);
  if (type == "loader") return read_loader(object);
  if (type == "at") return read_checkpoint(object);
  if (type == "drained") return read_drained(object);
  if (type == "note") return read_note(object);
  if (type == "seen") return read_seen(object);
  if (type == "off") return OffMessage{object.text("why")};
  if (type == "passive") return PassiveMessage{optional_window(object), optional_gap(object)};
  return ByeMessage{optional_window(object), object.optional_text("error").value_or("")};
}

std::string answer_text(const Answer& answer) {
  nlohmann::json json;
  if (const auto* run = std::get_if<RunSteps>(&answer)) {
    json = {{"do", "run"}, {"steps", run->steps}};
    if (run->count) json["count"] = true;
  } else if (const auto* change = std::get_if<SwitchPhase>(&answer)) {
    json = {{"do", "switch"}, {"mode", enum_name(change->phase)}, {"keep", change->keep}, {"keep_bytes", change->keep_bytes}};
  } else if (const auto* drain = std::get_if<DrainLoader>(&answer)) {
    json = {{"do", "drain"},
            {"workers", drain->workers},
            {"batches", drain->batches},
            {"seconds", drain->seconds},
            {"pass", drain->measured ? "measure" : "warm"}};
  } else {
    json = {{"do", enum_name(std::get<PlainAnswer>(answer))}};
  }
  return json.dump() + "\n";
}

}  // namespace dsanalyze
