#include "named_places.hpp"

#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace dsanalyze {
namespace {

struct Places {
  std::mutex mutex;
  std::vector<std::filesystem::path> paths;
};

Places& places() {
  static Places all;
  return all;
}

}  // namespace

NamedPlace::NamedPlace(std::filesystem::path path) : m_path(std::move(path)) {
  const std::lock_guard lock(places().mutex);
  places().paths.push_back(m_path);
}

NamedPlace::~NamedPlace() {
  const std::lock_guard lock(places().mutex);
  std::erase(places().paths, m_path);
}

void remove_named_places() noexcept {
  const std::lock_guard lock(places().mutex);
  for (const std::filesystem::path& path : places().paths) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

}  // namespace dsanalyze
