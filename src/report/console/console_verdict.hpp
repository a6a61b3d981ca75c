#pragma once

#include <string>

#include "core/records/result.hpp"
#include "report/report.hpp"

namespace dsanalyze::console {

struct Verdict {
  std::string sentence;   ///< the bottleneck and what it costs
  std::string rates;      ///< those that were compared; may be empty
  std::string sharing{};  ///< what jobs that drew dependently saved of prep; may be empty
};
Verdict verdict_parts(const ProfileResult& result);
/// The sentences at the top: whether training waits for data, for which resource and how much of the epoch that costs; whose loader that is about;
/// and up front what the verdict rests on when it is not plain measuring (emulated, not trusted, inconclusive).
std::string verdict(const ProfileResult& result);
/// What to do first, one sentence or two.
std::string first_step(const ProfileResult& result);
/// What is predicted of later epochs.
std::string steady_text(const SteadyRecord& steady);
/// How sure the verdict is and why.
std::string confidence(const ProfileResult& result);

/// The first minute with a training of the user's own: the bottleneck in one line, the step's parts, the rates, how far to trust them.
std::string attached_summary(const ProfileResult& result, const ConsoleStyle& style);

}  // namespace dsanalyze::console
