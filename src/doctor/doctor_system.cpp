#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "doctor.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// 4 KiB, or 16 or 64 on some ARM and POWER machines.
std::size_t page_size() {
  static const long bytes = ::sysconf(_SC_PAGESIZE);
  constexpr std::size_t usual = 4096;
  return bytes > 0 ? static_cast<std::size_t>(bytes) : usual;
}

/// Asks for the page at `at` to be dropped, and whether it went.
DoctorSystem::Attempt drop_page(int descriptor, off_t at) {
  const std::size_t page_bytes = page_size();
  if (const int error = ::posix_fadvise(descriptor, at, static_cast<off_t>(page_bytes), POSIX_FADV_DONTNEED); error != 0) return {false, error};
  void* const map = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, descriptor, at);
  if (map == MAP_FAILED) return {false, errno};
  unsigned char resident = 0;
  const int result = ::mincore(map, page_bytes, &resident);
  const int error = errno;
  ::munmap(map, page_bytes);
  return result == 0 ? DoctorSystem::Attempt{(resident & 1U) == 0, 0} : DoctorSystem::Attempt{false, error};
}

class RealSystem final : public DoctorSystem {
 public:
  Limits limit(Limit which) override {
    rlimit values{};
    const int result = which == Limit::open_files      ? ::getrlimit(RLIMIT_NOFILE, &values)
                       : which == Limit::locked_memory ? ::getrlimit(RLIMIT_MEMLOCK, &values)
                                                       : ::getrlimit(RLIMIT_NPROC, &values);
    if (result != 0) throw Error(fmt::format("the limit cannot be asked for: {}", describe_errno(errno)));
    const auto known = [](rlim_t value) { return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value); };
    return {known(values.rlim_cur), known(values.rlim_max)};
  }

  bool is_root() override { return ::geteuid() == 0; }

  IoSupport io_uring() override { return uring_support(); }

  Attempt read_access(const fs::path& file) override {
    const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return descriptor.valid() ? Attempt{true, 0} : Attempt{false, errno};
  }

  Attempt direct_read(const fs::path& file) override {
    const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
    if (!descriptor.valid()) return {false, errno};
    const std::size_t page_bytes = page_size();
    struct Free {
      void operator()(void* memory) const { std::free(memory); }
    };
    const std::unique_ptr<void, Free> memory(std::aligned_alloc(page_bytes, page_bytes));
    if (!memory) return {false, ENOMEM};
    return ::pread(descriptor.get(), memory.get(), page_bytes, 0) > 0 ? Attempt{true, 0} : Attempt{false, errno};
  }

  Attempt drop_pages(const fs::path& file) override {
    const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (!descriptor.valid() || ::fstat(descriptor.get(), &info) != 0) return {false, errno};
    if (info.st_size <= 0) return {false, ENODATA};
    // To others than owners the kernel says that everything is resident.
    const bool tells = info.st_uid == ::geteuid() || ::geteuid() == 0 || ::faccessat(descriptor.get(), "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
    if (!tells) return {false, EACCES};
    const std::size_t page_bytes = page_size();
    const auto last = static_cast<off_t>((static_cast<std::size_t>(info.st_size) - 1) / page_bytes * page_bytes);
    char byte = 0;
    ::posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_RANDOM);
    if (::pread(descriptor.get(), &byte, 1, last) < 0) return {false, errno};
    ::sync_file_range(descriptor.get(), last, static_cast<off_t>(page_bytes),
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    const Attempt attempt = drop_page(descriptor.get(), last);
    if (attempt.done || attempt.error != 0) return attempt;
    // An image's layers (overlay) do not pass on to write one range, and a page that is not written yet stays.
    ::fdatasync(descriptor.get());
    return drop_page(descriptor.get(), last);
  }

  std::string device_number(const fs::path& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev)) : "";
  }

  Space space(const fs::path& path) override {
    std::error_code ignored;
    fs::path there = fs::absolute(path);
    while (!fs::exists(there, ignored) && there != there.parent_path()) there = there.parent_path();
    struct statvfs info {};
    if (::statvfs(there.c_str(), &info) != 0) throw_errno("cannot look at", there.native(), errno);
    return {static_cast<Bytes>(info.f_bavail) * info.f_frsize, ::faccessat(AT_FDCWD, there.c_str(), W_OK | X_OK, AT_EACCESS) == 0};
  }

  Attempt open_device(const fs::path& path) override {
    const FileDescriptor descriptor = open_file(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return descriptor.valid() ? Attempt{true, 0} : Attempt{false, errno};
  }

  const GpuStates& gpus() override {
    if (!m_gpus) m_gpus = ask_nvml();
    return *m_gpus;
  }

  void burn(double seconds) override {
    const Timing timing = system_timing();
    const Deadline end = timing.clock->after(seconds);
    while (timing.clock->now() < end.at) continue;
  }

  double clock_seconds() override {
    constexpr int looks = 1000;
    constexpr int rounds = 5;
    const Timing timing = system_timing();
    Nanoseconds best = nanoseconds_per_second;
    for (int round = 0; round < rounds; ++round) {
      const Nanoseconds begun = timing.clock->now();
      for (int look = 0; look < looks; ++look) static_cast<void>(timing.clock->now());
      best = std::min(best, timing.clock->now() - begun);
    }
    return to_seconds(best) / looks;
  }

 private:
  std::optional<GpuStates> m_gpus;
};

}  // namespace

std::unique_ptr<DoctorSystem> doctor_system() { return std::make_unique<RealSystem>(); }

}  // namespace dsanalyze
