#include "resume_launch.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "base/error.hpp"
#include "base/process/process_tree.hpp"
#include "base/system/files.hpp"
#include "launch.hpp"

namespace dsanalyze {
namespace {

constexpr double answer_look_seconds = 0.05;
constexpr double end_patience_seconds = 2;
constexpr Bytes most_answer_bytes = Bytes{1} << 20;

/// Ends what is left of the command, however this is left.
struct EndOfCommand {
  EndOfCommand() = default;
  EndOfCommand(const EndOfCommand&) = delete;
  EndOfCommand& operator=(const EndOfCommand&) = delete;
  ~EndOfCommand() { end_descendants(end_patience_seconds); }
};

std::string options_text(const ResumeSettings& settings) {
  return fmt::format(R"({{"epochs": {}, "runs": {}, "stops": {}, "workers": [{}], "seed": {}}})", settings.epochs, settings.runs, settings.stops,
                     fmt::join(settings.workers, ", "), settings.seed);
}

}  // namespace

ResumeResult prove_resume(const ResumeLaunch& launch, const std::stop_token& stop, Timing timing) {
  const std::filesystem::path answer = launch.folder / "resume";
  keep_ended_children();
  adopt_orphans();
  SpawnWay way;
  way.output = launch.output;
  const EndOfCommand end;
  const int process = spawn_command(launch.command,
                                    {python_path(launch.hook), "DSANALYZE_ATTACH=" + answer.native(), "DSANALYZE_ATTACH_MODE=resume",
                                     "DSANALYZE_RESUME=" + options_text(launch.settings)},
                                    way);
  const Deadline deadline = timing.clock->after(launch.most_seconds);
  const auto answered = [&] {
    std::error_code ignored;
    return std::filesystem::exists(answer, ignored);
  };
  std::optional<int> status;
  while (!answered()) {
    if (stop.stop_requested()) throw Interrupted();
    if (!status) status = collect_children(process);
    if (status && !answered())
      throw Error(
          "no loader with a state was iterated before the command ended: verify-resume needs a loader with state_dict() and load_state_dict(), such "
          "as "
          "torchdata's StatefulDataLoader or dsanalyze.Loader, in a script that imports PyTorch's DataLoader");
    if (timing.clock->now() >= deadline.at)
      throw Error(
          fmt::format("the loader was not stopped and resumed within {:.0f} s: pass a longer --time-budget, or fewer --runs", launch.most_seconds));
    timing.waiter->sleep_until(timing.clock->after(answer_look_seconds).at);
  }
  ResumeResult result = resume_result_of(read_file(answer, most_answer_bytes));
  result.tool = this_tool();
  result.command = launch.command;
  result.settings = launch.settings;
  return result;
}

}  // namespace dsanalyze
