#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace dsanalyze {

/// What became of the changes that a training made to files while it was profiled.
struct OutputsUndone {
  std::size_t removed = 0;            ///< new files
  std::size_t restored = 0;           ///< files that are as they were before
  std::vector<std::string> files;     ///< the first of them
  std::vector<std::string> failures;  ///< changes that could not be taken back, with the cause and where the original lies
};

/// Where the hook's journals of a launch with this folder lie: beside it, so that they outlive what a second Ctrl-C removes.
std::filesystem::path journals_of(const std::filesystem::path& folder);

/// Where programs write what they do not mean to keep: /tmp, /var/tmp, /dev/shm and $TMPDIR, links resolved. Threads: any that may read the
/// environment.
std::vector<std::filesystem::path> temporary_folders();

/// Takes back the changes that the hook wrote down in the folder's journals (python/dsanalyze/_attach/originals.py), the latest first, and removes
/// the folders of originals. An entry that was cut off, or whose change never happened, is passed over; an attempt that was interrupted goes on where
/// it was. A folder without journals is no error; a folder that is gone is a failure. A file that the script removed and that is younger than the
/// folder stays removed where the run had made it: a process of it wrote down that it did, or made its folder, or it lay in one of `temporary`, where
/// programs write that the script starts. Any other one may be the user's and goes back. Threads: one at a time, when no process of the training
/// lives.
OutputsUndone undo_outputs(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& temporary = temporary_folders());

}  // namespace dsanalyze
