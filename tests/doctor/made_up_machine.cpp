#include "made_up_machine.hpp"

namespace dsanalyze::testing {

MadeUpMachine::MadeUpMachine() {
  write("proc/self/cgroup", "0::/\n");
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("proc/stat", "cpu  4000 0 0 4000 0 0 0 0\ncpu0 1000 0 0 1000 0 0 0 0\ncpu1 1000 0 0 1000 0 0 0 0\n");
  write("proc/swaps", "Filename Type Size Used Priority\n");
  write("proc/sys/vm/swappiness", "60\n");
  write("proc/sys/kernel/io_uring_disabled", "0\n");
  for (const int cpu : {0, 1, 2, 3}) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/";
    write(folder + "scaling_governor", "performance\n");
    write(folder + "scaling_driver", "acpi-cpufreq\n");
    write(folder + "cpuinfo_max_freq", "3000000\n");
    write(folder + "scaling_max_freq", "3000000\n");
  }
  write("sys/devices/system/cpu/online", "0-3\n");
  write("sys/devices/system/node/node0/cpulist", "0-3\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  write("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n");
  write("sys/devices/pci0/nvme0n1/nvme0n1p1/partition", "1\n");
  write("sys/block/nvme0n1/queue/rotational", "0\n");
  write("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline\n");
  write("sys/block/nvme0n1/queue/read_ahead_kb", "128\n");
  link("sys/dev/block/259:1", "../../devices/pci0/nvme0n1/nvme0n1p1");
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue\nGCC version: 12\n");
  for (const char* const node : {"dev/nvidia0", "dev/nvidiactl"}) write(node, "");
  write("data/a.jpg", "some bytes");
  system.number = "259:1";
  for (const auto which : {DoctorSystem::Limit::open_files, DoctorSystem::Limit::locked_memory, DoctorSystem::Limit::processes})
    system.limits[which] = {1 << 20, 1 << 20};

  inputs.root = path();
  inputs.settings.dataset = (path() / "data").native();
  DatasetIndexBuilder builder;
  builder.add_sample({0, 10, builder.add_file("a.jpg"), 0});
  DatasetIndex::Facts facts;
  facts.root = inputs.settings.dataset;
  facts.format = "folder";
  facts.total_bytes = Bytes{100} << 30;
  inputs.index = std::move(builder).build(std::move(facts));
  mount_data("ext4", "/dev/nvme0n1p1");
  inputs.state_directory = path() / "state";
  inputs.host.cpu_model = "Made Up 9000";
  inputs.host.kernel = "6.1.0";
  inputs.host.cores_online = 4;
  inputs.host.cores_usable = 4;
  inputs.host.cores_physical = 4;
  inputs.host.cpus_allowed = {0, 1, 2, 3};
  inputs.host.memory_total = Bytes{64} << 30;
  inputs.host.memory_usable = Bytes{60} << 30;
  read_limits();
}

void MadeUpMachine::link(const std::string& name, const std::string& target) const {
  std::filesystem::create_directories((path() / name).parent_path());
  std::filesystem::create_symlink(target, path() / name);
}

void MadeUpMachine::mount_data(const std::string& filesystem, const std::string& source, const std::string& options) const {
  const std::string point = std::filesystem::weakly_canonical(path()).native();
  write("proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 23 259:1 / " + point + " " + options + " - " + filesystem + " " + source + " rw\n");
}

DoctorCheck MadeUpMachine::check(const std::string& code) {
  for (DoctorCheck& each : examined().checks)
    if (each.code == code) return each;
  return {};
}

}  // namespace dsanalyze::testing
