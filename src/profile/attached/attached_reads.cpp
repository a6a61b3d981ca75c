#include "attached_reads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr double least_seen = 0.95;
constexpr Bytes worth_naming = Bytes{1} << 20;
constexpr std::size_t most_processes_named = 4;

using Identity = std::pair<std::uint64_t, std::uint64_t>;  // device and inode: a file may have several paths

bool begins_with_one_of(std::string_view path, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view each) { return path.starts_with(each); });
}

class Reads {
 public:
  explicit Reads(const LaunchedTraining& launched) : m_trace(*launched.accesses), m_counted(launched) {
    m_record.seconds = m_counted.seconds();
    for (const FileAccess& access : m_trace.accesses)
      if (m_counted.holds(access)) m_files.emplace(m_trace.files[access.file].path, 0);
    std::size_t place = 0;
    for (auto& [path, number] : m_files) number = place++;
  }

  ReadsRecord record() {
    const double samples = m_counted.samples();
    m_record.samples = static_cast<std::uint64_t>(samples);
    for (const FileAccess& access : m_trace.accesses)
      if (m_counted.holds(access)) add(access);
    if (samples > 0) {
      m_record.bytes_per_sample = static_cast<double>(m_record.bytes) / samples;
      m_record.requests_per_sample = static_cast<double>(m_record.requests) / samples;
    }
    if (m_record.requests > 0) m_record.mean_request_bytes = static_cast<double>(m_record.bytes) / static_cast<double>(m_record.requests);
    if (m_changes > 0) m_record.ordered_fraction = static_cast<double>(m_ordered) / static_cast<double>(m_changes);
    return m_record;
  }
  [[nodiscard]] const std::string& first_mapped() const { return m_first_mapped; }

 private:
  void add(const FileAccess& access) {
    const TracedFile& file = m_trace.files[access.file];
    if (access.kind == AccessKind::open) {
      ++m_record.opens;
      return;
    }
    const Identity identity{file.device, file.inode};
    if (m_seen.insert(identity).second) {
      ++m_record.files;
      m_record.file_bytes += file.bytes;
    }
    if (access.kind == AccessKind::mapped) {
      if (!m_mapped.insert(identity).second) return;
      ++m_record.mapped_files;
      m_record.mapped_bytes += file.bytes;
      if (m_first_mapped.empty()) m_first_mapped = file.path;
      return;
    }
    ++m_record.requests;
    m_record.bytes += access.bytes;
    const std::size_t place = m_files.at(file.path);
    const auto [last, is_first] = m_last_files.try_emplace(access.process, place);
    if (is_first || last->second == place) return;
    ++m_changes;
    if (place == last->second + 1) ++m_ordered;
    last->second = place;
  }

  const AccessTrace& m_trace;
  FullAccesses m_counted;
  ReadsRecord m_record;
  std::map<std::string, std::size_t> m_files;  ///< places by name
  std::set<Identity> m_seen, m_mapped;
  std::map<std::uint32_t, std::size_t> m_last_files;  ///< by process: the place of the one that it read last
  std::uint64_t m_changes = 0, m_ordered = 0;
  std::string m_first_mapped;
};

/// "process 12 (busybox), process 14 (cat)".
std::string untraced_text(const AccessTrace& trace) {
  std::vector<std::string> names;
  for (const TracedProcess& process : trace.untraced)
    if (names.size() < most_processes_named) names.push_back(fmt::format("process {} ({})", process.pid, printable(process.command)));
  const std::size_t more = trace.untraced.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

void find_unseen(const AccessTrace& trace, const PhaseMeasurement& full, ProfileResult& result) {
  ReadsRecord& reads = *result.reads;
  Bytes asked = 0;
  Bytes seen = 0;
  if (full.before && full.after && full.before->traced_bytes && full.after->traced_bytes) {
    asked = full.after->requested_bytes - std::min(full.before->requested_bytes, full.after->requested_bytes);
    seen = *full.after->traced_bytes - std::min(*full.before->traced_bytes, *full.after->traced_bytes);
  }
  if (full.before && full.after && full.before->network_bytes && full.after->network_bytes &&
      *full.after->network_bytes > *full.before->network_bytes)
    reads.network_bytes = *full.after->network_bytes - *full.before->network_bytes;
  const bool gap = static_cast<double>(seen) < least_seen * static_cast<double>(asked) && asked - seen >= worth_naming;
  if (gap) {
    const std::string cause =
        trace.untraced.empty()
            ? "What read the rest is not known: C's streams (fgets, getline), io_uring, or a program that makes its system calls itself, for one."
            : fmt::format("Not traced: {}.", untraced_text(trace));
    result.findings.push_back({"reads-partly-seen", Finding::Severity::warning,
                               fmt::format("the tracer saw {} of the {} that the training's processes read by calls in the run full: `reads` "
                                           "holds a part only. {}",
                                           format_bytes(seen), format_bytes(asked), cause)});
  } else if (trace.left_out > 0 && full.after && (trace.accesses.empty() || trace.accesses.back().end < full.after->at)) {
    result.findings.push_back(
        {"reads-partly-seen", Finding::Severity::warning,
         fmt::format("the script read so often that {} calls are not among `reads`: the first {} are, those before the training too. "
                     "Read larger pieces, or what a start reads by fewer calls.",
                     format_number(static_cast<double>(trace.left_out)), format_number(static_cast<double>(trace.accesses.size())))});
  } else if (!trace.untraced.empty()) {
    result.findings.push_back(
        {"reads-untraced", Finding::Severity::info, fmt::format("what these read is not among `reads`: {}.", untraced_text(trace))});
  }
}

/// In the order of time, where several ranks' lie over one another.
std::vector<TimeSpan> merged(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  std::vector<TimeSpan> apart;
  for (const TimeSpan& span : spans) {
    if (!apart.empty() && span.begin <= apart.back().end)
      apart.back().end = std::max(apart.back().end, span.end);
    else
      apart.push_back(span);
  }
  return apart;
}

}  // namespace

bool is_data(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (begins_with_one_of(path, {"/proc/", "/sys/", "/etc/", "/lib/", "/lib32/", "/lib64/", "/usr/lib", "/usr/share/", "/usr/local/lib", "/bin/",
                                "/usr/bin/", "/memfd:", "/dev/shm/torch_", "/dev/shm/sem.", "/dev/shm/psm_"}))
    return false;
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/__pycache__/", "/lib/python3"})
    if (path.find(part) != std::string_view::npos) return false;
  for (const std::string_view ending : {".py", ".pyc", ".so", ".pt", ".pth", ".safetensors"})
    if (name.ends_with(ending)) return false;
  const bool is_the_hooks = name.starts_with("batch-") && path.find("/dsanalyze-") != std::string_view::npos;
  return !is_the_hooks && name.find(".so.") == std::string_view::npos;
}

bool is_within(const std::vector<TimeSpan>& spans, Nanoseconds time) {
  const auto after = std::ranges::upper_bound(spans, time, {}, &TimeSpan::begin);
  return after != spans.begin() && std::prev(after)->end >= time;
}

std::vector<TimeSpan> full_windows(const AttachedTraining& training) {
  std::vector<TimeSpan> windows;
  const auto full = training.phases.find(AttachPhase::full);
  if (full == training.phases.end()) return windows;
  for (const auto& [rank, list] : full->second.by_rank)
    for (const StepWindow& window : list) windows.push_back({window.begin, window.end});
  return merged(std::move(windows));
}

FullAccesses::FullAccesses(const LaunchedTraining& launched) : m_trace(*launched.accesses), m_windows(full_windows(launched.training)) {
  const auto full = launched.training.phases.find(AttachPhase::full);
  if (full == launched.training.phases.end()) return;
  // Of each round from the first measured step on: before it, a queue may fill.
  std::map<int, TimeSpan> rounds;
  for (const SeenSteps& seen : full->second.seen) {
    const auto [round, is_new] = rounds.try_emplace(seen.start, TimeSpan{seen.begin, seen.end});
    round->second = {std::min(round->second.begin, seen.begin), std::max(round->second.end, seen.end)};
  }
  for (const auto& [number, span] : rounds) {
    const auto first = std::ranges::find_if(m_windows, [begin = span.begin](const TimeSpan& window) { return window.begin >= begin; });
    if (first != m_windows.end() && first->begin < span.end) m_spans.push_back({first->begin, span.end});
  }
  std::vector<TimeSpan> steps;  // A window's span holds what lies between its epochs, as validations on other files.
  for (const SeenSteps& seen : full->second.seen) {
    steps.push_back({seen.begin, seen.end});
    if (is_within(m_spans, seen.begin)) m_samples += seen.samples;
  }
  steps = merged(std::move(steps));
  for (const FileAccess& access : m_trace.accesses) {
    const std::string& path = m_trace.files[access.file].path;
    if (access.kind != AccessKind::mapped && is_within(m_windows, access.end) && is_within(steps, access.end) && is_data(path))
      m_folders.insert(path.substr(0, path.rfind('/')));
  }
}

bool FullAccesses::holds(const FileAccess& access) const {
  const std::string_view path = m_trace.files[access.file].path;
  if (access.kind == AccessKind::mapped) return !m_windows.empty() && access.end <= m_windows.back().end && is_data(path);
  return is_within(m_spans, access.end) && is_data(path) && m_folders.contains(path.substr(0, path.rfind('/')));
}

double FullAccesses::seconds() const {
  double seconds = 0;
  for (const TimeSpan& span : m_spans) seconds += to_seconds(span.end - span.begin);
  return seconds;
}

void take_reads(const LaunchedTraining& launched, ProfileResult& result) {
  const RunRecord* const full = result.run("full");
  if (!launched.accesses || full == nullptr) return;
  const AccessTrace& trace = *launched.accesses;
  Reads reads(launched);
  result.reads = reads.record();
  find_unseen(trace, launched.training.phases.at(AttachPhase::full), result);
  if (result.reads->mapped_files > 0)
    result.findings.push_back(
        {"reads-mapped", Finding::Severity::info,
         fmt::format(
             "{} of the dataset's files ({}) {} memory-mapped: what is read of {} is no call, and its bytes are those of the storage counters.",
             result.reads->mapped_files, printable(reads.first_mapped()), result.reads->mapped_files == 1 ? "is" : "are",
             result.reads->mapped_files == 1 ? "it" : "them")});
}

}  // namespace dsanalyze
