#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/records/doctor_result.hpp"

namespace dsanalyze::report {

// What an examination says, in words: the same in every view.

/// The gravest first.
inline constexpr std::array doctor_by_weight{DoctorStatus::problem, DoctorStatus::warning, DoctorStatus::note, DoctorStatus::unknown,
                                             DoctorStatus::ok};
/// "1 problem, 2 warnings, 3 notes, 1 not known, 12 fine".
std::string doctor_counts(const DoctorResult& result);
/// Where a command works: "here", "on host", "at start".
std::string_view place_of(DoctorCommand::Where where);
/// Processor, cores, memory, kernel, container.
std::string machine_line(const DoctorResult& result);

}  // namespace dsanalyze::report
