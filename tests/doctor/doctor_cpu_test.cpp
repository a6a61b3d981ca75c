#include <unistd.h>

#include "base/process/processes.hpp"
#include "doctor/doctor_context.hpp"
#include "made_up_machine.hpp"

using namespace dsanalyze;
using testing::MadeUpMachine;
using testing::mends_by;
using enum DoctorStatus;
using enum DoctorCommand::Where;

TEST_CASE("a quota below the cores asked for is a warning, one that nothing asked exceeds is a note, a wider one is nothing") {
  MadeUpMachine machine;
  CHECK(machine.status("cpu-quota") == ok);
  machine.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  machine.read_limits();
  CHECK(machine.status("cpu-quota") == ok);
  machine.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  machine.read_limits();
  const DoctorCheck alone = machine.check("cpu-quota");
  CHECK(alone.status == note);
  CHECK(alone.found.find("1.5 cores of 4 (/sys/fs/cgroup/cpu.max)") != std::string::npos);
  CHECK(mends_by(alone, here, "echo max | sudo tee /sys/fs/cgroup/cpu.max"));
  machine.inputs.settings.workers = 2;
  CHECK(machine.status("cpu-quota") == warning);
  machine.inputs.settings.workers = 1;
  CHECK(machine.status("cpu-quota") == note);
}

TEST_CASE("a group that was stopped in many of its periods is a warning") {
  MadeUpMachine machine;
  machine.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  machine.write("sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 1000\nnr_throttled 300\n");
  machine.read_limits();
  CHECK(machine.check("cpu-quota").found.find("30 %") != std::string::npos);
  CHECK(machine.status("cpu-quota") == warning);
  machine.write("sys/fs/cgroup/cpu.stat", "nr_periods 1000\nnr_throttled 10\n");
  CHECK(machine.status("cpu-quota") == note);
}

TEST_CASE("version 1's quota is fixed in its own way, and as root without sudo") {
  MadeUpMachine machine;
  machine.write("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  machine.write("proc/self/cgroup", "2:cpu:/\n");
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  machine.read_limits();
  machine.system.root = true;
  CHECK(mends_by(machine.check("cpu-quota"), here, "echo -1 > /sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
}

TEST_CASE("in a container the quota is its launcher's to set, and a container without cgroups leaves it unknown") {
  MadeUpMachine machine;
  machine.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  machine.read_limits();
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("cpu-quota"), launch, "docker run --cpus=4 IMAGE"));
  CHECK(machine.check("cpu-quota").commands.size() == 1);
  machine.write("run/.containerenv", "");
  CHECK(mends_by(machine.check("cpu-quota"), launch, "podman run --cpus=4 IMAGE"));
  machine.write("var/run/secrets/kubernetes.io/serviceaccount/token", "");
  CHECK(mends_by(machine.check("cpu-quota"), launch, "resources: {limits: {cpu: \"4\"}}"));
  machine.write("proc/self/mountinfo", "");
  machine.read_limits();
  CHECK(machine.status("cpu-quota") == unknown);
  CHECK(machine.status("memory-limit") == unknown);
}

TEST_CASE("a container is known by what it leaves: a file, a group's name, its first process's environment") {
  MadeUpMachine machine;
  CHECK(machine.examined().container.empty());
  machine.write("proc/1/environ", std::string("PATH=/bin\0container=lxc\0", 24));
  CHECK(machine.examined().container == "other");
  machine.write("proc/self/cgroup", "4:memory:/docker/0123\n");
  CHECK(machine.examined().container == "docker");
  machine.write("proc/self/cgroup", "0::/kubepods.slice/pod1\n");
  CHECK(machine.examined().container == "kubernetes");
}

TEST_CASE("fewer CPUs than are online are a note, and a problem when more are asked for") {
  MadeUpMachine machine;
  CHECK(machine.status("cpu-affinity") == ok);
  machine.inputs.host.cpus_allowed = {0, 1};
  machine.inputs.host.cores_usable = 2;
  CHECK(machine.status("cpu-affinity") == note);
  CHECK(mends_by(machine.check("cpu-affinity"), here, "taskset -pc 0-3 $$"));
  machine.inputs.settings.cores = 3;
  CHECK(machine.status("cpu-affinity") == problem);
  machine.inputs.settings.prep = Seam::emulated;  // virtual cores
  CHECK(machine.status("cpu-affinity") == note);
}

TEST_CASE("more workers than cores are a warning, fewer and hyper-threads a note") {
  MadeUpMachine machine;
  CHECK(machine.status("workers") == ok);
  machine.inputs.settings.workers = 5;
  CHECK(machine.status("workers") == warning);
  CHECK(machine.check("workers").commands.at(0).command.ends_with(" --workers 4"));
  CHECK(machine.check("workers").found == "5 prep workers on 4 usable cores");
  machine.inputs.settings.cores = 1;
  CHECK(machine.check("workers").found == "5 prep workers on 1 usable core");
  machine.inputs.settings.cores = 2;
  machine.inputs.settings.workers = 1;
  CHECK(machine.check("workers").found == "1 prep worker on 2 usable cores");
  machine.inputs.settings.cores = 4;
  machine.inputs.settings.workers = 3;
  CHECK(machine.status("workers") == note);
  machine.inputs.settings.workers = 4;
  CHECK(machine.status("workers") == ok);
  machine.inputs.host.cores_physical = 2;
  CHECK(machine.status("workers") == note);
  machine.inputs.settings.prep = Seam::null;
  CHECK_FALSE(machine.matters("workers"));
}

TEST_CASE("a governor that saves power, or a frequency held down, is a warning; one that goes by load is a note") {
  MadeUpMachine machine;
  CHECK(machine.status("cpu-frequency") == ok);
  const std::string cpu = "sys/devices/system/cpu/cpu2/cpufreq/";
  machine.write(cpu + "scaling_governor", "schedutil\n");
  CHECK(machine.status("cpu-frequency") == note);
  machine.write(cpu + "scaling_governor", "powersave\n");
  CHECK(machine.status("cpu-frequency") == warning);
  CHECK(mends_by(machine.check("cpu-frequency"), here, "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"));
  for (const int each : {0, 1, 2, 3})
    machine.write("sys/devices/system/cpu/cpu" + std::to_string(each) + "/cpufreq/scaling_driver", "intel_pstate\n");
  CHECK(machine.status("cpu-frequency") == note);
  machine.write(cpu + "scaling_governor", "performance\n");
  machine.write(cpu + "scaling_max_freq", "1500000\n");
  CHECK(machine.status("cpu-frequency") == warning);
  machine.write(".dockerenv", "");
  CHECK(machine.check("cpu-frequency").commands.front().where == host);
  machine.remove("sys/devices/system/cpu/cpu0/cpufreq");
  CHECK(machine.status("cpu-frequency") == unknown);
}

TEST_CASE("steal is a warning from two per cent on, since the start or while watched, of the CPUs that we may use") {
  MadeUpMachine machine;
  CHECK(machine.status("cpu-steal") == ok);
  CHECK(machine.system.burns == 2);  // the other is of other-processes
  machine.write("proc/stat", "cpu0 1000 0 0 1000 0 0 0 30\n");
  CHECK(machine.status("cpu-steal") == warning);
  machine.write("proc/stat", "cpu0 1000 0 0 1000 0 0 0 10\ncpu7 1000 0 0 0 0 0 0 900\n");
  CHECK(machine.status("cpu-steal") == ok);
  machine.system.while_burning = [&] { machine.write("proc/stat", "cpu0 1015 0 0 1000 0 0 0 15\n"); };
  CHECK(machine.status("cpu-steal") == warning);
  machine.inputs.depth = DoctorInputs::Depth::quick;
  machine.write("proc/stat", "cpu0 1000 0 0 1000 0 0 0 10\n");
  const int before = machine.system.burns;
  CHECK(machine.status("cpu-steal") == ok);
  CHECK(machine.system.burns == before);
  machine.remove("proc/stat");
  CHECK(machine.status("cpu-steal") == unknown);
}

TEST_CASE("other processes are named with what they take of the CPU from five per cent on, and only where there is time to watch") {
  MadeUpMachine machine;
  machine.write("proc/stat", "cpu0 1000 0 0 1000 0 0 0 0\n");
  CHECK(machine.status("other-processes") == ok);
  const auto process = [&](int ticks) {
    machine.write("proc/77/stat", "77 (burner) R 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) + " 0 0 0 20 0 1 0 5 0 0\n");
  };
  process(100);
  machine.system.while_burning = [&] {
    process(140);
    machine.write("proc/stat", "cpu0 1040 0 0 1000 0 0 0 0\n");
  };
  const auto reset = [&] {
    process(100);
    machine.write("proc/stat", "cpu0 1000 0 0 1000 0 0 0 0\n");
  };
  reset();
  // The first watch of an examination is that of the steal time: what is burned after it counts.
  int burns = 0;
  const auto while_watched = machine.system.while_burning;
  machine.system.while_burning = [&] {
    if (++burns % 2 == 0) while_watched();
  };
  const DoctorCheck check = machine.check("other-processes");
  CHECK(check.status == warning);
  CHECK(check.found.find("burner (PID 77)") != std::string::npos);
  CHECK(mends_by(check, here, "ps -o pid,user,pcpu,etime,args -p 77"));
  machine.inputs.depth = DoctorInputs::Depth::quick;
  CHECK_FALSE(machine.matters("other-processes"));
  machine.inputs.depth = DoctorInputs::Depth::thorough;
  machine.system.while_burning = [] {};
  machine.remove("proc/stat");
  CHECK(machine.status("other-processes") == unknown);
}

TEST_CASE("of the processes that use the CPU the five busiest are named, those that use half a percent of it or more") {
  const testing::TemporaryFolder folder;
  const auto write = [&folder](int pid, int ticks) {
    const std::string number = std::to_string(pid);
    folder.write("proc/" + number + "/stat",
                 number + " (p" + number + ") R 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) + " 0 0 0 20 0 1 0 5 0 0\n");
  };
  HostFacts host;
  host.cpus_allowed = {0, 1, 2, 3};
  host.cores_usable = 4;
  CpuSample before, after;
  after.wall_seconds = 10;  // of four cores: 40 s
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto named = [&](const std::vector<double>& fractions) {
    std::filesystem::remove_all(folder.path() / "proc");
    ProcessWatch watch(folder.path());
    for (std::size_t at = 0; at < fractions.size(); ++at) write(500'000 + static_cast<int>(at), 0);
    watch.look();
    for (std::size_t at = 0; at < fractions.size(); ++at) write(500'000 + static_cast<int>(at), static_cast<int>(fractions[at] * 40 / tick));
    watch.look();
    return background_load(before, after, host, watch).processes.size();
  };
  CHECK(named({0.2, 0.006, 0.004}) == 2);
  CHECK(named({0.1, 0.09, 0.08, 0.07, 0.06, 0.05}) == 5);
  CHECK(named({}) == 0);
}
