#include <fmt/format.h>

#include <algorithm>
#include <map>
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

std::vector<Finding> sandbox_findings(const SandboxContents& contents, double copying_seconds) {
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
  if (!contents.copied.empty())
    findings.push_back(
        {"outputs-copied", Severity::info,
         fmt::format("{} of {} {} copied into the sandbox when the command opened {} for writing, which took {}. An ordinary run "
                     "copies nothing; what was read for that is in the bytes from storage.",
                     count_text(contents.copied.size()), format_bytes(contents.copied_bytes), contents.copied.size() == 1 ? "was" : "were",
                     contents.copied.size() == 1 ? "it" : "them", format_seconds(copying_seconds))});
  if (contents.full)
    findings.push_back(
        {"sandbox-full", Severity::warning,
         "the folder of the sandbox has no space left, which the command saw as a full disk. Name a folder with more by --sandbox DIR."});
  return findings;
}

double copying_seconds(const AccessTrace& accesses, const SandboxContents& contents) {
  std::map<std::uint32_t, double> longest;
  for (const FileAccess& access : accesses.accesses) {
    if (access.kind != AccessKind::open || access.nanoseconds == 0) continue;
    double& seconds = longest[access.file];
    seconds = std::max(seconds, to_seconds(access.nanoseconds));
  }
  double all = 0;
  for (const auto& [file, seconds] : longest)
    if (contents.copied.contains(accesses.files[file].path)) all += seconds;
  return all;
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
  const SandboxContents contents = launched.sandbox->contents();
  const double seconds = launched.accesses ? copying_seconds(*launched.accesses, contents) : 0;
  std::ranges::move(sandbox_findings(contents, seconds), std::back_inserter(result.findings));
}

}  // namespace dsanalyze
