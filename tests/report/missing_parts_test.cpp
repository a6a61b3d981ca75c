#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pages.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test;

namespace {

/// A part of a profile that a run which came to nothing leaves out. That one is read all the same shows in builds with sanitizers, whose library
/// checks it.
struct Part {
  std::string name;
  std::function<void(ProfileResult&)> take;
};

void take_run(ProfileResult& profile, const std::string& name) {
  std::erase_if(profile.runs, [&name](const RunRecord& run) { return run.name == name; });
}

std::vector<Part> parts() {
  std::vector<Part> all;
  const auto part = [&all](std::string name, auto member) {
    all.push_back({std::move(name), [member](ProfileResult& each) { (each.*member).reset(); }});
  };
  part("G", &ProfileResult::ingestion);
  part("P", &ProfileResult::prep);
  part("C", &ProfileResult::cache);
  part("S", &ProfileResult::storage);
  part("F", &ProfileResult::fetch);
  part("N", &ProfileResult::network);
  part("H", &ProfileResult::transfer);
  part("bottleneck", &ProfileResult::bottleneck);
  part("stalls", &ProfileResult::stalls);
  part("attained", &ProfileResult::attained);
  part("order", &ProfileResult::order);
  part("partition", &ProfileResult::partition);
  part("sharing", &ProfileResult::sharing);
  part("servers of prep", &ProfileResult::prep_servers);
  for (const char* run : {"fetch", "synthetic", "prep", "cached", "full"})
    all.push_back({std::string("run ") + run, [run](ProfileResult& each) { take_run(each, run); }});
  return all;
}

ProfileResult with_all_parts() {
  ProfileResult profile = full_profile();
  profile.transfer = profile.prep;
  profile.network = profile.storage;
  return profile;
}

}  // namespace

TEST_CASE("a profile that lacks any of its parts, or any two of them, has a summary") {
  const std::vector<Part> all = parts();
  for (const Part& one : all)
    for (const Part& other : all) {
      CAPTURE(one.name);
      CAPTURE(other.name);
      ProfileResult profile = with_all_parts();
      one.take(profile);
      other.take(profile);
      CHECK_FALSE(console_summary(profile_from_json(to_json(profile), "less"), {}).empty());
    }
}

TEST_CASE("a profile that lacks any of its parts has a page, a Markdown report and metrics") {
  for (const Part& one : parts()) {
    CAPTURE(one.name);
    ReportInput input = full_input("least.json");
    ProfileResult profile = with_all_parts();
    one.take(profile);
    input.record = profile_from_json(to_json(profile), "less");
    CHECK_FALSE(html_report(std::array{input}, {"{{sections}}", "", "", ""}).empty());
    CHECK_FALSE(markdown_report(std::array{input}).empty());
    CHECK_FALSE(open_metrics(std::get<ProfileResult>(input.record)).empty());
  }
}
