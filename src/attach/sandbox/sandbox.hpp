#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "attach/sandbox/mount_plan.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What was tried out on this machine, and can be repeated for each start of a command.
struct SandboxPlan {
  SandboxSettings settings;
  SandboxRights rights = SandboxRights::own;
  bool in_memory = false;  ///< the layer is a tmpfs of the sandbox's own
  std::vector<MountStep> steps{};
  std::string refusal{};  ///< why this machine, or this command, gets no sandbox; empty: it does
};

/// Plans the mounts, tries them in a process that ends at once, and tries less where they are refused: the user namespace after own rights, memory
/// after the folder for layers. A machine that permits none of it is no error: see SandboxPlan::refusal. Throws UsageError where the folder
/// that the user has chosen cannot hold layers. Threads: one at a time.
SandboxPlan plan_sandbox(const SandboxSettings& settings);

/// What a command has changed in its sandbox.
struct SandboxContents {
  std::size_t files = 0;           ///< written, those that were there before too
  Bytes bytes = 0;                 ///< of them
  std::vector<std::string> named;  ///< the first of them
  bool full = false;               ///< no space is left for more
};

/// A private mount namespace for one start of a command, in which the user's writable folders are overlays: what the command and its descendants
/// write lands in a layer, which is gone with this object. Other programs see nothing of it. Not isolated: /dev/shm, the network, daemons.
/// Threads: one at a time.
class Sandbox {
 public:
  /// Removes layers whose owner is dead, too. `launch`: the launch's folder, which the command shares. Throws Error.
  Sandbox(const SandboxPlan& plan, const std::filesystem::path& launch);
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;
  ~Sandbox();

  /// In the child of a fork, before exec: makes the mounts and enters the working directory anew. nullptr, or what failed (errno says why).
  /// Async-signal-safe.
  [[nodiscard]] const char* enter() const noexcept;

  /// Where the file lies that the command has at `path`: in the layer, or where it is. For as long as this object lives.
  [[nodiscard]] std::filesystem::path outside(const std::filesystem::path& path) const;
  [[nodiscard]] SandboxContents contents() const;
  /// Why a command that failed in here may run elsewhere, and how: a sentence.
  [[nodiscard]] std::string way_out() const;
  [[nodiscard]] const std::filesystem::path& layer() const { return m_layer; }

 private:
  struct Mount {
    MountStep step;
    std::string target, upper, work;
    unsigned mode = 0;  ///< of the folder, which its layer gets
    unsigned user = 0, group = 0;
  };
  [[nodiscard]] bool is_full() const;
  void prepare(const MountStep& step);
  [[nodiscard]] const char* make_namespace() const noexcept;
  [[nodiscard]] const char* make_layer() const noexcept;
  [[nodiscard]] const char* make(const Mount& mount) const noexcept;
  [[nodiscard]] const char* make_overlay(const Mount& mount) const noexcept;
  [[nodiscard]] const char* make_read_only(const Mount& mount) const noexcept;
  [[nodiscard]] const char* change_root() const noexcept;

  SandboxPlan m_plan;
  std::filesystem::path m_layer;
  FileDescriptor m_lock;  ///< held while this process lives
  std::string m_root, m_hidden, m_user_map, m_group_map;
  const char* m_overlay_options;
  std::vector<Mount> m_mounts;
};

/// Removes a layer, whatever modes its folders have, and the folder of layers where it was the last. Threads: any.
void remove_layer(const std::filesystem::path& layer) noexcept;

}  // namespace dsanalyze
