#include <unistd.h>

#include "made_up_machine.hpp"

using namespace dsanalyze;
using testing::MadeUpMachine;
using testing::mends_by;
using enum DoctorStatus;
using enum DoctorCommand::Where;

namespace {

GpuState healthy() {
  GpuState gpu;
  gpu.name = "NVIDIA H200";
  gpu.pci = "0000:3b:00.0";
  gpu.link_generation_most = gpu.link_generation_of_gpu = 5;
  gpu.link_width = gpu.link_width_most = 16;
  gpu.held_back_by = 0x1;  // it has nothing to do
  gpu.memory_errors = 0;
  gpu.divided = false;
  return gpu;
}

bool says(const DoctorCheck& check, const char* words) { return check.found.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("without GPUs nothing is said of them, and a library that does not start is unknown") {
  MadeUpMachine machine;
  CHECK(machine.check("gpu-link").code.empty());
  machine.system.nvidia.why_none = "NVIDIA's management library does not start (answer 4: no permission)";
  for (const char* const code : {"gpu-link", "gpu-clocks", "gpu-memory", "gpu-sharing", "gpu-place"}) CHECK(machine.status(code) == unknown);
}

TEST_CASE("a GPU that is well is fine in every respect") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy()};
  machine.write("sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "0-3\n");
  for (const char* const code : {"gpu-link", "gpu-clocks", "gpu-memory", "gpu-sharing", "gpu-place"}) {
    CAPTURE(code);
    CHECK(machine.status(code) == ok);
  }
  CHECK(says(machine.check("gpu-link"), "PCI Express 5, 16 lanes"));
}

TEST_CASE("of GPUs that nothing trains on nothing is said") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy()};
  machine.system.nvidia.gpus[0].memory_errors = 3;
  for (const AcceleratorKind kind : {AcceleratorKind::emulated, AcceleratorKind::cpu, AcceleratorKind::null}) {
    machine.inputs.settings.accelerator = kind;
    CHECK(machine.check("gpu-memory").code.empty());
  }
  machine.inputs.settings.accelerator = AcceleratorKind::cuda;
  CHECK(machine.status("gpu-memory") == warning);
}

TEST_CASE("a narrow link and an old slot are warnings that name the GPU") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy(), healthy()};
  machine.system.nvidia.gpus[1].link_width = 8;
  CHECK(machine.status("gpu-link") == warning);
  CHECK(says(machine.check("gpu-link"), "NVIDIA H200 (0000:3b:00.0): 8 lanes of PCI Express where it could use 16"));
  machine.system.nvidia.gpus[1] = healthy();
  machine.system.nvidia.gpus[1].link_generation_most = 4;
  CHECK(says(machine.check("gpu-link"), "its slot has PCI Express 4, and it could use 5"));
  machine.system.nvidia.gpus = {healthy()};
  machine.system.nvidia.gpus[0].link_width.reset();
  CHECK(machine.status("gpu-link") == unknown);
}

TEST_CASE("clocks that are held down are a warning, a limit that was set a note") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy()};
  std::optional<std::uint64_t>& by = machine.system.nvidia.gpus[0].held_back_by;
  by = 0x40;
  CHECK(machine.status("gpu-clocks") == warning);
  CHECK(says(machine.check("gpu-clocks"), "by heat"));
  by = 0x80;
  CHECK(says(machine.check("gpu-clocks"), "by its power supply"));
  by = 0x8;
  CHECK(says(machine.check("gpu-clocks"), "by its hardware"));
  by = 0x4;
  CHECK(machine.status("gpu-clocks") == note);
  by = 0x2;
  CHECK(machine.status("gpu-clocks") == note);
}

TEST_CASE("memory errors, other processes and instances are told; this process is none of the others") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy()};
  GpuState& gpu = machine.system.nvidia.gpus[0];
  gpu.memory_errors = 3;
  CHECK(machine.status("gpu-memory") == warning);
  gpu.memory_errors.reset();
  CHECK(machine.status("gpu-memory") == note);
  gpu.processes = {{static_cast<unsigned>(::getpid()), 1 << 30}};
  CHECK(machine.status("gpu-sharing") == ok);
  gpu.processes.push_back({1234, std::uint64_t{2} << 30});
  CHECK(machine.status("gpu-sharing") == warning);
  CHECK(says(machine.check("gpu-sharing"), "PID 1234 with 2 GiB"));
  gpu.processes.clear();
  for (unsigned pid = 1001; pid <= 1004; ++pid) gpu.processes.push_back({pid, 0});
  CHECK(says(machine.check("gpu-sharing"), "PID 1001, PID 1002, PID 1003, PID 1004"));
  CHECK_FALSE(says(machine.check("gpu-sharing"), "more"));
  gpu.processes.push_back({1005, 0});
  gpu.processes.push_back({1006, 0});
  CHECK(says(machine.check("gpu-sharing"), "PID 1003, PID 1004, 2 more"));
  gpu.processes.clear();
  gpu.divided = true;
  CHECK(machine.status("gpu-sharing") == note);
}

TEST_CASE("a GPU beside CPUs of which none may be used is a warning") {
  MadeUpMachine machine;
  machine.system.nvidia.gpus = {healthy()};
  CHECK(machine.status("gpu-place") == unknown);
  machine.write("sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "64-95\n");
  CHECK(machine.status("gpu-place") == warning);
  CHECK(mends_by(machine.check("gpu-place"), here, "taskset -c 64-95 dsanalyze profile ..."));
}
