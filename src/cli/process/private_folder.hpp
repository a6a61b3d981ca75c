#pragma once

#include <filesystem>
#include <optional>

#include "base/system/files.hpp"

namespace dsanalyze::cli {

/// A folder with a name that nobody can guess, in the user's runtime folder ($XDG_RUNTIME_DIR) or /tmp, that nobody else may enter.
class PrivateFolder {
 public:
  /// Throws Error.
  PrivateFolder();
  /// Removes it, and what is in it.
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  std::filesystem::path m_path;
  std::optional<NamedPlace> m_named;
};

}  // namespace dsanalyze::cli
