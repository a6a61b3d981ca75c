#include "attach_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "base/text/units.hpp"
#include "option_values.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::array<std::string_view, 3> of_launching{"--passive", "--keep-output", "--hang-timeout"};
constexpr std::array<std::string_view, 6> of_both{"--time-budget", "--subset", "--html", "--metrics", "--require-trusted", "--dry-run"};
constexpr std::array<std::string_view, 8> of_all_commands{"--json", "--output", "--quiet", "--verbose", "--color", "--seed", "--help", "--version"};

}  // namespace

void AttachOptions::declare(CLI::App& app) {
  app.add_flag("--passive", m_passive);
  app.add_flag("--keep-output", m_keep_output);
  app.add_option("--hang-timeout", m_hang_timeout);
  app.final_callback([this, &app] {
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() == 0) continue;
      m_given.push_back(option->get_lnames().empty() ? option->get_name() : "--" + option->get_lnames().front());
    }
  });
}

void AttachOptions::check(bool launches) const {
  for (const std::string& given : m_given) {
    const auto among = [&given](const auto& names) { return std::ranges::find(names, given) != names.end(); };
    if (!launches && among(of_launching))
      throw UsageError(fmt::format("{}: is for a training that is launched: dsanalyze profile {} -- python3 train.py", given, given));
    if (launches && !among(of_launching) && !among(of_both) && !among(of_all_commands))
      throw UsageError(
          fmt::format("{}: belongs to dsanalyze's own loader; behind \"--\" stands a command, which brings its own loader and data", given));
  }
  if (launches && m_passive && m_keep_output) throw UsageError("--keep-output: a run under --passive keeps its output in any case");
}

LaunchSettings AttachOptions::settings(std::vector<std::string> command, const std::string& time_budget, const std::string& subset) const {
  LaunchSettings settings;
  settings.command = std::move(command);
  settings.mode = m_passive ? AttachMode::passive : AttachMode::phases;
  settings.keep_output = m_keep_output;
  set_if(settings.plan.seconds, "--time-budget", time_budget, parse_seconds);
  set_if(settings.plan.hang_seconds, "--hang-timeout", m_hang_timeout, parse_seconds);
  set_if(settings.plan.subset_bytes, "--subset", subset, parse_bytes);
  return settings;
}

}  // namespace dsanalyze::cli
