#pragma once

#include <filesystem>

namespace dsanalyze {

/// A file, socket or folder with a name that this process made and removes before it ends. This removes nothing: it only says so, for as long as it
/// lives, to who ends the process without waiting for anything. Threads: any.
class NamedPlace {
 public:
  explicit NamedPlace(std::filesystem::path path);
  ~NamedPlace();
  NamedPlace(const NamedPlace&) = delete;
  NamedPlace& operator=(const NamedPlace&) = delete;

 private:
  std::filesystem::path m_path;
};

/// For who is about to end this process without waiting for anything: removes every named place, with what is in it. Not for signal handlers.
void remove_named_places() noexcept;

}  // namespace dsanalyze
