#include "common_options.hpp"

#include <CLI/CLI.hpp>

namespace dsanalyze::cli {

void declare_common(CLI::App& app, CommonOptions& options, CommonTexts& texts) {
  // Help is found before parsing, so that no mistake elsewhere hides it.
  app.set_help_flag();
  app.add_flag("-h,--help");
  app.add_flag("--json", options.json);
  app.add_option("-o,--output", texts.output)->type_name("FILE");
  app.add_flag("-q,--quiet", options.quiet);
  app.add_flag("-v,--verbose", options.verbose);
  app.add_option("--color", texts.colour)->type_name(std::string(colour_choices));
  app.add_option("--seed", texts.seed);
  // Unknown ones are reported here, with suggestions.
  app.allow_extras();
  for (CLI::App* action : app.get_subcommands({})) {
    action->set_help_flag();
    action->fallthrough();
  }
}

}  // namespace dsanalyze::cli
