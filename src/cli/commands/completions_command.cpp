#include "command.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/help/complete.hpp"
#include "cli/options/option_table.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view shells = "bash|fish|zsh";

class CompletionsCommand final : public Command {
 public:
  void declare(CLI::App& app) override { app.add_option("SHELL", m_shell)->type_name(std::string(shells)); }

  Outcome run(const CommandContext& /*context*/) override {
    if (m_shell.empty()) throw UsageError("for which shell? bash, fish or zsh, for example: dsanalyze completions bash");
    const std::string script = completion_script(checked_choice("the shell", m_shell, words_of(shells)));
    const nlohmann::ordered_json json{{"schema", "dsanalyze.completions/1"}, {"shell", m_shell}, {"script", script}};
    return {json.dump(2), script};
  }

 private:
  std::string m_shell;
};

}  // namespace

std::unique_ptr<Command> make_completions_command() { return std::make_unique<CompletionsCommand>(); }

}  // namespace dsanalyze::cli
