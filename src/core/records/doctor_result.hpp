#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"
#include "result.hpp"

namespace dsanalyze {

/// How a check of the doctor came out. `unknown`: it could not be looked at (no permission, the kernel does not tell), which is never taken for ok.
enum class DoctorStatus { ok, note, warning, problem, unknown };
constexpr std::array<const char*, 5> names_of(DoctorStatus /*type*/) { return {"ok", "note", "warning", "problem", "unknown"}; }
std::string_view doctor_status_name(DoctorStatus status);

/// One line for a shell, and where it works: what a container sets for itself is often its host's to set.
struct DoctorCommand {
  enum class Where {
    here,   ///< in the shell that dsanalyze was started from
    host,   ///< on the machine below the container or the virtual machine
    launch  ///< what starts the container: an argument of docker or podman run, a line of a Kubernetes manifest
  };
  Where where = Where::here;
  std::string command;

  bool operator==(const DoctorCommand&) const = default;
};
constexpr std::array<const char*, 3> names_of(DoctorCommand::Where /*type*/) { return {"here", "host", "launch"}; }

struct DoctorCheck {
  std::string code;   ///< stable, kebab-case: "cpu-quota"
  std::string group;  ///< "cpu", "memory", "limits", "storage", "io", "machine"
  std::string title;
  DoctorStatus status = DoctorStatus::ok;
  std::string found;                    ///< what is there; of an unknown one, why it is not known
  std::string why;                      ///< why it matters to a measurement or to training
  std::string fix;                      ///< what to do, in words; empty where there is nothing to fix
  std::vector<DoctorCommand> commands;  ///< that do it; any one of several of one place

  bool operator==(const DoctorCheck&) const = default;
};

/// "dsanalyze.doctor/2": what stands in the way of a measurement on this machine, before it is made.
struct DoctorResult {
  ToolRecord tool;
  std::string cpu_model;
  double cores_usable = 1;
  int cores_online = 1;
  Bytes memory_usable_bytes = 0;
  std::string kernel;
  std::string container;            ///< "docker", "kubernetes", ..., or empty for none
  std::string dataset;              ///< as given; empty for none, and then nothing is known of the disk
  std::vector<DoctorCheck> checks;  ///< those that matter to what was asked, in a fixed order

  [[nodiscard]] std::size_t count(DoctorStatus status) const;
};

std::string to_json(const DoctorResult& result);
/// Strict: unknown and missing keys are errors. Version 1, which has another key for a fix, is read, too. Throws UsageError that names `source` and
/// the place.
DoctorResult doctor_from_json(std::string_view text, const std::string& source);

}  // namespace dsanalyze
