#include "private_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t longest_place = 64;  // what the kernel takes of a socket's path is short

/// The user's alone, as it should be.
bool is_private(const char* folder) {
  struct stat facts {};
  return ::stat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string made_in(const std::string& place) {
  std::string name = place + "/dsanalyze-XXXXXX";
  return ::mkdtemp(name.data()) == nullptr ? std::string() : name;
}

}  // namespace

PrivateFolder::PrivateFolder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/' && std::char_traits<char>::length(runtime) <= longest_place && is_private(runtime)) {
    m_path = made_in(runtime);
  }
  if (m_path.empty()) m_path = made_in("/tmp");
  if (m_path.empty()) throw_errno("cannot make a private folder in", "/tmp", errno);
  m_named.emplace(m_path);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(m_path, ignored);
}

}  // namespace dsanalyze::cli
