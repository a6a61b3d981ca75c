#include "live_models.hpp"

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "models/whatif/live_model.hpp"

namespace dsanalyze::cli {
namespace {

std::string whatif_command(const std::string& path) {
  if (path.empty()) return "dsanalyze whatif";
  // A name that begins with "-" would be read as an option.
  return "dsanalyze whatif " + shell_word(path.front() == '-' ? "./" + path : path);
}

}  // namespace

std::string live_model_json(const ProfileResult& profile, const std::string& path) {
  try {
    return to_json(live_model(rate_model(profile), whatif_command(path)));
  } catch (const UsageError&) {
    return "";
  }
}

}  // namespace dsanalyze::cli
