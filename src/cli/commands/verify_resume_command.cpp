#include <fmt/format.h>

#include <set>

#include "attach/resume_launch.hpp"
#include "base/error.hpp"
#include "base/text/units.hpp"
#include "cli/options/attach_options.hpp"
#include "cli/options/typed_options.hpp"
#include "cli/process/data_files.hpp"
#include "command.hpp"
#include "core/records/resume_result.hpp"

namespace dsanalyze::cli {
namespace {

std::string summary(const ResumeResult& result) {
  std::string text =
      fmt::format("{}: {} runs with {} stops, {} samples, {} lost, {} repeated\n", result.loader, format_number(static_cast<double>(result.runs)),
                  format_number(static_cast<double>(result.stops)), format_number(static_cast<double>(result.samples)),
                  format_number(static_cast<double>(result.lost)), format_number(static_cast<double>(result.repeated)));
  if (!result.workers_refused.empty())
    text += fmt::format("Its state was loaded with {} workers alone, as the script has them: with another number it fails ({}).\n",
                        fmt::join(result.workers, ", "), result.workers_refused);
  if (result.proved())
    return text + (result.same_order ? "Each run gave the batches of a run that is not stopped, in their order.\n"
                                     : "Each sample came once an epoch, in another order than in a run that is not stopped.\n");
  if (result.fault) {
    const ResumeResult::Fault& fault = *result.fault;
    if (std::set(result.workers.begin(), result.workers.end()).size() > 1)
      text += fmt::format("It was resumed with {} workers in turn; --workers {} alone tries it with the script's own number.\n",
                          fmt::join(result.workers, ", "), result.workers.front());
    text += fmt::format("First {}: {} of epoch {}, in run {} of seed {}, which was stopped after {} batches.\n", fault.what,
                        result.by == "indices" ? "sample " + fault.sample : "the sample with digest " + fault.sample, fault.epoch, fault.run,
                        result.settings.seed, fmt::join(fault.stops, ", "));
  }
  return text;
}

class VerifyResumeCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    ResumeLaunch launch;
    launch.command = context.typed.words();
    if (launch.command.empty()) throw UsageError("which script? Give its command: dsanalyze verify-resume -- python3 train.py");
    context.typed.put(launch.settings);
    launch.settings.seed = context.options.seed;
    context.typed.set(launch.most_seconds, "--time-budget", parse_seconds);
    if (!(launch.most_seconds > 0)) throw UsageError("--time-budget: found 0, expected a time above 0");
    if (!context.typed.given("--workers")) launch.settings.workers.clear();
    launch.hook = hook_directory();
    if (context.options.json) launch.output = SpawnWay::Output::to_stderr;
    const PrivateFolder folder;
    launch.folder = folder.path();
    launch.sandbox = sandbox_for(context.typed, launch.command);
    context.events.note(fmt::format(
        "plan: start the command, and stop and resume its first loader with a state, {} runs of {} epochs with {} stops each; nothing is trained",
        launch.settings.runs, launch.settings.epochs, launch.settings.stops));
    if (!launch.sandbox.refusal.empty())
      context.events.note(fmt::format("plan: no sandbox ({}): what the command writes before its first batch stays", launch.sandbox.refusal));
    const ResumeResult result = prove_resume(launch, context.stop, system_timing());
    Outcome outcome;
    outcome.json = to_json(result);
    outcome.text = summary(result);
    outcome.exit_code = result.proved() ? exit_ok : exit_failed;
    return outcome;
  }
};

}  // namespace

std::unique_ptr<Command> make_verify_resume_command() { return std::make_unique<VerifyResumeCommand>(); }

}  // namespace dsanalyze::cli
