#include "convert_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// The folder's own path, without a slash at its end.
fs::path own_path(const fs::path& destination) {
  const fs::path whole = fs::absolute(destination).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

void require_free(const fs::path& place) {
  struct stat facts {};
  if (lstat(place.c_str(), &facts) != 0) {
    if (errno == ENOENT) return;
    throw_errno("cannot write to", place.string(), errno);
  }
  if (!S_ISDIR(facts.st_mode)) throw Error("the destination " + place.string() + " is there already and no folder; name one that is not there yet");
  std::error_code failure;
  const bool is_empty = fs::is_empty(place, failure);
  if (failure) throw_errno("cannot look into", place.string(), failure.value());
  if (!is_empty) throw Error("the destination " + place.string() + " is not empty; name a folder that is not there yet, or empty it");
  struct stat parent {};
  if (stat(place.parent_path().c_str(), &parent) == 0 && parent.st_dev != facts.st_dev)
    throw Error("the destination " + place.string() + " is a mount point, which cannot be replaced as a whole; name a folder below it");
}

void require_room(const fs::path& parent, Bytes needed) {
  std::error_code failure;
  const fs::space_info space = fs::space(parent, failure);
  if (failure || space.available >= needed) return;
  throw Error(fmt::format("too little room at {}: about {} are needed, {} are free; free some space or name another place", parent.string(),
                          format_bytes(needed), format_bytes(space.available)));
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& destination, Bytes needed) : m_destination(own_path(destination)) {
  const fs::path parent = m_destination.parent_path();
  std::error_code failure;
  if (!fs::is_directory(parent, failure)) throw Error("cannot write to " + m_destination.string() + ": there is no folder " + parent.string());
  require_free(m_destination);
  require_room(parent, needed);
  m_temporary = parent / ("." + m_destination.filename().string() + ".converting");
  if (mkdir(m_temporary.c_str(), 0777) != 0 && errno != EEXIST) throw_errno("cannot create the folder", m_temporary.string(), errno);
  m_lock = FileDescriptor(open(m_temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!m_lock.valid()) throw_errno("cannot open the folder", m_temporary.string(), errno);
  if (flock(m_lock.get(), LOCK_EX | LOCK_NB) != 0) {
    m_temporary.clear();
    throw Error("another conversion writes to " + m_destination.string() + " right now; wait for it or name another place");
  }
  for (const fs::directory_entry& left_over : fs::directory_iterator(m_temporary)) {
    fs::remove_all(left_over.path(), failure);
    if (failure) throw_errno("cannot remove what an earlier conversion left,", left_over.path().string(), failure.value());
  }
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;  // nothing can be done about it here; the next conversion tries again
  if (!m_is_committed) fs::remove_all(m_temporary, ignored);
}

void OutputFolder::commit() {
  if (syncfs(m_lock.get()) != 0) throw_errno("cannot write through to the disk", m_temporary.string(), errno);
  if (rename(m_temporary.c_str(), m_destination.c_str()) != 0) throw_errno("cannot give the folder its name,", m_destination.string(), errno);
  m_is_committed = true;
}

OutputFile::OutputFile(const fs::path& path)
    : m_path(path), m_descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (!m_descriptor.valid()) fail(errno);
}

void OutputFile::append(std::string_view bytes) {
  write_at(m_written, std::as_bytes(std::span(bytes)));
  m_written += bytes.size();
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = pwrite(m_descriptor.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void OutputFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done = pread(m_descriptor.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void OutputFile::set_size(std::uint64_t bytes) const {
  if (ftruncate(m_descriptor.get(), static_cast<off_t>(bytes)) != 0) fail(errno);
}

void OutputFile::fail(int error) const {
  const char* fix = error == ENOSPC || error == EDQUOT ? "; free some space there or name another place; nothing is left of what was written" : "";
  throw Error(fmt::format("cannot write {}: {}{}", m_path.string(), describe_errno(error), fix));
}

}  // namespace dsanalyze
