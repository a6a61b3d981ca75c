#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

FileDescriptor open_for_reading(const std::filesystem::path& path) {
  FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC);
  if (!file.valid()) throw_errno("cannot open", path.native(), errno);
  return file;
}

std::filesystem::path user_directory(const char* variable, const char* below_home) {
  // The XDG base directory specification: a relative path is invalid and ignored.
  if (const char* const base = std::getenv(variable); base != nullptr && *base == '/') return std::filesystem::path(base) / "dsanalyze";
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') return std::filesystem::path(home) / below_home / "dsanalyze";
  throw Error(fmt::format("neither {} nor HOME names an absolute folder: set one of them to where dsanalyze may keep its files", variable));
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    m_descriptor = std::exchange(other.m_descriptor, -1);
  }
  return *this;
}

void FileDescriptor::reset() {
  if (m_descriptor >= 0) ::close(m_descriptor);
  m_descriptor = -1;
}

FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  for (;;) {
    FileDescriptor file(::open(path.c_str(), flags, mode));
    if (file.valid() || errno != EINTR) return file;
  }
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor file = open_for_reading(path);
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) throw_errno("cannot look at", path.native(), errno);
  if (!S_ISREG(facts.st_mode)) throw Error(fmt::format("cannot map {}: it is not a regular file", path.native()));
  if (facts.st_size == 0) return;
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) throw_errno("cannot map", path.native(), errno);
  m_data = data;
  m_size = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : m_data(std::exchange(other.m_data, nullptr)), m_size(std::exchange(other.m_size, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(m_data, other.m_data);
  std::swap(m_size, other.m_size);
  return *this;
}

MappedFile::~MappedFile() {
  if (m_data != nullptr) ::munmap(const_cast<void*>(m_data), m_size);
}

std::string read_file(const std::filesystem::path& path, Bytes limit) {
  const FileDescriptor file = open_for_reading(path);
  std::string content;
  struct stat facts {};
  if (::fstat(file.get(), &facts) == 0 && facts.st_size > 0 && static_cast<Bytes>(facts.st_size) <= limit) {
    content.reserve(static_cast<std::size_t>(facts.st_size));
  }
  // The size is only a hint: files of /proc say 0, and a file may grow while it is read.
  constexpr std::size_t chunk_bytes = 65'536;
  const auto chunk = std::make_unique<std::array<char, chunk_bytes>>();
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk->data(), chunk->size());
    if (got == 0) return content;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", path.native(), errno);
    if (content.size() + static_cast<std::size_t>(got) > limit) {
      throw Error(fmt::format("cannot read {}: it is larger than the {} expected of such a file at most", path.native(), format_bytes(limit)));
    }
    content.append(chunk->data(), static_cast<std::size_t>(got));
  }
}

std::filesystem::path user_state_directory() { return user_directory("XDG_STATE_HOME", ".local/state"); }

std::filesystem::path user_cache_directory() { return user_directory("XDG_CACHE_HOME", ".cache"); }

}  // namespace dsanalyze
