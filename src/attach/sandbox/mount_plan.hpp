#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/host/mounts.hpp"

namespace dsanalyze {

/// One mount below the new root of a sandbox.
struct MountStep {
  enum class Kind {
    overlay,   ///< writes to `path` go to a layer
    bind,      ///< the user's own, with all mounts below
    read_only  ///< the user's own, which cannot be written
  };
  Kind kind = Kind::bind;
  std::filesystem::path path;  ///< outside, and below the new root too
  bool required = false;       ///< overlay: there is no sandbox without it; of others it is read-only where it fails
};

/// Whose rights the mounts are made with.
enum class SandboxRights { own, user_namespace };

struct SandboxSettings {
  std::filesystem::path layers;               ///< the folder in which layers are made
  bool layers_chosen = false;                 ///< by the user: layers lie nowhere else, in memory for one
  std::filesystem::path working_directory;    ///< of the command
  std::vector<std::string> words;             ///< of the command: those that name places name where it may write
  std::vector<std::filesystem::path> shared;  ///< stays the user's own
};

/// The folders and files of this user that stay outside of sandboxes: caches that people want kept ($XDG_CACHE_HOME, $HF_HOME, $TORCH_HOME, those of
/// compilers and drivers) where they exist, CUDA MPS, and sockets that programs of this machine listen at. What holds `working_directory`, or $HOME,
/// is none of them.
std::vector<std::filesystem::path> shared_with_sandboxes(const std::filesystem::path& working_directory);

/// The mounts that are seen at their point, those above others first. What a later mount hides is none: the order of the kernel's table does not say
/// it.
std::vector<MountEntry> reachable_mounts();

/// The working directory, and the folders that the command's words name ("PATH", "--option=PATH"), or in which what they name would be made: those
/// that it may write now, and so has to be able to in the sandbox; of words, not those that stay the user's own. Throws Error where the working
/// directory does.
std::vector<std::filesystem::path> written_folders(const SandboxSettings& settings);

/// The mounts of a sandbox, in order; the first is the root's. With rights of its own, each writable mount becomes an overlay. In a user namespace
/// overlays begin at folders that the user may write and that have no mounts below; all else is read-only. `written`: written_folders(). `mounts`:
/// reachable_mounts(). Throws Error where a written folder can be no part of an overlay; the message says why.
std::vector<MountStep> plan_mounts(const SandboxSettings& settings, SandboxRights rights, const std::vector<std::filesystem::path>& written,
                                   const std::vector<MountEntry>& mounts);

/// Whether `path` is `folder`, or lies in it.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace dsanalyze
