#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

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

namespace {

namespace fs = std::filesystem;

constexpr mode_t mode_of_new_files = 0644;
constexpr mode_t permission_bits = 07777;

[[noreturn]] void fail_to_write(const fs::path& path, int error_number) { throw_errno("cannot write", path.native(), error_number); }

}  // namespace

/// A name that nothing has yet, in the folder of `target`; removed on destruction unless keep() was called.
class TemporaryName {
 public:
  explicit TemporaryName(const fs::path& target) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) fail_to_write(target, errno);
    m_path = target.parent_path() / fmt::format(".{:.60}.{:016x}.tmp", target.filename().native(), number);
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  TemporaryName(TemporaryName&&) = delete;
  TemporaryName& operator=(TemporaryName&&) = delete;
  ~TemporaryName() {
    if (m_exists) ::unlink(m_path.c_str());
  }
  [[nodiscard]] const fs::path& path() const { return m_path; }
  void exists_now() { m_exists = true; }
  void rename_to(const fs::path& target) {
    if (::rename(m_path.c_str(), target.c_str()) != 0) fail_to_write(target, errno);
    m_exists = false;
  }

 private:
  fs::path m_path;
  bool m_exists = false;
};

namespace {

/// errno, or 0.
int write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Without AT_EMPTY_PATH, which older kernels grant to root alone.
int link_unnamed(int descriptor, const fs::path& name) {
  const std::string source = fmt::format("/proc/self/fd/{}", descriptor);
  return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/// Gives an unnamed file its name. A link cannot replace a file, a rename can.
void name_file(int descriptor, const fs::path& target) {
  int error = link_unnamed(descriptor, target);
  if (error == EEXIST) {
    TemporaryName name(target);
    error = link_unnamed(descriptor, name.path());
    if (error == 0) {
      name.exists_now();
      name.rename_to(target);
    }
  }
  if (error != 0) fail_to_write(target, error);
}

// So that the new name survives a power cut too. Some filesystems cannot; the content is safe even there.
void sync_folder(const fs::path& folder) {
  const FileDescriptor descriptor = open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor.valid()) ::fsync(descriptor.get());
}

/// The file that takes the content: what `path` names, past a symbolic link, in a folder that is there.
fs::path target_of(const fs::path& path) {
  if (!path.has_filename()) throw Error(fmt::format("cannot write \"{}\": it does not name a file", path.native()));
  std::error_code hidden;  // what cannot be looked at fails when it is written
  if (fs::is_directory(path, hidden)) throw Error(fmt::format("cannot write {}: it is a folder; name a file in it", path.native()));
  fs::path target = fs::exists(path, hidden) ? fs::canonical(path) : fs::absolute(path);
  if (!fs::is_directory(target.parent_path(), hidden) && hidden != std::errc::permission_denied)
    throw Error(fmt::format("cannot write {}: the folder {} does not exist; make it first", path.native(), target.parent_path().native()));
  return target;
}

}  // namespace

struct AtomicFile::State {
  State(const fs::path& given, TemporaryKind kind) : path(given) {
    struct stat facts {};
    const bool is_there = ::stat(path.c_str(), &facts) == 0;
    if (is_there && !S_ISDIR(facts.st_mode) && !S_ISREG(facts.st_mode)) {  // /dev/null, a terminal or a pipe: replacing it is not what its user means
      file = open_file(path, O_WRONLY | O_CLOEXEC);
      if (!file.valid()) fail_to_write(path, errno);
      return;
    }
    target = target_of(path);
    if (is_there) mode = facts.st_mode & permission_bits;
    if (kind == TemporaryKind::unnamed) open_unnamed();
    if (!file.valid()) open_named();
  }

  /// Does nothing if this filesystem has no unnamed files.
  void open_unnamed() {
    file = open_file(target->parent_path(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode_of_new_files);
    if (!file.valid() && errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail_to_write(*target, errno);
  }
  void open_named() {
    name.emplace(*target);
    file = open_file(name->path(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of_new_files);
    if (!file.valid()) fail_to_write(*target, errno);
    name->exists_now();
  }
  void commit() {
    if (error != 0) fail_to_write(path, error);
    if (!target) return;
    if (mode && ::fchmod(file.get(), *mode) != 0) fail_to_write(*target, errno);
    if (::fsync(file.get()) != 0) fail_to_write(*target, errno);
    if (name) {
      name->rename_to(*target);
    } else {
      name_file(file.get(), *target);
    }
    sync_folder(target->parent_path());
  }

  fs::path path;
  std::optional<fs::path> target;  ///< of what is not written in place
  std::optional<mode_t> mode;      ///< of the file that is replaced
  std::optional<TemporaryName> name;
  FileDescriptor file;
  int error = 0;
};

AtomicFile::AtomicFile(const fs::path& path) : m_state(std::make_unique<State>(path, TemporaryKind::unnamed)) {}
AtomicFile::~AtomicFile() = default;

bool AtomicFile::write(std::string_view content) noexcept {
  if (m_state->error == 0) m_state->error = write_all(m_state->file.get(), content);
  return m_state->error == 0;
}

void AtomicFile::commit() { m_state->commit(); }

void require_writable(const fs::path& path) {
  struct stat facts {};
  const bool is_there = ::stat(path.c_str(), &facts) == 0;
  if (!is_there || S_ISDIR(facts.st_mode) || S_ISREG(facts.st_mode)) {
    const fs::path folder = target_of(path).parent_path();
    if (::access(folder.c_str(), W_OK | X_OK) != 0) fail_to_write(path, errno);
  } else if (::access(path.c_str(), W_OK) != 0) {
    fail_to_write(path, errno);
  }
}

void write_file_atomically(const fs::path& path, std::string_view content) { write_file_atomically(path, content, TemporaryKind::unnamed); }

void write_file_atomically(const fs::path& path, std::string_view content, TemporaryKind kind) {
  AtomicFile::State file(path, kind);
  file.error = write_all(file.file.get(), content);
  file.commit();
}

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
