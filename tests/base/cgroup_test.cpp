#include <doctest/doctest.h>

#include "base/host/host.hpp"
#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

constexpr const char* unified_mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* v1_mounts =
    "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";

void write_v2(const TemporaryFolder& folder, const std::string& group, const std::string& cpu, const std::string& memory, const std::string& current,
              const std::string& inactive) {
  const std::string base = "sys/fs/cgroup" + group;
  folder.write(base + "/cpu.max", cpu + "\n");
  folder.write(base + "/memory.max", memory + "\n");
  folder.write(base + "/memory.current", current + "\n");
  folder.write(base + "/memory.stat", "anon 5\ninactive_file " + inactive + "\nactive_file 7\n");
}

void write_v1_memory(const TemporaryFolder& folder, const std::string& group, const std::string& limit, const std::string& usage) {
  const std::string base = "sys/fs/cgroup/memory" + group;
  folder.write(base + "/memory.limit_in_bytes", limit + "\n");
  folder.write(base + "/memory.usage_in_bytes", usage + "\n");
  folder.write(base + "/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
}

}  // namespace

TEST_CASE("without cgroups there are no limits") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.version == 0);
  CHECK_FALSE(limits.cpu_cores);
  CHECK_FALSE(limits.memory_limit);
  CHECK(read_cgroup_limits(folder.path() / "nowhere").version == 0);
}

TEST_CASE("v2: quota, limit and use without inactive page cache are read from the own group") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/user/job\n");
  write_v2(folder, "/user/job", "150000 100000", "4000000", "900000", "300000");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.version == 2);
  CHECK(limits.cpu_cores == 1.5);
  CHECK(limits.memory_limit == 4'000'000);
  CHECK(limits.memory_in_use == 600'000);
}

TEST_CASE("v2: \"max\" is no limit") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/job\n");
  write_v2(folder, "/job", "max 100000", "max", "900000", "0");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.version == 2);
  CHECK_FALSE(limits.cpu_cores);
  CHECK_FALSE(limits.memory_limit);
}

TEST_CASE("v2: the tightest of all groups up to the root counts, each resource by itself") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/a/b/c\n");
  write_v2(folder, "/a/b/c", "800000 100000", "9000", "10", "0");
  write_v2(folder, "/a/b", "200000 100000", "max", "0", "0");
  write_v2(folder, "/a", "400000 100000", "5000", "1000", "200");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.cpu_cores == 2);
  CHECK(limits.memory_limit == 5000);
  CHECK(limits.memory_in_use == 800);
}

TEST_CASE("v2: the limit that leaves least counts, not the lowest") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/a/b\n");
  write_v2(folder, "/a/b", "max 100000", "5000", "100", "0");
  write_v2(folder, "/a", "max 100000", "9000", "8900", "0");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.memory_limit == 9000);
  CHECK(limits.memory_in_use == 8900);
}

TEST_CASE("v2: memory.high is a limit too") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/a\n");
  write_v2(folder, "/a", "max 100000", "max", "100", "0");
  folder.write("sys/fs/cgroup/a/memory.high", "7000\n");
  CHECK(read_cgroup_limits(folder.path()).memory_limit == 7000);
}

TEST_CASE("v1: each controller has its own tree and group") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", v1_mounts);
  folder.write("proc/self/cgroup", "9:name=systemd:/s\n4:memory:/docker/m\n1:cpu,cpuacct:/docker/c\n");
  folder.write("sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_quota_us", "50000\n");
  folder.write("sys/fs/cgroup/cpu,cpuacct/docker/c/cpu.cfs_period_us", "100000\n");
  write_v1_memory(folder, "/docker/m", "8000", "1100");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.version == 1);
  CHECK(limits.cpu_cores == 0.5);
  CHECK(limits.memory_limit == 8000);
  CHECK(limits.memory_in_use == 1000);
}

TEST_CASE("v1: -1 and 9223372036854771712 are no limits, but a parent's limit is one") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", v1_mounts);
  folder.write("proc/self/cgroup", "4:memory:/a/b\n1:cpu,cpuacct:/\n");
  folder.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  folder.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write_v1_memory(folder, "/a/b", "9223372036854771712", "1100");
  CHECK_FALSE(read_cgroup_limits(folder.path()).cpu_cores);
  CHECK_FALSE(read_cgroup_limits(folder.path()).memory_limit);
  write_v1_memory(folder, "/a", "6000", "600");
  CHECK(read_cgroup_limits(folder.path()).memory_limit == 6000);
  CHECK(read_cgroup_limits(folder.path()).memory_in_use == 500);
}

TEST_CASE("in a container the mounted root counts when the own path lies outside of it") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write_v1_memory(folder, "", "3000", "100");
  write_v1_memory(folder, "/inner", "2000", "100");
  folder.write("sys/fs/cgroup/memory.limit_in_bytes", "10\n");  // beside the mount: no process's cgroup
  folder.write("proc/self/cgroup", "4:memory:/other/place\n");
  CHECK(read_cgroup_limits(folder.path()).memory_limit == 3000);
  folder.write("proc/self/cgroup", "4:memory:/docker/abc\n");
  CHECK(read_cgroup_limits(folder.path()).memory_limit == 3000);
  folder.write("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  CHECK(read_cgroup_limits(folder.path()).memory_limit == 2000);
}

TEST_CASE("in a namespace of its own the root is \"/..\" and the mount's root counts") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", "30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  folder.write("proc/self/cgroup", "0::/\n");
  write_v2(folder, "", "300000 100000", "3000", "0", "0");
  CHECK(read_cgroup_limits(folder.path()).cpu_cores == 3);
}

TEST_CASE("hybrid: v1 controllers are used where they are, v2 for the rest") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo",
               "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  folder.write("proc/self/cgroup", "4:memory:/m\n0::/u\n");
  write_v1_memory(folder, "/m", "4000", "100");
  folder.write("sys/fs/cgroup/unified/u/cpu.max", "250000 100000\n");
  folder.write("sys/fs/cgroup/unified/u/memory.max", "10\n");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.version == 1);
  CHECK(limits.memory_limit == 4000);
  CHECK(limits.cpu_cores == 2.5);
}

TEST_CASE("mount points with blanks are found") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", "30 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  folder.write("proc/self/cgroup", "0::/a\n");
  folder.write("my groups/a/cpu.max", "100000 100000\n");
  CHECK(read_cgroup_limits(folder.path()).cpu_cores == 1);
}

TEST_CASE("the file that sets a limit is named, of the group that sets it") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/user/job\n");
  write_v2(folder, "/user", "100000 100000", "4000000", "900000", "300000");
  write_v2(folder, "/user/job", "150000 100000", "max", "900000", "300000");
  folder.write("sys/fs/cgroup/user/memory.high", "3000000\n");
  const CgroupLimits limits = read_cgroup_limits(folder.path());
  CHECK(limits.cpu_file == folder.path() / "sys/fs/cgroup/user/cpu.max");
  CHECK(limits.memory_file == folder.path() / "sys/fs/cgroup/user/memory.high");
}

TEST_CASE("threads that may still be started are those of the group that leaves least") {
  const TemporaryFolder folder;
  folder.write("proc/self/mountinfo", unified_mount);
  folder.write("proc/self/cgroup", "0::/user/job\n");
  CHECK_FALSE(read_cgroup_limits(folder.path()).threads_left);
  folder.write("sys/fs/cgroup/user/pids.max", "100\n");
  folder.write("sys/fs/cgroup/user/pids.current", "90\n");
  folder.write("sys/fs/cgroup/user/job/pids.max", "max\n");
  CHECK(read_cgroup_limits(folder.path()).threads_left == 10);
  CHECK(read_cgroup_limits(folder.path()).threads_file == folder.path() / "sys/fs/cgroup/user/pids.max");
  folder.write("sys/fs/cgroup/user/pids.current", "190\n");
  CHECK(read_cgroup_limits(folder.path()).threads_left == 0);
}
