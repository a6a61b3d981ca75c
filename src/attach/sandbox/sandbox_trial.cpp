#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "layers.hpp"
#include "sandbox.hpp"

/// What of a sandbox this machine permits: tried, as no list of kernels, runtimes and filesystems would stay right.

namespace dsanalyze {
namespace {

constexpr int most_milliseconds = 10'000;

struct Refusal {
  const char* what = nullptr;  ///< text of this program, which a fork has at the same place; nullptr: nothing was refused
  int error = 0;
};

struct Trial {
  Refusal refusal;
  std::vector<int> failed;  ///< overlays that can be done without
};

/// Enters the sandbox in a child that ends at once.
Trial try_out(const Sandbox& sandbox) {
  std::array<int, 2> failures{}, refusals{};
  if (::pipe2(failures.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("cannot make a pipe for", "the sandbox", errno);
  const FileDescriptor failures_read(failures[0]), failures_write(failures[1]);
  if (::pipe2(refusals.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe for", "the sandbox", errno);
  const FileDescriptor refusals_read(refusals[0]);
  FileDescriptor refusals_write(refusals[1]);
  const pid_t child = ::fork();
  if (child < 0) throw_errno("cannot start", "a trial of the sandbox", errno);
  if (child == 0) {
    Refusal refusal;
    refusal.what = sandbox.enter(failures_write.get());
    refusal.error = errno;
    ::_exit(::write(refusals_write.get(), &refusal, sizeof refusal) == sizeof refusal ? 0 : 1);
  }
  refusals_write.reset();
  Trial trial;
  pollfd answer{refusals_read.get(), POLLIN, 0};
  if (::poll(&answer, 1, most_milliseconds) <= 0) {
    ::kill(child, SIGKILL);  // A mount's server does not answer: the child ends once it does, and is collected with others.
    return {{"mounts that answer", ETIMEDOUT}, {}};
  }
  if (::read(refusals_read.get(), &trial.refusal, sizeof trial.refusal) != sizeof trial.refusal) trial.refusal = {"a trial", ECHILD};
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  for (int number = 0; ::read(failures_read.get(), &number, sizeof number) == sizeof number;) trial.failed.push_back(number);
  return trial;
}

/// Completes the plan by a trial. Why it does not work; empty where it does.
std::string refusal_of(SandboxPlan& plan) {
  try {
    plan.settings.layers = made_layers_folder(plan.settings.layers);
    plan.written = written_folders(plan.settings);
    plan.steps = plan_mounts(plan.settings, plan.rights, plan.written, reachable_mounts());
    const Sandbox sandbox(plan, {});
    const Trial trial = try_out(sandbox);
    for (const int number : trial.failed) plan.steps.at(static_cast<std::size_t>(number)).kind = MountStep::Kind::read_only;
    return trial.refusal.what == nullptr ? "" : fmt::format("{}: {}", trial.refusal.what, describe_errno(trial.refusal.error));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

SandboxPlan plan_sandbox(const SandboxSettings& settings) {
  SandboxPlan plan{settings};
  std::vector<std::string> refusals;
  for (const SandboxRights rights : {SandboxRights::own, SandboxRights::user_namespace}) {
    plan.rights = rights;
    for (const bool in_memory : {false, true}) {
      plan.in_memory = in_memory;
      plan.refusal = refusal_of(plan);
      if (plan.refusal.empty() && in_memory && settings.layers_chosen)
        throw UsageError(fmt::format("--sandbox: {} cannot hold a sandbox: {}; name a folder on ext4, xfs, btrfs or tmpfs",
                                     settings.layers.parent_path().native(), refusals.back()));
      if (plan.refusal.empty()) return plan;
      if (std::ranges::find(refusals, plan.refusal) == refusals.end()) refusals.push_back(plan.refusal);
    }
  }
  plan.refusal = fmt::format("{}", fmt::join(refusals, "; "));
  return plan;
}

}  // namespace dsanalyze
