#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "../base/temporary_folder.hpp"
#include "doctor/doctor.hpp"

namespace dsanalyze::testing {

/// A kernel that answers as a test says.
class MadeUpSystem final : public DoctorSystem {
 public:
  std::map<Limit, Limits> limits;
  bool root = false;
  IoSupport uring{true, {}};
  Attempt access{true, 0}, direct{true, 0}, drop{true, 0}, device{true, 0};
  std::string number;
  Space free{Bytes{1} << 40, true};
  GpuStates nvidia;
  double clock = 25e-9;
  std::function<void()> while_burning = [] {};
  int burns = 0;

  Limits limit(Limit which) override { return limits[which]; }
  bool is_root() override { return root; }
  IoSupport io_uring() override { return uring; }
  Attempt read_access(const std::filesystem::path&) override { return access; }
  Attempt direct_read(const std::filesystem::path&) override { return direct; }
  Attempt drop_pages(const std::filesystem::path&) override { return drop; }
  std::string device_number(const std::filesystem::path&) override { return number; }
  Space space(const std::filesystem::path&) override { return free; }
  Attempt open_device(const std::filesystem::path&) override { return device; }
  const GpuStates& gpus() override { return nvidia; }
  void burn(double) override {
    ++burns;
    while_burning();
  }
  double clock_seconds() override { return clock; }
};

/// A machine without faults, of files in a folder: four cores, 64 GiB, ext4 on an NVMe disk, the dataset in "data". Tests spoil one thing.
class MadeUpMachine {
 public:
  MadeUpMachine();
  MadeUpSystem system;
  DoctorInputs inputs;

  void write(const std::string& name, const std::string& content) const { m_folder.write(name, content); }
  void remove(const std::string& name) const { std::filesystem::remove_all(m_folder.path() / name); }
  void link(const std::string& name, const std::string& target) const;
  /// The dataset lies on this filesystem.
  void mount_data(const std::string& filesystem, const std::string& source, const std::string& options = "rw,relatime") const;
  /// What the cgroups allow is read anew.
  void read_limits() { inputs.host.cgroup = read_cgroup_limits(inputs.root); }
  [[nodiscard]] std::filesystem::path path() const { return m_folder.path(); }

  [[nodiscard]] DoctorResult examined() { return examine(inputs, system); }
  /// The check of this code; one of code "" where it does not matter.
  [[nodiscard]] DoctorCheck check(const std::string& code);
  [[nodiscard]] DoctorStatus status(const std::string& code) { return check(code).status; }
  [[nodiscard]] bool matters(const std::string& code) { return !check(code).code.empty(); }

 private:
  TemporaryFolder m_folder;
};

inline bool mends_by(const DoctorCheck& check, DoctorCommand::Where where, const std::string& command) {
  return std::ranges::find(check.commands, DoctorCommand{where, command}) != check.commands.end();
}

}  // namespace dsanalyze::testing
