#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attached_parts.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

using Severity = Finding::Severity;

std::string count_text(std::size_t count) { return fmt::format("{} file{}", count, count == 1 ? "" : "s"); }

}  // namespace

std::vector<Finding> sandbox_findings(const SandboxContents& contents) {
  constexpr std::size_t most_named = 3;
  std::vector<Finding> findings;
  if (contents.files > 0) {
    std::vector<std::string> named(contents.named.begin(), contents.named.begin() + std::min(most_named, contents.named.size()));
    findings.push_back(
        {"outputs-discarded", Severity::info,
         fmt::format("the command wrote {} of {} in its sandbox, which are discarded ({}{}). Pass --keep-output to keep what it writes.",
                     count_text(contents.files), format_bytes(contents.bytes), printable(fmt::format("{}", fmt::join(named, ", "))),
                     contents.files > named.size() ? ", ..." : "")});
  }
  if (contents.full)
    findings.push_back(
        {"sandbox-full", Severity::warning,
         "the folder of the sandbox has no space left, which the command saw as a full disk. Name a folder with more by --sandbox DIR."});
  return findings;
}

void tell_sandbox(const LaunchedTraining& launched, const LaunchSettings& settings, ProfileResult& result) {
  if (settings.sandbox && !settings.sandbox->refusal.empty())
    result.findings.push_back(
        {"sandbox-refused", Severity::warning,
         fmt::format("the command ran without a sandbox ({}). It trained on its own data and wrote what it always writes, so only the phases full "
                     "and prep were measured, and G is that of the steps as found. Pass --keep-output for all phases, or let the container mount "
                     "(docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined).",
                     printable(settings.sandbox->refusal))});
  if (!launched.sandbox) return;
  std::ranges::move(sandbox_findings(launched.sandbox->contents()), std::back_inserter(result.findings));
}

}  // namespace dsanalyze
