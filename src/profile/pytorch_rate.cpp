#include "pytorch_rate.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/process/command_group.hpp"
#include "base/process/spawn.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

constexpr double seconds_between_looks = 0.05;
constexpr std::size_t least_points = 3;

[[noreturn]] void fail(const std::string& why) {
  throw Error(
      fmt::format("--accelerator pytorch: {}. A training of your own is measured as it is by `dsanalyze profile -- python3 train.py`; a rate "
                  "that you know is passed as --accelerator emulated:RATE",
                  why));
}

/// Samples and seconds since the measuring began, later than `last`.
std::optional<ProgressPoint> read_point(const nlohmann::json& json, const ProgressPoint& last) {
  constexpr double most_seconds = 1e6;
  const auto seconds = json.find("seconds");
  const auto samples = json.find("samples");
  if (seconds == json.end() || samples == json.end() || !seconds->is_number() || !samples->is_number_unsigned()) return std::nullopt;
  if (!(seconds->get<double>() > 0 && seconds->get<double>() < most_seconds)) return std::nullopt;
  const ProgressPoint point{to_nanoseconds(seconds->get<double>()), samples->get<std::uint64_t>()};
  return point.at > last.at && point.samples > last.samples ? std::optional(point) : std::nullopt;
}

/// The text under a key; empty where there is none.
std::string text_of(const nlohmann::json& json, const char* key) {
  const auto text = json.find(key);
  return text != json.end() && text->is_string() ? printable(text->get<std::string>()) : "";
}

/// What the script has left. Its last line may be torn.
MeasuredAccelerator read_answer(const std::filesystem::path& file) {
  MeasuredAccelerator measured;
  std::vector<ProgressPoint> points;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    const std::string error = json.is_object() ? text_of(json, "error") : "what the measuring process wrote is not understood";
    if (!error.empty()) fail(error);
    if (points.empty()) {
      measured.on_cpu = text_of(json, "device") == "cpu";
      measured.method = fmt::format("PyTorch {}, torchvision {}, {}{}", text_of(json, "torch"), text_of(json, "torchvision"), text_of(json, "name"),
                                    json.contains("mixed_precision") && json["mixed_precision"] == true ? ", mixed precision" : "");
      points.emplace_back();
    } else if (const auto point = read_point(json, points.back())) {
      points.push_back(*point);
    } else {
      fail("what the measuring process wrote is not understood");
    }
  }
  if (points.size() < least_points) return measured;
  measured.rate = iteration_rate(points);
  measured.samples = points.back().samples;
  measured.seconds = to_seconds(points.back().at);
  return measured;
}

}  // namespace

MeasuredAccelerator measure_pytorch_rate(const PyTorchQuestion& question, const std::stop_token& stop, Timing timing) {
  const std::filesystem::path out = question.folder / "rate";
  const nlohmann::json json{{"network", question.network}, {"device", question.device},   {"batch", question.batch_size},
                            {"crop", question.crop_size},  {"seconds", question.seconds}, {"labels", 1000},
                            {"out", out.native()}};
  CommandGroup python([&] { return spawn_command({"python3", question.script.native(), json.dump()}, {}, {.output = SpawnWay::Output::to_stderr}); });
  const Deadline end = timing.clock->after(question.patience_seconds);
  while (!python.ended()) {
    if (stop.stop_requested()) throw Interrupted();
    if (timing.clock->now() > end.at)
      fail(fmt::format("PyTorch has not trained {} batches of {} in {}; pass a smaller --batch-size", least_points, question.batch_size,
                       format_seconds(question.patience_seconds)));
    timing.waiter->sleep_until(timing.clock->after(seconds_between_looks).at);
  }
  const std::optional<int> status = python.finish();
  MeasuredAccelerator measured = read_answer(out);
  if (!status) fail("how python3 ended is not known: something else has collected it");
  if (WIFSIGNALED(*status)) fail(fmt::format("python3 was ended by signal {} ({})", WTERMSIG(*status), strsignal(WTERMSIG(*status))));
  if (WEXITSTATUS(*status) != 0) fail(fmt::format("python3 ended with exit code {}", WEXITSTATUS(*status)));
  if (!(measured.rate.estimate.value > 0)) fail("the measuring process wrote too few steps");
  measured.method = fmt::format("{}, batches of {}: {}", question.network, question.batch_size, measured.method);
  return measured;
}

}  // namespace dsanalyze
