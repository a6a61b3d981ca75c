#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cli/options/profile_options.hpp"
#include "command.hpp"
#include "doctor/doctor.hpp"

namespace dsanalyze::cli {
namespace {

DoctorResult examined(const ProfileInputs& inputs, const ProfileSettings& asked, DoctorInputs::Depth depth) {
  DoctorInputs doctor;
  doctor.settings = asked;
  doctor.index = inputs.index;
  doctor.host = inputs.host;
  try {
    doctor.state_directory = user_state_directory();
  } catch (const Error&) {
    doctor.state_directory.clear();  // a finding, not the end
  }
  doctor.depth = depth;
  return examine(doctor, *doctor_system());
}

/// What a profile would refuse, apart from what only a profile is asked.
void require_possible(ProfileSettings settings) {
  if (settings.dataset.empty()) settings.dataset = ".";
  settings.runs = {"prep", "fetch"};
  settings.validate();
}

class DoctorCommandLine final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const ProfileOptions options(context.typed);
    const ProfileInputs inputs = options.names_dataset() ? options.resolve(context.options.seed, context.events, context.stop)
                                                         : options.resolve_settings(context.options.seed);
    require_possible(inputs.settings);
    const DoctorResult result = examined(inputs, inputs.settings, DoctorInputs::Depth::thorough);
    Outcome outcome;
    outcome.json = to_json(result);
    outcome.text = console_summary(result, context.style, context.options.verbose ? DoctorDetail::all : DoctorDetail::usual);
    const bool serious = result.count(DoctorStatus::warning) + result.count(DoctorStatus::problem) > 0;
    if (context.typed.given("--strict") && serious) outcome.exit_code = exit_failed;
    return outcome;
  }
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommandLine>(); }

std::vector<Finding> doctor_before_profile(const ProfileInputs& inputs, const ProfileSettings& asked) {
  return doctor_findings(examined(inputs, asked, DoctorInputs::Depth::quick));
}

}  // namespace dsanalyze::cli
