#include "made_up_machine.hpp"

using namespace dsanalyze;
using testing::MadeUpMachine;
using testing::mends_by;
using enum DoctorStatus;
using enum DoctorCommand::Where;

namespace {

ByteAmount gibibytes(std::uint64_t count) { return {ByteAmount::Kind::bytes, count << 30, 0}; }
ByteAmount share(double fraction) { return {ByteAmount::Kind::fraction, 0, fraction}; }

void limit_memory(MadeUpMachine& machine, std::uint64_t gib) {
  machine.write("sys/fs/cgroup/memory.max", std::to_string(gib << 30) + "\n");
  machine.write("sys/fs/cgroup/memory.current", "0\n");
  machine.read_limits();
  machine.inputs.host.memory_usable = gib << 30;
}

}  // namespace

TEST_CASE("a cache that a cgroup's limit does not hold is a problem, one that takes most of it a warning") {
  MadeUpMachine machine;
  CHECK(machine.status("memory-limit") == ok);
  limit_memory(machine, 16);
  CHECK(machine.status("memory-limit") == note);  // of automatic size
  CHECK_FALSE(machine.matters("memory-for-cache"));
  machine.inputs.settings.cache_size = gibibytes(20);
  CHECK(machine.status("memory-limit") == problem);
  CHECK(mends_by(machine.check("memory-limit"), here, "echo max | sudo tee /sys/fs/cgroup/memory.max"));
  machine.inputs.settings.cache_size = gibibytes(12);
  CHECK(machine.status("memory-limit") == warning);
  machine.inputs.settings.cache_size = gibibytes(9);
  CHECK(machine.status("memory-limit") == note);
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("memory-limit"), launch, "docker run --memory=48g IMAGE"));
}

TEST_CASE("a share of the dataset that does not fit is kept on a subset: a note") {
  MadeUpMachine machine;
  machine.inputs.settings.cache_size = share(0.35);
  CHECK(machine.status("memory-for-cache") == ok);
  machine.inputs.settings.cache_size = share(0.8);
  CHECK(machine.status("memory-for-cache") == note);
}

TEST_CASE("bytes that free memory does not have are a problem, unless the whole dataset is smaller") {
  MadeUpMachine machine;
  machine.inputs.settings.cache_size = gibibytes(61);
  CHECK(machine.status("memory-for-cache") == problem);
  CHECK(machine.check("memory-for-cache").fix.find("--cache-size 36GiB") != std::string::npos);
  machine.inputs.settings.cache_size = gibibytes(40);
  CHECK(machine.status("memory-for-cache") == warning);
  machine.inputs.settings.cache_size = gibibytes(30);
  CHECK(machine.status("memory-for-cache") == ok);
  machine.inputs.host.memory_usable = Bytes{200} << 30;
  machine.inputs.settings.cache_size = gibibytes(1000);
  CHECK(machine.status("memory-for-cache") == ok);
}

TEST_CASE("little free memory is a warning by itself") {
  MadeUpMachine machine;
  machine.inputs.host.memory_usable = Bytes{1} << 29;
  CHECK(machine.status("memory-for-cache") == warning);
}

TEST_CASE("swap in use is a warning, idle swap a note, and none, or one that is not for us, is fine") {
  MadeUpMachine machine;
  CHECK(machine.status("swap") == ok);
  const std::string heading = "Filename Type Size Used Priority\n";
  machine.write("proc/swaps", heading + "/dev/sda2 partition 8388604 0 -2\n");
  CHECK(machine.status("swap") == note);
  CHECK(mends_by(machine.check("swap"), here, "sudo swapoff -a"));
  machine.write("proc/swaps", heading + "/dev/sda2 partition 8388604 4096 -2\n");
  CHECK(machine.status("swap") == warning);
  machine.inputs.settings.cache = CacheKind::none;
  CHECK_FALSE(machine.matters("swap"));
  machine.inputs.settings.cache = CacheKind::minio;
  machine.write("proc/sys/vm/swappiness", "0\n");
  CHECK(machine.status("swap") == ok);
  machine.write("proc/sys/vm/swappiness", "60\n");
  limit_memory(machine, 16);
  machine.write("sys/fs/cgroup/memory.swap.max", "0\n");
  CHECK(machine.status("swap") == ok);
  machine.remove("proc/swaps");
  CHECK(machine.status("swap") == unknown);
}

TEST_CASE("huge pages that are off are a warning, on request or always they are fine") {
  MadeUpMachine machine;
  const std::string file = "sys/kernel/mm/transparent_hugepage/enabled";
  CHECK(machine.status("huge-pages") == ok);
  machine.write(file, "[always] madvise never\n");
  CHECK(machine.status("huge-pages") == ok);
  machine.write(file, "always madvise [never]\n");
  CHECK(machine.status("huge-pages") == warning);
  CHECK(mends_by(machine.check("huge-pages"), here, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"));
  machine.inputs.settings.storage = Seam::emulated;
  CHECK_FALSE(machine.matters("huge-pages"));
}

TEST_CASE("workers that would fit on one of several nodes are a warning, more than that a note") {
  MadeUpMachine machine;
  CHECK(machine.status("numa") == ok);
  machine.write("sys/devices/system/node/node0/cpulist", "0-1\n");
  machine.write("sys/devices/system/node/node1/cpulist", "2-3\n");
  CHECK(machine.status("numa") == note);
  machine.inputs.settings.workers = 2;
  CHECK(machine.status("numa") == warning);
  CHECK(machine.check("numa").commands.front().command.starts_with("numactl --cpunodebind=0 --membind=0 dsanalyze profile "));
  machine.inputs.host.cpus_allowed = {2, 3};
  CHECK(machine.status("numa") == ok);
  machine.remove("sys/devices/system/node");
  CHECK(machine.status("numa") == ok);
  machine.remove("sys/devices/system/cpu");
  CHECK(machine.status("numa") == unknown);
}

TEST_CASE(
    "a limit of open files below what reads want is a warning, below what they need a problem; the shell's own limit is raised up to the hard one") {
  using enum DoctorSystem::Limit;
  MadeUpMachine machine;
  CHECK(machine.status("open-files") == ok);
  machine.system.limits[open_files] = {256, 4096};
  CHECK(machine.status("open-files") == ok);
  machine.system.limits[open_files] = {255, 4096};
  CHECK(machine.status("open-files") == warning);
  CHECK(mends_by(machine.check("open-files"), here, "ulimit -n 4096"));
  machine.system.limits[open_files] = {40, 40};
  CHECK(machine.status("open-files") == problem);
  CHECK(mends_by(machine.check("open-files"), here, "sudo prlimit --pid $$ --nofile=4096:4096"));
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("open-files"), launch, "docker run --ulimit nofile=4096:4096 IMAGE"));
  machine.system.limits[open_files] = {std::nullopt, std::nullopt};
  CHECK(machine.status("open-files") == ok);
}

TEST_CASE("locked memory matters where the kernel counts io_uring's rings, and io_uring may be used") {
  using enum DoctorSystem::Limit;
  MadeUpMachine machine;
  machine.system.limits[locked_memory] = {65536, 65536};
  CHECK(machine.status("locked-memory") == ok);
  machine.inputs.host.kernel = "5.10.0-8-amd64";
  CHECK(machine.status("locked-memory") == warning);
  CHECK(mends_by(machine.check("locked-memory"), here, "sudo prlimit --pid $$ --memlock=8388608:8388608"));
  machine.system.root = true;
  CHECK(machine.status("locked-memory") == ok);
  machine.system.root = false;
  machine.system.limits[locked_memory] = {65536, std::nullopt};
  CHECK(mends_by(machine.check("locked-memory"), here, "ulimit -l 8192"));
  machine.system.limits[locked_memory] = {1 << 20, 1 << 20};
  CHECK(machine.status("locked-memory") == ok);
  machine.inputs.settings.io = IoEngine::pread;
  CHECK_FALSE(machine.matters("locked-memory"));
}

TEST_CASE("threads are limited by the cgroup for all, and by the user's limit for others than root") {
  using enum DoctorSystem::Limit;
  MadeUpMachine machine;
  CHECK(machine.status("threads") == ok);
  machine.write("sys/fs/cgroup/pids.max", "30\n");
  machine.write("sys/fs/cgroup/pids.current", "1\n");
  machine.read_limits();
  CHECK(machine.status("threads") == problem);
  CHECK(mends_by(machine.check("threads"), here, "echo max | sudo tee /sys/fs/cgroup/pids.max"));
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("threads"), launch, "docker run --pids-limit=4096 IMAGE"));
  machine.write("var/run/secrets/kubernetes.io/serviceaccount/token", "");
  CHECK(machine.check("threads").commands.empty());
  CHECK(machine.check("threads").fix.find("podPidsLimit") != std::string::npos);
  machine.write("sys/fs/cgroup/pids.max", "max\n");
  machine.read_limits();
  CHECK(machine.status("threads") == ok);
  machine.system.limits[processes] = {4000, 4096};
  CHECK(machine.check("threads").found.starts_with("at most 4,000 of this user's; about "));
  machine.system.limits[processes] = {20, 4096};
  CHECK(machine.status("threads") == warning);
  machine.system.root = true;
  CHECK(machine.status("threads") == ok);
}
