#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process/spawn.hpp"
#include "base/text/text.hpp"
#include "layers.hpp"
#include "sandbox.hpp"

/// What of a sandbox this machine permits: tried, as no list of kernels, runtimes and filesystems would stay right.

namespace dsanalyze {
namespace {

/// Completes the plan by a trial: a child enters the sandbox and writes in each folder that the command may write. Why that does not work; empty
/// where it does.
std::string refusal_of(SandboxPlan& plan) {
  constexpr double most_seconds = 10;  // Mounts take milliseconds, unless the server of one does not answer.
  try {
    plan.settings.layers = made_layers_folder(plan.settings.layers);
    const std::vector<std::filesystem::path> written = written_folders(plan.settings);
    plan.steps = plan_mounts(plan.settings, plan.rights, written, reachable_mounts());
    const Sandbox sandbox(plan, {});
    std::vector<std::string> probes;
    probes.reserve(written.size());
    for (const std::filesystem::path& folder : written) probes.push_back(folder / sandbox.layer().filename());
    const auto try_out = [&]() -> ChildFailure {
      if (const char* const failed = sandbox.enter(); failed != nullptr) return {failed, errno};
      for (const std::string& probe : probes)
        if (::mkdir(probe.c_str(), S_IRWXU) != 0) return {"writing where the command may write", errno};
      return {};
    };
    const auto [child, failure] = fork_child(try_out, most_seconds);
    if (failure.error != ETIMEDOUT) ::waitpid(child, nullptr, 0);
    return failure.error == 0 ? "" : fmt::format("{}: {}", failure.what, describe_errno(failure.error));
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
