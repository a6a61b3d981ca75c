#include "base/host/control_group.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "child_process.hpp"
#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::in_child;
using testing::TemporaryFolder;

namespace {

constexpr const char* v1_mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

std::string refusal(const std::filesystem::path& root) {
  try {
    const MemoryGroup group(root);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Where the machine lets this process have a group, `body` runs in one, in a child of its own.
template <typename Body>
std::optional<int> in_group(const Body& body) {
  constexpr int not_permitted = 77;
  const int status = in_child([&] {
    try {
      MemoryGroup group;
      return body(group);
    } catch (const Error&) {
      return not_permitted;
    }
  });
  return status == not_permitted ? std::nullopt : std::optional(status);
}

}  // namespace

TEST_CASE("without a memory cgroup, or without the right to make one, the refusal says what to do") {
  const TemporaryFolder bare;
  bare.write("proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  CHECK(refusal(bare.path()).find("systemd-run") != std::string::npos);

  const TemporaryFolder no_group;  // the mount is named and not there
  no_group.write("proc/self/mountinfo", v1_mount);
  no_group.write("proc/self/cgroup", "4:memory:/job\n");
  CHECK(refusal(no_group.path()).find("making the cgroup") != std::string::npos);

  const TemporaryFolder no_controller;
  no_controller.write("proc/self/mountinfo", v1_mount);
  no_controller.write("proc/self/cgroup", "4:memory:/job\n");
  no_controller.write("sys/fs/cgroup/memory/job/cgroup.procs", "");
  CHECK(refusal(no_controller.path()).find("no memory controller") != std::string::npos);
  CHECK(std::filesystem::is_empty(no_controller.path() / "sys/fs/cgroup/memory/job") == false);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(no_controller.path() / "sys/fs/cgroup/memory/job")) left += entry.is_directory();
  CHECK(left == 0);
}

TEST_CASE("the page cache of a process in a limited group stays at the limit, and the group goes with the process") {
  const TemporaryFolder folder;
  constexpr std::size_t file_bytes = std::size_t{48} << 20;
  constexpr Bytes limit = Bytes{24} << 20;
  folder.write("file", std::string(file_bytes, 'x'));
  const std::string path = (folder.path() / "file").string();
  const auto status = in_group([&](MemoryGroup& group) {
    group.limit(limit);
    const FileDescriptor file(::open(path.c_str(), O_RDONLY));
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<char> buffer(1 << 20);
    for (off_t at = 0; at < static_cast<off_t>(file_bytes); at += 1 << 20) {
      if (::pread(file.get(), buffer.data(), buffer.size(), at) <= 0) return 2;
    }
    const auto use = group.use();
    if (use.total > limit + (Bytes{1} << 20)) return 3;
    if (use.page_cache == 0 || use.page_cache > limit) return 4;
    return 0;
  });
  if (!status) {
    MESSAGE("skipped: this process may not make a memory cgroup");
    return;
  }
  CHECK(*status == 0);
}

TEST_CASE("a process that was started in a group and is still there when it goes is moved to the parent") {
  const auto groups_of = [](pid_t process) {
    return read_file("/proc/" + std::to_string(process) + "/cgroup").find("dsanalyze-") != std::string::npos;
  };
  const int status = in_child([&] {
    std::optional<MemoryGroup> group;
    try {
      group.emplace();
    } catch (const Error&) {
      return 77;
    }
    const pid_t started = ::fork();
    if (started == 0) {
      ::pause();
      ::_exit(0);
    }
    const auto folder = own_control_group("memory", "/")->folder;
    const bool within = groups_of(started);
    group.reset();
    const bool left = groups_of(started);
    ::kill(started, SIGKILL);
    ::waitpid(started, nullptr, 0);
    if (!within) return 2;
    if (left) return 3;
    return std::filesystem::exists(folder) ? 4 : 0;
  });
  if (status == 77) {
    MESSAGE("skipped: this process may not make a memory cgroup");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("a group that a killed process left behind is removed by the next one") {
  const auto status = in_group([](MemoryGroup&) { return 0; });
  if (!status) {
    MESSAGE("skipped: this process may not make a memory cgroup");
    return;
  }
  // By its name, as other programs may have groups here, too.
  const std::filesystem::path parent = own_control_group("memory", "/")->folder;
  const TemporaryFolder folder;
  CHECK(in_child([&]() -> int {
          const MemoryGroup group;
          folder.write("name", "dsanalyze-" + std::to_string(::getpid()));
          ::kill(::getpid(), SIGKILL);
          return 0;
        }) == -1);
  const std::filesystem::path left = parent / read_file(folder.path() / "name");
  CHECK(std::filesystem::exists(left));
  CHECK(in_child([] {
          const MemoryGroup group;
          return 0;
        }) == 0);
  CHECK_FALSE(std::filesystem::exists(left));
}
