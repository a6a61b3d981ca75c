#include "made_up_machine.hpp"

#include <cerrno>
#include <cstdlib>
#include <set>

#include "base/system/files.hpp"

using namespace dsanalyze;
using testing::MadeUpMachine;
using testing::mends_by;
using enum DoctorStatus;
using enum DoctorCommand::Where;

TEST_CASE("a GPU with its driver is fine; with a driver and no device, or no right to it, a warning") {
  MadeUpMachine machine;
  CHECK(machine.check("gpu").found.find("1 with driver 535.54.03") != std::string::npos);
  machine.system.device = {false, EACCES};
  CHECK(machine.status("gpu") == warning);
  CHECK(mends_by(machine.check("gpu"), here, "sudo usermod -aG video \"$USER\"  # then log in anew"));
  machine.system.device = {true, 0};
  machine.remove("dev/nvidia0");
  CHECK(machine.status("gpu") == warning);
  machine.write(".dockerenv", "");
  CHECK(mends_by(machine.check("gpu"), launch, "docker run --gpus all IMAGE"));
}

TEST_CASE("GPUs that CUDA is told to hide are a warning") {
  MadeUpMachine machine;
  for (const char* const hidden : {"", "-1", "-1,0", "0", "1,0"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", hidden, 1);
    const DoctorCheck check = machine.check("gpu");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
    CAPTURE(hidden);
    CHECK((check.status == warning) == (*hidden == '\0' || *hidden == '-'));
    CHECK(mends_by(check, here, "unset CUDA_VISIBLE_DEVICES") == (check.status == warning));
  }
}

TEST_CASE("a device file of a GPU that neither bus nor driver shows is unknown") {
  MadeUpMachine machine;
  machine.remove("proc/driver");
  machine.remove("sys/bus/pci/devices");
  CHECK(machine.status("gpu") == unknown);
}

TEST_CASE("a GPU on the bus without a driver is a warning, none at all a note, and no bus to look at unknown") {
  MadeUpMachine machine;
  machine.remove("dev");
  machine.remove("proc/driver");
  CHECK(machine.status("gpu") == unknown);
  machine.write("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  machine.write("sys/bus/pci/devices/0000:01:00.0/class", "0x040300\n");  // its sound
  CHECK(machine.status("gpu") == note);
  machine.write("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  CHECK(machine.status("gpu") == warning);
}

TEST_CASE("a clock that is slow by name or by measure is a warning") {
  MadeUpMachine machine;
  CHECK(machine.status("clock-source") == ok);
  const std::string folder = "sys/devices/system/clocksource/clocksource0/";
  machine.write(folder + "current_clocksource", "kvm-clock\n");
  CHECK(machine.status("clock-source") == ok);
  machine.system.clock = 900e-9;
  CHECK(machine.status("clock-source") == warning);
  machine.system.clock = 25e-9;
  machine.write(folder + "current_clocksource", "hpet\n");
  CHECK(machine.status("clock-source") == warning);
  CHECK(mends_by(machine.check("clock-source"), here, "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"));
  machine.write(folder + "available_clocksource", "hpet acpi_pm\n");
  CHECK(machine.check("clock-source").commands.front().command.find("dmesg") != std::string::npos);
  machine.remove("sys/devices/system/clocksource");
  CHECK(machine.status("clock-source") == unknown);
}

TEST_CASE("a bare folder in place of the system makes nothing fine that could not be looked at") {
  MadeUpMachine machine;
  for (const char* const name : {"proc", "sys", "dev"}) machine.remove(name);
  machine.read_limits();
  for (const char* const code : {"cpu-frequency", "cpu-steal", "swap", "huge-pages", "numa", "filesystem", "disk-type", "gpu", "clock-source"}) {
    const DoctorCheck check = machine.check(code);
    CHECK_MESSAGE(check.status == unknown, code);
    CHECK_FALSE(check.found.empty());
  }
}

TEST_CASE("a check that cannot ask is unknown, with the reason") {
  struct Throwing final : DoctorSystem {
    Limits limit(Limit) override { throw Error("not permitted here"); }
    bool is_root() override { return false; }
    IoSupport io_uring() override { throw Error("not permitted here"); }
    Attempt read_access(const std::filesystem::path&) override { throw Error("not permitted here"); }
    Attempt direct_read(const std::filesystem::path&) override { throw Error("not permitted here"); }
    Attempt drop_pages(const std::filesystem::path&) override { throw Error("not permitted here"); }
    std::string device_number(const std::filesystem::path&) override { return ""; }
    Space space(const std::filesystem::path&) override { throw Error("not permitted here"); }
    Attempt open_device(const std::filesystem::path&) override { throw Error("not permitted here"); }
    const GpuStates& gpus() override { throw Error("not permitted here"); }
    void burn(double) override {}
    double clock_seconds() override { throw Error("not permitted here"); }
  } system;
  const MadeUpMachine machine;
  const DoctorResult result = examine(machine.inputs, system);
  CHECK(result.count(unknown) >= 8);
  for (const DoctorCheck& check : result.checks)
    if (check.status == unknown) CHECK(check.found == "not permitted here");
}

TEST_CASE("a profile is told warnings and problems, once, and not what it finds out itself") {
  MadeUpMachine machine;
  machine.inputs.settings.workers = 9;
  machine.inputs.settings.io = IoEngine::uring;
  machine.system.uring = {false, "no"};
  const auto findings = doctor_findings(machine.examined());
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "doctor-workers");
  CHECK(findings[0].severity == Finding::Severity::warning);
  CHECK(findings[0].message.find("--workers 4") != std::string::npos);
}

TEST_CASE("a command for the host is told as one") {
  MadeUpMachine machine;
  machine.write(".dockerenv", "");
  machine.write("sys/block/nvme0n1/queue/scheduler", "none [bfq]\n");
  const auto findings = doctor_findings(machine.examined());
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].message.ends_with("Take requests as they come: on the host: echo none | sudo tee /sys/block/nvme0n1/queue/scheduler"));
}

TEST_CASE("the page of the documentation has a row for every check, and for nothing else, in the doctor's order") {
  const std::string page = read_file(std::filesystem::path(DOCS_FOLDER) / "doctor.md");
  std::vector<std::string> rows;
  for (std::size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1))
    rows.push_back(page.substr(at + 4, page.find('`', at + 4) - at - 4));
  std::vector<std::string> codes;
  for (const DoctorCheckDescription& each : doctor_checks()) codes.emplace_back(each.code);
  CHECK(rows == codes);
  CHECK(std::set<std::string>(codes.begin(), codes.end()).size() == codes.size());
}
