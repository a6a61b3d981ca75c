#pragma once

#include <filesystem>
#include <optional>

#include "attach/sandbox/sandbox.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {

/// A second process that does what is left to do if the launcher ends without having done it (killed, a second Ctrl-C): it ends the processes of the
/// training, and removes the launch's folder and the layer of its sandbox. It is no descendant of the launcher, keeps none of its files open, and
/// ends with this object. Threads: one at a time.
class Guardian {
 public:
  enum class Duty {
    everything,  ///< the above
    folder       ///< only the folder is removed: the training is a real one and goes on
  };
  /// `folder` is the launch's: processes of the training are told by DSANALYZE_ATTACH=<folder>/attach in their environment. `layer`: empty where
  /// there is no sandbox. Throws Error where no process can be made.
  Guardian(const std::filesystem::path& folder, Duty duty, const std::filesystem::path& layer = {});
  /// Nothing is left to do.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  FileDescriptor m_link;
};

/// The sandbox of a launch, where it gets one, and the guardian of both, until that is gone.
class GuardedSandbox {
 public:
  /// `plan`: absent, or with a refusal, where there is none. Throws Error.
  GuardedSandbox(const std::optional<SandboxPlan>& plan, const std::filesystem::path& folder);
  /// nullptr where there is none.
  [[nodiscard]] const Sandbox* sandbox() const { return m_sandbox ? &*m_sandbox : nullptr; }

 private:
  std::optional<Guardian> m_guardian;  ///< outlives the sandbox
  std::optional<Sandbox> m_sandbox;
};

}  // namespace dsanalyze
