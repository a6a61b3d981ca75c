#include "command.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/help/help.hpp"
#include "cli/options/typed_options.hpp"

namespace dsanalyze::cli {
namespace {

class CompletionsCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const std::string& shell = context.typed.text("SHELL");
    if (shell.empty()) throw UsageError("for which shell? bash, fish or zsh, for example: dsanalyze completions bash");
    const std::string script = completion_script(shell);
    const nlohmann::ordered_json json{{"schema", "dsanalyze.completions/1"}, {"shell", shell}, {"script", script}};
    return {json.dump(2), script};
  }
};

}  // namespace

std::unique_ptr<Command> make_completions_command() { return std::make_unique<CompletionsCommand>(); }

}  // namespace dsanalyze::cli
