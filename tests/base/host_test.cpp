#include "base/host/host.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "child_process.hpp"
#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

std::unique_ptr<TemporaryFolder> made_up_host() {
  auto folder = std::make_unique<TemporaryFolder>();
  folder->write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    500 kB\n");
  folder->write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Made Up 9000\n");
  folder->write("proc/sys/kernel/osrelease", "6.1.0-test\n");
  folder->write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,5,9\n");
  folder->write("sys/devices/system/cpu/online", "0-7\n");
  folder->write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  folder->write("proc/self/cgroup", "0::/job\n");
  return folder;
}

}  // namespace

TEST_CASE("host facts come from proc, and only CPUs that are allowed and online are usable") {
  const auto folder = made_up_host();
  const HostFacts facts = read_host_facts(folder->path());
  CHECK(facts.cpu_model == "Made Up 9000");
  CHECK(facts.kernel == "6.1.0-test");
  CHECK(facts.cores_online == 8);
  CHECK(facts.cpus_allowed == std::vector<int>{0, 1, 2, 5});
  CHECK(facts.cores_usable == 4);
  CHECK(facts.worker_count() == 4);
  CHECK(facts.memory_total == 1000 * 1024);
  CHECK(facts.memory_usable == 500 * 1024);
}

TEST_CASE("hyper-threads of one core are one physical core") {
  const auto folder = made_up_host();  // CPUs 0, 1, 2 and 5 are allowed
  CHECK(read_host_facts(folder->path()).cores_physical == 4);
  for (const int cpu : {0, 1}) folder->write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", "0-1\n");
  folder->write("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n");
  CHECK(read_host_facts(folder->path()).cores_physical == 3);
}

TEST_CASE("a cgroup's limits go before the host's figures") {
  const auto folder = made_up_host();
  folder->write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  folder->write("sys/fs/cgroup/job/memory.max", "300000\n");
  folder->write("sys/fs/cgroup/job/memory.current", "200000\n");
  folder->write("sys/fs/cgroup/job/memory.stat", "inactive_file 50000\n");
  const HostFacts facts = read_host_facts(folder->path());
  CHECK(facts.cores_usable == 1.5);
  CHECK(facts.worker_count() == 1);
  CHECK(facts.memory_usable == 150'000);
}

TEST_CASE("a cgroup that is past its limit leaves nothing, and one that is wider than the host changes nothing") {
  const auto folder = made_up_host();
  folder->write("sys/fs/cgroup/job/cpu.max", "6400000 100000\n");
  folder->write("sys/fs/cgroup/job/memory.max", "1000\n");
  folder->write("sys/fs/cgroup/job/memory.current", "2000\n");
  CHECK(read_host_facts(folder->path()).cores_usable == 4);
  CHECK(read_host_facts(folder->path()).memory_usable == 0);
  folder->write("sys/fs/cgroup/job/memory.max", "999999999999\n");
  CHECK(read_host_facts(folder->path()).memory_usable == 500 * 1024);
}

TEST_CASE("less than one core still gives one worker") {
  HostFacts facts;
  facts.cores_usable = 0.25;
  CHECK(facts.worker_count() == 1);
}

TEST_CASE("a host without proc is an error that names the file") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_host_facts(folder.path()), Error);
}

TEST_CASE("this machine has a core, memory and a kernel") {
  const HostFacts facts = read_host_facts();
  CHECK(facts.cores_usable > 0);
  CHECK_FALSE(facts.cpus_allowed.empty());
  CHECK(facts.memory_usable > 0);
  CHECK(facts.memory_usable <= facts.memory_total);
  CHECK_FALSE(facts.kernel.empty());
  CHECK(resident_memory() > 0);
  CHECK(peak_resident_memory() >= resident_memory() / 2);  // the kernel counts both loosely
}

TEST_CASE("a thread's affinity is its own and shows in the facts that it reads") {
  const std::vector<int> before = read_host_facts().cpus_allowed;
  std::vector<int> inside;
  bool set = false;
  std::thread([&] {
    set = set_thread_affinity({before.back()});
    inside = read_host_facts().cpus_allowed;
  }).join();
  CHECK(set);
  CHECK(inside == std::vector<int>{before.back()});
  CHECK(read_host_facts().cpus_allowed == before);
}

TEST_CASE("an affinity without a CPU of this machine is refused") {
  CHECK_FALSE(set_thread_affinity({}));
  CHECK_FALSE(set_thread_affinity({-1}));
  CHECK_FALSE(set_thread_affinity({100'000}));
}

TEST_CASE("the limit of open files is raised as far as the hard limit allows, and never lowered") {
  const auto allowed = [](rlim_t soft, rlim_t hard, std::uint64_t wanted) {
    return testing::in_child([=] {
      const rlimit limit{soft, hard};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 98;
      const std::uint64_t now = allow_open_files(wanted);
      rlimit after{};
      ::getrlimit(RLIMIT_NOFILE, &after);
      return after.rlim_cur == now && after.rlim_max == hard ? static_cast<int>(now) : 97;
    });
  };
  CHECK(allowed(20, 80, 50) == 50);
  CHECK(allowed(20, 80, 90) == 80);
  CHECK(allowed(60, 80, 50) == 60);
}

TEST_CASE("files that are opened are counted") {
  const std::uint64_t before = count_open_files();
  CHECK(before > 0);
  const FileDescriptor one = open_file("/dev/null", O_RDONLY);
  CHECK(count_open_files() == before + 1);
}

TEST_CASE("a thread that yields to others is of lower priority, and the others are not") {
  const int before = ::getpriority(PRIO_PROCESS, 0);
  int within = before;
  std::thread([&] {
    yield_to_other_threads();
    within = ::getpriority(PRIO_PROCESS, 0);
  }).join();
  constexpr int lowest_asked = 10;
  CHECK(within >= std::min(before + 1, lowest_asked));  // Where this program itself yields to others, it stays so.
  CHECK(::getpriority(PRIO_PROCESS, 0) == before);
}
