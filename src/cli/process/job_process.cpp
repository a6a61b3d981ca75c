#include "job_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "cli/commands/command.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze::cli {
namespace {

/// What such a process is started with; the descriptors are where it looks for them.
constexpr const char* job_request = "__job";
constexpr int line_descriptor = 3;
constexpr int report_descriptor = 4;

FileDescriptor out_of_the_way(int descriptor) {
  constexpr int beyond_those = 16;
  FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, beyond_those));
  if (!copy.valid()) throw_errno("cannot pass on", "a job's descriptors", errno);
  return copy;
}

}  // namespace

std::int64_t start_job_process(int line, int report) {
  const FileDescriptor line_copy = out_of_the_way(line);
  const FileDescriptor report_copy = out_of_the_way(report);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, line_copy.get(), line_descriptor);
  posix_spawn_file_actions_adddup2(&actions, report_copy.get(), report_descriptor);
  std::string name = "dsanalyze";
  std::string request = job_request;
  const std::array<char*, 3> arguments{name.data(), request.data(), nullptr};
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw_errno("cannot start", "the process of a job", failed);
  return process;
}

std::optional<int> run_as_job_process(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1 || arguments.front() != job_request) return std::nullopt;
  for (const int inherited : {line_descriptor, report_descriptor}) {
    if (::fcntl(inherited, F_SETFD, FD_CLOEXEC) != 0) throw UsageError(fmt::format("{}: dsanalyze starts such processes itself", job_request));
  }
  const GroupJobEnd end = run_group_job_process(FileDescriptor(line_descriptor), FileDescriptor(report_descriptor), system_timing());
  if (!end.untold.empty()) fmt::print(stderr, "dsanalyze: error: a job of a profile that is gone: {}\n", printable(end.untold));
  return end.ok ? exit_ok : exit_failed;
}

}  // namespace dsanalyze::cli
