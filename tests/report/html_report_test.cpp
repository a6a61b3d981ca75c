#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "../base/texts.hpp"
#include "pages.hpp"
#include "report_samples.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test;
using testing::all_of;
using testing::says;

namespace {

const HtmlAssets assets{"<title>{{title}}</title><p>{{subtitle}}</p><nav>{{navigation}}</nav>{{sections}}<island>{{record}}</island>{{scripts}}", "",
                        "", "<script>{{record}}</script>"};

std::string page_of(const ReportInput& input) { return html_report(std::array{input}, assets); }

nlohmann::json island_of(const std::string& page) {
  const std::size_t begin = page.find("<island>") + 8;
  return nlohmann::json::parse(page.substr(begin, page.find("</island>") - begin));
}

}  // namespace

TEST_CASE("the page's record holds the result, its model and the charts, and the template's places are filled once") {
  const std::string page = page_of(full_input("full.json"));
  const nlohmann::json island = island_of(page);
  CHECK(island["results"][0]["schema"] == "dsanalyze.profile/1");
  CHECK(island["results"][0]["settings"]["seed"] == 0xffff'ffff'ffff'fffe);
  const nlohmann::json live = island["live"][0];
  CHECK(live["command"] == "dsanalyze whatif full.json");
  CHECK(live["axes"][0]["name"] == "cache_fraction");
  REQUIRE(live["axes"][0]["points"][2].size() == live["columns"].size());
  CHECK(live["columns"][4] == "samples_per_s");
  CHECK(live["axes"][0]["points"][2][4] == 10'208);
  CHECK(live["base"]["samples_per_s"] == 7157);
  CHECK(island["charts"]["cache-curve"]["marks"].size() == 2);
  CHECK(says(page, "<script>{{record}}</script>"));
}

TEST_CASE("the curves of a launched training begin with that of its workers, without F where that is not known") {
  const ReportInput input{"run.json", full_profile(), training_curves(), ""};
  const std::string page = page_of(input);
  const nlohmann::json island = island_of(page);
  CHECK(island["charts"]["workers-curve"]["series"].size() == 3);
  CHECK_FALSE(island["charts"].contains("storage-curve"));
  CHECK(island["live"][0]["axes"][1]["why_absent"] == "--storage: what storage supplies is not in the profile");
  const std::string section = page.substr(page.find("id=\"workers-curve\""), page.find("id=\"whatif\"") - page.find("id=\"workers-curve\""));
  CHECK(says(section, "185 ± 5"));
  CHECK_FALSE(says(section, "fetch [F]"));
}

TEST_CASE("every chart stands above a table that is there, and no two things have one id") {
  for (const ReportInput& other : {full_input("b.json"), ReportInput{"least", least_profile(), {}, ""}}) {
    const std::string page = html_report(std::array{full_input("a.json"), other}, assets);
    const auto ids = all_of(page, "id=\"([^\"]*)\"");
    for (const std::string& id : ids) CHECK_MESSAGE(ids.count(id) == 1, id);
    const auto tables = all_of(page, "aria-describedby=\"([^\"]*)\"");
    CHECK(tables.size() > 5);
    for (const std::string& table : tables) CHECK_MESSAGE(ids.count(table) == 1, table);
    const nlohmann::json charts = island_of(page)["charts"];
    for (const std::string& chart : all_of(page, "data-chart=\"([^\"]*)\"")) CHECK_MESSAGE(charts.contains(chart), chart);
    for (const std::string& link : all_of(page, "href=\"#([^\"]*)\"")) CHECK_MESSAGE(ids.count(link) == 1, link);
  }
}

TEST_CASE("a setting that only one of two results has stands beside what the other was not given") {
  for (const bool first : {true, false}) {
    ProfileResult more = least_profile();
    more.settings.image_key = "jpg;png";
    more.settings.job_speeds = {1, 0.5};
    const ReportInput with{"with", more, {}, ""};
    const ReportInput without{"without", least_profile(), {}, ""};
    const std::string page = html_report(first ? std::array{with, without} : std::array{without, with}, assets);
    CHECK(says(page, "2 differ; they come first."));
    for (const char* part : {"image key", "jpg;png", "job speeds", "not given"}) CHECK_MESSAGE(says(page, part), part);
  }
}

TEST_CASE("of jobs that drew dependently the verdict says what sharing saved, and the section each job's speed and what came from the store") {
  const std::string page = page_of({"dependent.json", dependent_profile(), {}, ""});
  const std::string section = page.substr(page.find("id=\"jobs\""), page.find("id=\"training\"") - page.find("id=\"jobs\""));
  for (const char* part : {"2 jobs drew dependently, and the coordinator prepared for all", "each prepared sample was given to 1.73 jobs",
                           "of those drawn came from the store (lru, at most 10 samples)", "speed", "0.45"})
    CHECK_MESSAGE(says(section, part), part);
  CHECK(says(
      page, "For each sample of the fastest job (job 1), 1.66 were prepared; jobs that share nothing would have needed 2.53, so sharing saved 34.4"));
  CHECK(says(page, "drawing dependently, speeds 1 : 0.6 : 0.45 : 0.28, a store of 10"));
}

TEST_CASE("jobs side by side have a section: what they shared, each job, the trials, and what each of them learned") {
  const std::string page = page_of(full_input("full.json"));
  const std::string section = page.substr(page.find("id=\"jobs\""), page.find("id=\"training\"") - page.find("id=\"jobs\""));
  for (const char* part : {"2 jobs took every batch from one preparation", "finished, trial 7", "died", "617 ", "50-aa", "samples/s", "stopped"})
    CHECK_MESSAGE(says(section, part), part);
  CHECK(says(page, "full, job 1"));
  CHECK(says(page, "of one of the 4 jobs, alone on this server"));
  CHECK_FALSE(says(page_of({"least", least_profile(), {}, ""}), "Jobs side by side"));
  ReportInput hostile = full_input("full.json");
  auto& profile = std::get<ProfileResult>(hostile.record);
  profile.jobs[1].epochs[0].digest = "<img src=x>|`";
  CHECK_FALSE(says(page_of(hostile), "<img"));
}

TEST_CASE("a page of many jobs with many epochs shows a part of them and says so") {
  ReportInput input = full_input("full.json");
  auto& profile = std::get<ProfileResult>(input.record);
  profile.jobs.resize(64, profile.jobs[1]);
  for (JobRecord& job : profile.jobs) job.epochs.resize(100, profile.jobs[1].epochs[0]);
  CHECK(says(page_of(input), "256 of 6,400 (the JSON record has them all)"));
}

TEST_CASE("every column of a table has a heading") {
  const std::string page = html_report(std::array{full_input("a.json"), full_input("b.json")}, assets);
  CHECK(all_of(page, "<th scope=\"col\"[^>]*>([^<]*)</th>").size() > 50);
  CHECK(all_of(page, "<th scope=\"col\"[^>]*>(</th>)").empty());
}

TEST_CASE("a stranger finds the bottleneck, how sure that is and what to do in the first section, with the letters in words") {
  const std::string page = page_of(full_input("full.json"));
  const std::string first = page.substr(0, page.find("</section>"));
  for (const char* part :
       {"training waits for storage", "Is it sure", "yes: the lowest", "Do first", "Cache more.", "prep decodes and changes them on the CPU [P]"})
    CHECK_MESSAGE(says(first, part), part);
}

TEST_CASE("names that hold markup end no element, in the text and in the record") {
  ReportInput input = full_input("</script><script>alert(1)</script>");
  auto& profile = std::get<ProfileResult>(input.record);
  const std::string hostile = "\"'><img src=x onerror=alert(1)></script><!--\xff\x00\x1b]";  // NOLINT(bugprone-string-literal-with-embedded-nul)
  profile.host.cpu_model = hostile;
  profile.dataset.path = hostile;
  profile.runs[0].name = hostile;
  profile.advice[0].text = hostile;
  profile.findings[0].message = hostile;
  profile.settings.workload = hostile;
  input.whatif_command = "</script>";
  const std::string page = page_of(input);
  CHECK(all_of(page, "(<img)").empty());
  CHECK(all_of(page, "(<!--)").empty());
  CHECK(all_of(page, "(</script)").size() == 1);
  CHECK(island_of(page)["live"][0]["command"] == "</script>");
}

TEST_CASE("a record with nearly nothing, or a hundred findings and texts of megabytes, makes a page of bounded size") {
  const std::string least = page_of({"least", least_profile(), {}, ""});
  CHECK(says(least, "Is it sure"));
  ReportInput input = full_input("huge");
  auto& profile = std::get<ProfileResult>(input.record);
  for (int at = 0; at < 100; ++at) profile.findings.push_back({"code", Finding::Severity::warning, "finding number " + std::to_string(at)});
  profile.host.cpu_model = std::string(10'000'000, 'x');  // NOLINT(bugprone-string-constructor)
  profile.runs[1].timeline.assign(10'000, {0.1, 0.9, 1 << 20, 1e6, 0.35});
  profile.runs[1].epochs.assign(5'000, profile.runs[1].epochs.front());
  const std::string page = page_of(input);
  CHECK(page.size() < 400'000);
  CHECK(says(page, "finding number 99"));
  CHECK(says(page, "9.54 MiB in all"));
  CHECK(says(page, "500 of 10,000 readings are shown"));
}

TEST_CASE("four hundred long findings make no page of megabytes, and what is left out is said") {
  HtmlAssets heavy = assets;
  heavy.scripts = std::string(300'000, 's');
  ReportInput input = full_input("long");
  auto& profile = std::get<ProfileResult>(input.record);
  for (int at = 0; at < 400; ++at)
    profile.findings.push_back({"code", Finding::Severity::error, "number " + std::to_string(at) + std::string(8000, '<')});
  const std::string page = html_report(std::array{input}, heavy);
  CHECK(page.size() <= 600'000);
  CHECK(says(page, "number 0&lt;"));
  CHECK(all_of(page, "(the first [0-9]+ of 40[0-9] rows)").size() == 1);
  CHECK(island_of(page)["shortened"] == true);
  CHECK(island_of(page_of(full_input("full.json")))["shortened"] == false);
}

TEST_CASE("thousands of pieces of advice make no page of megabytes, the first ones are shown, and how many are not is said") {
  HtmlAssets heavy = assets;
  heavy.scripts = std::string(300'000, 's');
  ReportInput input = full_input("advised");
  auto& profile = std::get<ProfileResult>(input.record);
  profile.advice.clear();
  for (int at = 0; at < 1500; ++at)
    profile.advice.push_back({"code", "advice " + std::to_string(at) + std::string(300, '<'), {}, {{"PyTorch", "step " + std::string(3000, '<')}}});
  const std::string page = html_report(std::array{input}, heavy);
  CHECK(page.size() <= 600'000);
  CHECK(says(page, "<li>advice 0&lt;"));
  CHECK(all_of(page, "(and 1,4[0-9]+ more; the JSON record has them all)").size() == 1);
}
