#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "../base/temporary_folder.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "doctor/doctor.hpp"

namespace dsanalyze {
namespace {

using testing::TemporaryFolder;

/// The soft limit of this process while this lives.
class SoftLimit {
 public:
  SoftLimit(decltype(RLIMIT_NOFILE) which, rlim_t soft) : m_which(which) {
    ::getrlimit(which, &m_before);
    const rlimit now{soft, m_before.rlim_max};
    ::setrlimit(which, &now);
  }
  ~SoftLimit() { ::setrlimit(m_which, &m_before); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;
  [[nodiscard]] rlim_t hard() const { return m_before.rlim_max; }

 private:
  decltype(RLIMIT_NOFILE) m_which;
  rlimit m_before{};
};

/// A page of a file that a process has mapped and read: the kernel does not drop it.
class MappedPage {
 public:
  MappedPage(const std::filesystem::path& file, off_t at) {
    const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC);
    m_map = ::mmap(nullptr, bytes(), PROT_READ, MAP_SHARED, descriptor.get(), at);
    REQUIRE(m_map != MAP_FAILED);
    m_read = *static_cast<const volatile char*>(m_map);
  }
  ~MappedPage() { ::munmap(m_map, bytes()); }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;
  static std::size_t bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

 private:
  void* m_map = nullptr;
  char m_read = 0;
};

bool keeps_files_in_memory(const std::filesystem::path& path) {
  constexpr auto of_tmpfs = 0x01021994;
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 && info.f_type == of_tmpfs;
}

GpuStates asked_with(const char* settings) {
  ::setenv("FAKE_NVML", settings, 1);
  GpuStates states = ask_nvml();
  ::unsetenv("FAKE_NVML");
  return states;
}

}  // namespace

TEST_CASE("limits are the kernel's, soft and hard, and none where there is none") {
  const auto system = doctor_system();
  {
    const SoftLimit files(RLIMIT_NOFILE, 321);
    CHECK(system->limit(DoctorSystem::Limit::open_files).soft == 321);
    if (files.hard() != RLIM_INFINITY) CHECK(system->limit(DoctorSystem::Limit::open_files).hard == files.hard());
  }
  {
    const SoftLimit memory(RLIMIT_MEMLOCK, 8192);
    CHECK(system->limit(DoctorSystem::Limit::locked_memory).soft == 8192);
  }
  {
    const SoftLimit threads(RLIMIT_NPROC, 12'345);
    CHECK(system->limit(DoctorSystem::Limit::processes).soft == 12'345);
    if (threads.hard() == RLIM_INFINITY) CHECK_FALSE(system->limit(DoctorSystem::Limit::processes).hard.has_value());
  }
  CHECK(system->is_root() == (::geteuid() == 0));
}

TEST_CASE("a file that can be read and one that is not there are told apart, with the kernel's reason") {
  const auto system = doctor_system();
  const TemporaryFolder folder;
  folder.write("there", std::string(5000, 'x'));
  const auto absent = folder.path() / "absent";
  CHECK(system->read_access(folder.path() / "there").done);
  CHECK_FALSE(system->read_access(absent).done);
  CHECK(system->read_access(absent).error == ENOENT);
  CHECK_FALSE(system->direct_read(absent).done);
  CHECK(system->direct_read(absent).error == ENOENT);
  const DoctorSystem::Attempt direct = system->direct_read(folder.path() / "there");
  CHECK(direct.done == (direct.error == 0));
  if (!direct.done) CHECK(direct.error == EINVAL);  // a filesystem that cannot
  CHECK(system->open_device("/dev/null").done);
  CHECK_FALSE(system->open_device(absent).done);
  CHECK(system->open_device(absent).error == ENOENT);
}

TEST_CASE("the last page of a file is dropped, unless a process uses it") {
  const auto system = doctor_system();
  const TemporaryFolder folder;
  if (keeps_files_in_memory(folder.path())) return;
  const std::size_t page = MappedPage::bytes();
  const auto file = folder.path() / "file";
  for (const std::size_t size : {std::size_t{1}, page, page + 1, 3 * page}) {
    CAPTURE(size);
    folder.write("file", std::string(size, 'x'));
    const auto last = static_cast<off_t>((size - 1) / page * page);
    CHECK(system->drop_pages(file).done);
    {
      const MappedPage used(file, last);
      const DoctorSystem::Attempt attempt = system->drop_pages(file);
      CHECK_FALSE(attempt.done);
      CHECK(attempt.error == 0);
    }
    if (last > 0) {
      const MappedPage used(file, last - static_cast<off_t>(page));
      CHECK(system->drop_pages(file).done);
    }
  }
  folder.write("file", "");
  CHECK(system->drop_pages(file).error == ENODATA);
  CHECK(system->drop_pages(folder.path() / "absent").error == ENOENT);
}

TEST_CASE("space and device are those of the nearest folder that is there") {
  const auto system = doctor_system();
  const TemporaryFolder folder;
  struct statvfs info {};
  REQUIRE(::statvfs(folder.path().c_str(), &info) == 0);
  const auto whole = static_cast<double>(info.f_blocks) * static_cast<double>(info.f_frsize);
  const auto free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  for (const auto& path : {folder.path(), folder.path() / "not" / "yet"}) {
    const DoctorSystem::Space space = system->space(path);
    CHECK(space.writable);
    CHECK(static_cast<double>(space.free) == doctest::Approx(free).epsilon(0.05 * whole / std::max(free, 1.0)));
  }
  CHECK_FALSE(system->space("/proc/self").writable);
  struct stat here {};
  REQUIRE(::stat(folder.path().c_str(), &here) == 0);
  CHECK(system->device_number(folder.path()) == std::to_string(major(here.st_dev)) + ":" + std::to_string(minor(here.st_dev)));
  CHECK(system->device_number(folder.path() / "absent").empty());
}

TEST_CASE("a core is kept busy for as long as is asked, and a look at the clock takes time") {
  const auto system = doctor_system();
  const Nanoseconds cpu_before = thread_cpu_time();
  const Nanoseconds before = system_timing().clock->now();
  system->burn(0.05);
  CHECK(system_timing().clock->now() - before >= 50'000'000);
  CHECK(thread_cpu_time() > cpu_before);
  CHECK(system->clock_seconds() > 0);
}

TEST_CASE("what NVIDIA's library tells of a GPU is taken over, and what it does not know stays open") {
  const GpuStates found = asked_with("width=8,heat=1,errors=2,pid=77");
  CHECK(found.why_none.empty());
  REQUIRE(found.gpus.size() == 1);
  const GpuState& gpu = found.gpus[0];
  CHECK(gpu.name == "Fake GPU");
  CHECK(gpu.pci == "0000:3b:00.0");
  CHECK(gpu.link_generation_most == 5);
  CHECK_FALSE(gpu.link_generation_of_gpu.has_value());
  CHECK(gpu.link_width == 8);
  CHECK(gpu.link_width_most == 16);
  CHECK(gpu.held_back_by == GpuHeldBack::by_heat - 0x20);
  CHECK(gpu.memory_errors == 2);
  CHECK_FALSE(gpu.divided.has_value());
  REQUIRE(gpu.processes.size() == 1);
  CHECK(gpu.processes[0].pid == 77);
  CHECK(gpu.processes[0].memory_bytes == 1ULL << 30);
  CHECK(asked_with("mig=1").gpus.at(0).divided == true);
  CHECK(asked_with("mig=0").gpus.at(0).divided == false);
  CHECK(asked_with("pid=77,hides-memory=1").gpus.at(0).processes.at(0).memory_bytes == 0);
  CHECK(asked_with("").gpus.at(0).processes.empty());
}

TEST_CASE("a management library that does not start says why, but for a driver that is not loaded") {
  CHECK(asked_with("init=4").why_none == "NVIDIA's management library does not start (answer 4: no permission)");
  CHECK(asked_with("init=7").why_none == "NVIDIA's management library does not start (answer 7)");
  for (const char* const settings : {"init=4", "init=7", "init=9"}) CHECK(asked_with(settings).gpus.empty());
  CHECK(asked_with("init=9").why_none.empty());
  CHECK(asked_with("count=3").why_none == "NVIDIA's management library does not tell which GPUs there are");
}

TEST_CASE("how much of the time GPUs compute is told by their UUIDs, and not of one that is not there") {
  ::setenv("FAKE_NVML", "use=40", 1);
  const auto use = gpu_use();
  CHECK(use("GPU-fake") == doctest::Approx(0.4));
  CHECK(use("GPU-fake,GPU-fake") == doctest::Approx(0.4));
  for (const char* const absent : {"", "GPU-other", "GPU-fake,GPU-other"}) CHECK_FALSE(use(absent).has_value());
  ::setenv("FAKE_NVML", "init=9", 1);
  CHECK_FALSE(gpu_use()("GPU-fake").has_value());
  ::unsetenv("FAKE_NVML");
}

TEST_CASE("the GPUs are asked for once") {
  const auto system = doctor_system();
  CHECK(system->gpus().gpus.size() == 1);
  ::setenv("FAKE_NVML", "init=9", 1);
  CHECK(system->gpus().gpus.size() == 1);
  ::unsetenv("FAKE_NVML");
}

}  // namespace dsanalyze
