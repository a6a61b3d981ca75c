#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attach/launch.hpp"
#include "attach/reads/access_trace.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// Whether a file that is read while a training runs is data: not a library, not a part of Python or of the system, no weights of a model.
bool is_data(std::string_view path);
/// Time in which the full run was measured: apart, in order.
struct TimeSpan {
  Nanoseconds begin = 0, end = 0;
};
/// `spans` are apart and in order.
bool is_within(const std::vector<TimeSpan>& spans, Nanoseconds time);
std::vector<TimeSpan> full_windows(const AttachedTraining& training);
/// Which accesses are the training's to its dataset's files in the run full: those from its first window to its last, with the steps between windows
/// and the time between epochs, as a loader reads ahead there, which the windows train. Accesses to files in a folder from which no window reads are
/// a validation's, and none of these.
class FullAccesses {
 public:
  explicit FullAccesses(const LaunchedTraining& launched);
  /// What was mapped before may be read in the windows.
  [[nodiscard]] bool holds(const FileAccess& access) const;
  [[nodiscard]] double seconds() const;
  /// That were trained in this time.
  [[nodiscard]] double samples() const { return m_samples; }

 private:
  const AccessTrace& m_trace;
  std::vector<TimeSpan> m_windows, m_spans;
  std::set<std::string, std::less<>> m_folders;
  double m_samples = 0;
};
/// Of what was traced in the full run, the files of the dataset: ProfileResult::reads, and findings on what the tracer did not see. `result` has its
/// runs.
void take_reads(const LaunchedTraining& launched, ProfileResult& result);

}  // namespace dsanalyze
