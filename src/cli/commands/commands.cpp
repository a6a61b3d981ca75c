#include <array>

#include "command.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::array program_commands{
    CommandEntry{"profile", "measures whether, where and why an accelerator waits for data", make_profile_command, AfterDashes::a_command},
    CommandEntry{"whatif", "predicts other configurations from a profile or typed rates", make_whatif_command},
    CommandEntry{"gate", "tells whether the data path got slower, for CI", make_gate_command},
    CommandEntry{"simulate", "replays access orders and traces through cache policies", make_simulate_command},
    CommandEntry{"report", "shows saved results as HTML, Markdown or text, or side by side", make_report_command},
    CommandEntry{"share", "prepares batches once for several training jobs of your own", make_share_command, AfterDashes::a_command},
    CommandEntry{"verify-resume", "proves that a script's loader resumes without losing a sample", make_verify_resume_command,
                 AfterDashes::a_command},
    CommandEntry{"dataset", "makes, indexes, describes and verifies datasets", make_dataset_command},
    CommandEntry{"doctor", "says what spoils a measurement on this machine, and its fix", make_doctor_command},
    CommandEntry{"list", "lists the known workloads, servers, datasets and storage", make_list_command},
    CommandEntry{"completions", "prints the script by which bash, fish or zsh completes", make_completions_command},
};

}  // namespace

std::span<const CommandEntry> commands() { return program_commands; }

}  // namespace dsanalyze::cli
