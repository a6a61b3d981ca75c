#pragma once

#include <filesystem>

#include "base/system/files.hpp"
#include "sandbox.hpp"

namespace dsanalyze {

struct NewLayer {
  std::filesystem::path path;
  FileDescriptor lock;  ///< of the layer; its owner lives while it is held
};
/// Makes the folder for layers and returns its path without links. Throws Error naming path and cause where it is another's, or others may use it.
std::filesystem::path made_layers_folder(const std::filesystem::path& layers);
/// A layer of this process in `layers`, which is made where there is none. Removes those whose owner is dead. Throws Error naming path and cause.
NewLayer make_new_layer(const std::filesystem::path& layers);

/// Adds what lies in `upper`, the layer over `folder`. What an overlay writes there to say that a file was removed is no file.
void add_contents(const std::filesystem::path& upper, const std::filesystem::path& folder, SandboxContents& contents);

}  // namespace dsanalyze
