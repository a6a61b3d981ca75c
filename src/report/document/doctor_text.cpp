#include "doctor_text.hpp"

#include <fmt/format.h>

#include "base/text/text.hpp"

namespace dsanalyze::report {

std::string doctor_counts(const DoctorResult& result) {
  const auto counted = [&](DoctorStatus status, const char* one, const char* many) {
    const std::size_t count = result.count(status);
    return count == 0 ? std::string() : fmt::format("{} {}, ", count, count == 1 ? one : many);
  };
  return counted(DoctorStatus::problem, "problem", "problems") + counted(DoctorStatus::warning, "warning", "warnings") +
         counted(DoctorStatus::note, "note", "notes") + counted(DoctorStatus::unknown, "not known", "not known") +
         fmt::format("{} fine", result.count(DoctorStatus::ok));
}

std::string_view place_of(DoctorCommand::Where where) {
  switch (where) {
    case DoctorCommand::Where::host:
      return "on host";
    case DoctorCommand::Where::launch:
      return "at start";
    case DoctorCommand::Where::here:
      break;
  }
  return "here";
}

std::string machine_line(const DoctorResult& result) {
  const std::string container = result.container.empty() ? "" : fmt::format("; in a container ({})", result.container);
  return fmt::format("{}, {} of {} cores usable, {} usable memory, Linux {}{}", printable(result.cpu_model), format_number(result.cores_usable),
                     result.cores_online, format_bytes(result.memory_usable_bytes), printable(result.kernel), container);
}

}  // namespace dsanalyze::report
