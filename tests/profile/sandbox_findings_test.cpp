#include <doctest/doctest.h>

#include <vector>

#include "../base/texts.hpp"
#include "attached_rig.hpp"
#include "profile/attached/attached_parts.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("where there was no sandbox, G is that of the steps as found without their waiting, and no phase is missing") {
  LaunchedTraining launched = prep_bound();
  launched.training.phases.erase(AttachPhase::synthetic);
  launched.training.phases.erase(AttachPhase::cached);
  LaunchSettings settings;
  settings.command = {"python3", "train.py"};
  settings.plan.phases = Conductor::Phases::full_and_prep;
  settings.sandbox.emplace().refusal = "a user namespace: Operation not permitted";
  const ProfileResult result = attached_profile(launched, settings, HostFacts{});
  CHECK(result.ingestion->samples_per_s == doctest::Approx(3200).epsilon(0.001));  // Of 20 ms a step, 10 are waiting.
  CHECK_FALSE(result.finds("phases-missing"));
  CHECK(says(finding_of(result, "sandbox-refused").message, "Operation not permitted"));
  CHECK(says(finding_of(result, "sandbox-refused").message, "--keep-output"));
}

TEST_CASE("what a sandbox held is told: what was written, and that it was full") {
  SandboxContents contents;
  CHECK(sandbox_findings(contents).empty());
  contents.files = 4;
  contents.bytes = 5 << 20;
  contents.named = {"/data/a", "/data/b", "/data/c", "/tmp/d"};
  contents.full = true;
  const std::vector<Finding> findings = sandbox_findings(contents);
  REQUIRE(findings.size() == 2);
  CHECK(says(findings[0].message, "wrote 4 files of 5 MiB"));
  CHECK(says(findings[0].message, "/data/c, ..."));
  CHECK(findings[1].code == "sandbox-full");
}
