#include "attach_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <unistd.h>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::cli {
namespace {

/// Of those that `profile` has besides, what a training that is launched can be measured with.
constexpr std::array<std::string_view, 7> of_both{"--time-budget", "--subset", "--html", "--metrics", "--require-trusted", "--dry-run", "--trace"};
constexpr std::string_view launch_group = "launch";

}  // namespace

void AttachOptions::check() const {
  const bool launches = !m_typed.words().empty();
  for (const Option* option : m_typed.given_options("profile")) {
    const bool of_launching = place_of(*option, "profile")->group == launch_group;
    const std::string_view name = option->names;
    if (!launches && of_launching)
      throw UsageError(fmt::format("{}: is for a training that is launched: dsanalyze profile {} -- python3 train.py", name, name));
    if (launches && !of_launching && std::ranges::find(of_both, name) == of_both.end())
      throw UsageError(fmt::format("{}: belongs to dsanalyze's own loader; behind \"--\" stands a command, which brings its own loader and data",
                                   option->is_argument() ? "DATASET" : name));
  }
  for (const char* const name : {"--time-budget", "--subset"})
    if (passive() && m_typed.given(name))
      throw UsageError(fmt::format("{}: is for phases; a run under --passive clocks the training from its start to its end", name));
  if (passive() && m_typed.given("--trace")) throw UsageError("--trace: what a run under --passive reads is not traced; leave one of the two out");
  if (passive() && m_typed.given("--hang-timeout"))
    throw UsageError("--hang-timeout: is for phases; py-spy dump --pid PID says where a training stands that nothing is asked of");
  for (const char* const name : {"--sandbox", "--keep"}) {
    if (passive() && m_typed.given(name)) throw UsageError(fmt::format("{}: a run under --passive writes where it always does", name));
    if (m_typed.given(name) && m_typed.given("--keep-output"))
      throw UsageError(fmt::format("{}: --keep-output is an ordinary run, without a sandbox; leave one of the two out", name));
  }
  if (passive() && m_typed.given("--keep-output")) throw UsageError("--keep-output: a run under --passive keeps its output in any case");
}

/// Where layers are made unless the user says it: beside the profiles, or where temporary files go.
std::filesystem::path layers_folder() {
  try {
    std::filesystem::path folder = user_state_directory() / "sandbox";
    std::filesystem::create_directories(folder.parent_path());
    if (::access(folder.parent_path().c_str(), W_OK) == 0) return folder;
  } catch (const std::exception&) {  // No such directory, or a read-only home.
  }
  return std::filesystem::path("/tmp") / fmt::format("dsanalyze-sandbox-{}", ::geteuid());
}

/// Throws UsageError where it is no folder, or the one that the command works in, which would see it.
std::filesystem::path chosen_layers(const std::string& typed, const std::filesystem::path& working_directory) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(typed, error);
  if (error || !std::filesystem::is_directory(folder)) throw UsageError(fmt::format("--sandbox: {} is no folder; name one that is there", typed));
  if (folder == working_directory) throw UsageError("--sandbox: the command works in this folder; name another one");
  return folder / "dsanalyze-sandbox";
}

SandboxPlan sandbox_for(const TypedOptions& typed, const std::vector<std::string>& words) {
  SandboxSettings settings;
  settings.working_directory = std::filesystem::current_path();
  settings.words.assign(words.begin() + 1, words.end());
  settings.shared = shared_with_sandboxes(settings.working_directory);
  if (typed.given("--keep")) {
    std::error_code error;
    settings.shared.push_back(std::filesystem::canonical(typed.text("--keep"), error));
    if (error) throw UsageError(fmt::format("--keep: {} is not there; make it before, so that it can be kept", typed.text("--keep")));
    if (lies_in(settings.working_directory.native(), settings.shared.back()))
      throw UsageError("--keep: the command works in there, so nothing would be discarded; name what is to stay, or pass --keep-output");
  }
  settings.layers_chosen = typed.given("--sandbox");
  settings.layers = settings.layers_chosen ? chosen_layers(typed.text("--sandbox"), settings.working_directory) : layers_folder();
  return plan_sandbox(settings);
}

LaunchSettings AttachOptions::settings() const {
  LaunchSettings settings;
  settings.command = m_typed.words();
  settings.mode = passive() ? AttachMode::passive : AttachMode::phases;
  settings.keep_output = m_typed.given("--keep-output");
  m_typed.put(settings.plan);
  m_typed.set(settings.plan.seconds, "--time-budget", [](const std::string& text) { return parse_seconds(text); });
  if (settings.plan.seconds <= 0) throw UsageError("--time-budget: expected a time above zero, in which the phases are measured");
  m_typed.set(settings.plan.subset_bytes, "--subset", [](const std::string& text) { return parse_bytes(text); });
  if (!passive() && !settings.keep_output) {
    settings.sandbox = sandbox_for(m_typed, settings.command);
    if (!settings.sandbox->refusal.empty()) settings.plan.phases = Conductor::Phases::full_and_prep;
  }
  return settings;
}

}  // namespace dsanalyze::cli
