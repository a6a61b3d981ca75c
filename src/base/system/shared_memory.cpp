#include "shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

std::byte* map_shared(int descriptor, std::size_t bytes, int protection, HugePages huge_pages, const std::string& label) {
  void* const data = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) throw_errno("cannot map the shared memory", label, errno);
  // Only a hint: many kernels keep huge pages from shared memory, and nothing depends on them.
  ::madvise(data, bytes, huge_pages == HugePages::where_allowed ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(data);
}

void populate_pages(std::byte* begin, std::size_t bytes) {
  constexpr int madv_populate_write = 23;  // newer than some headers
  ::madvise(begin, bytes, madv_populate_write);
}

}  // namespace

std::size_t required(const std::string& label, std::size_t bytes, std::size_t promised) {
  if (bytes == 0) throw Error(fmt::format("cannot make the memory {}: it would be empty", label));
  const Bytes usable = read_host_facts().memory_usable;
  const Bytes available = usable - std::min<Bytes>(usable, promised);
  if (bytes > available) {
    throw NoMemoryError(
        fmt::format("cannot make the memory {}: it needs {}, and this process may use {} now (free memory, or its cgroup's limit less "
                    "its use); ask for less, or free memory or raise the limit",
                    label, format_bytes(bytes), format_bytes(available)));
  }
  return bytes;
}

MemorySegment MemorySegment::create(const std::string& label, std::size_t bytes, HugePages huge_pages, std::size_t promised) {
  required(label, bytes, promised);
  MemorySegment segment;
  segment.m_descriptor = FileDescriptor(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int descriptor = segment.m_descriptor.get();
  if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    throw_errno("cannot make the shared memory", label, errno);
  }
  segment.m_data = map_shared(descriptor, bytes, PROT_READ | PROT_WRITE, huge_pages, label);
  segment.m_size = bytes;
  return segment;
}

MemorySegment MemorySegment::attach(FileDescriptor descriptor, Access access, std::size_t minimum_bytes) {
  // What another process hands over is not believed: a file that its maker may still shrink would kill this process on a touch (SIGBUS).
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & wanted) != wanted) throw Error("cannot attach shared memory: the descriptor is no memory sealed against resizing");
  struct stat facts {};
  if (::fstat(descriptor.get(), &facts) != 0) throw_errno("cannot look at", "a shared memory descriptor", errno);
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  if (bytes == 0 || bytes < minimum_bytes) {
    throw Error(fmt::format("cannot attach shared memory: it has {} bytes, at least {} are needed; are both programs of the same version?", bytes,
                            minimum_bytes));
  }
  MemorySegment segment;
  const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  segment.m_data = map_shared(descriptor.get(), bytes, protection, HugePages::where_allowed, "of another process");
  segment.m_size = bytes;
  segment.m_descriptor = std::move(descriptor);
  return segment;
}

MemorySegment::MemorySegment(MemorySegment&& other) noexcept
    : m_descriptor(std::move(other.m_descriptor)), m_data(std::exchange(other.m_data, nullptr)), m_size(std::exchange(other.m_size, 0)) {}

MemorySegment& MemorySegment::operator=(MemorySegment&& other) noexcept {
  if (this != &other) {
    MemorySegment old(std::move(*this));
    m_descriptor = std::move(other.m_descriptor);
    m_data = std::exchange(other.m_data, nullptr);
    m_size = std::exchange(other.m_size, 0);
  }
  return *this;
}

MemorySegment::~MemorySegment() {
  if (m_data != nullptr) ::munmap(m_data, m_size);
}

void MemorySegment::populate() { populate(0, m_size); }

void MemorySegment::populate(std::size_t begin, std::size_t bytes) { populate_pages(m_data + begin, std::min(bytes, m_size - begin)); }

std::size_t MemorySegment::resident_bytes() const {
  struct stat facts {};
  if (::fstat(m_descriptor.get(), &facts) != 0) throw_errno("cannot look at", "a shared memory segment", errno);
  return static_cast<std::size_t>(facts.st_blocks) * 512;  // st_blocks counts these whatever st_blksize is (stat(2))
}

void MemorySegment::forbid_future_writers() {
  if (::fcntl(m_descriptor.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    throw_errno("cannot seal", "a shared memory segment", errno);
  }
}

bool MemorySegment::future_writers_forbidden() const {
  const int seals = ::fcntl(m_descriptor.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) != 0;
}

ZeroedMemory::ZeroedMemory(std::size_t bytes) {
  if (bytes == 0) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw NoMemoryError(fmt::format("no memory for a table of {}", format_bytes(bytes)));
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // refused where the kernel has none: then it is in small ones
  m_bytes = {static_cast<std::byte*>(memory), bytes};
}

void ZeroedMemory::populate() { populate_pages(m_bytes.data(), m_bytes.size()); }

ZeroedMemory::ZeroedMemory(ZeroedMemory&& other) noexcept : m_bytes(std::exchange(other.m_bytes, {})) {}

ZeroedMemory& ZeroedMemory::operator=(ZeroedMemory&& other) noexcept {
  std::swap(m_bytes, other.m_bytes);
  return *this;
}

ZeroedMemory::~ZeroedMemory() {
  if (!m_bytes.empty()) ::munmap(m_bytes.data(), m_bytes.size());
}

}  // namespace dsanalyze
