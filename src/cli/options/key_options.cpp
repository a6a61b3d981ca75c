#include "key_options.hpp"

#include <fmt/format.h>

#include <string>

#include "base/error.hpp"

namespace dsanalyze::cli {

void declare_keys(CLI::App& app, SampleKeys& keys) {
  const auto declare = [&app](const char* option, std::string& key) {
    app.add_option_function<std::string>(option, [option, &key](const std::string& list) {
      if (list.empty())
        throw UsageError(fmt::format(
            "{}: found \"\", expected extensions separated by ';', for example \"jpg;png\"; leave the option out for the default", option));
      key = list;
    });
  };
  declare("--image-key", keys.image);
  declare("--label-key", keys.label);
}

}  // namespace dsanalyze::cli
