#pragma once

#include "attach/launch.hpp"
#include "typed_options.hpp"

namespace dsanalyze::cli {

/// The options of `profile -- COMMAND`, which launches the user's own training.
class AttachOptions {
 public:
  /// `typed` lives as long as this does.
  explicit AttachOptions(const TypedOptions& typed) : m_typed(typed) {}

  /// Without command, refuses the options that only launching knows; with one, those that belong to dsanalyze's own loader. Throws UsageError.
  void check() const;
  [[nodiscard]] bool passive() const { return m_typed.given("--passive"); }
  /// Without hook and folder. Throws UsageError that names the option.
  [[nodiscard]] LaunchSettings settings() const;

 private:
  const TypedOptions& m_typed;
};

/// The sandbox of a command that is launched, by --sandbox and what this machine permits; `words` as they were typed. Throws Error where the folder
/// that was named cannot hold one.
SandboxPlan sandbox_for(const TypedOptions& typed, const std::vector<std::string>& words);

}  // namespace dsanalyze::cli
