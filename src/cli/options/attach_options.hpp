#pragma once

#include <string>
#include <vector>

#include "attach/launch.hpp"

namespace CLI {
class App;
}

namespace dsanalyze::cli {

/// The options of `profile -- COMMAND`, which launches the user's own training.
class AttachOptions {
 public:
  /// Beside the options of `profile DATASET`, declared in the same app before.
  void declare(CLI::App& app);
  /// Without command: refuses the options that only launching knows. With it: refuses those that belong to dsanalyze's own loader. Throws UsageError.
  void check(bool launches) const;
  [[nodiscard]] bool passive() const { return m_passive; }
  /// Without hook and folder. Throws UsageError that names the option.
  [[nodiscard]] LaunchSettings settings(std::vector<std::string> command, const std::string& time_budget, const std::string& subset) const;

 private:
  bool m_passive = false;
  bool m_keep_output = false;
  std::string m_hang_timeout;
  std::vector<std::string> m_given;  ///< the options that were typed, with their dashes; "DATASET"
};

}  // namespace dsanalyze::cli
