#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "../base/texts.hpp"
#include "golden.hpp"
#include "pages.hpp"
#include "record_samples.hpp"
#include "report/document/record_documents.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test;
using testing::all_of;
using testing::check_golden_file;
using testing::says;

namespace {

const HtmlAssets bare_assets{"<title>{{title}}</title><nav>{{navigation}}</nav>{{sections}}<island>{{record}}</island>", "", "", ""};

std::string bare_page_of(const ReportInput& input) { return html_report(std::array{input}, bare_assets); }

std::vector<ReportInput> every_kind() {
  return {record_input("whatif.json", full_whatif()),     record_input("sweep.json", swept_whatif()),
          record_input("servers.json", scaled_whatif()),  record_input("simulate.json", full_simulation()),
          record_input("sizes.json", sized_simulation()), record_input("doctor.json", full_examination()),
          record_input("gate.json", full_gate()),         record_input("draws.json", simulated_draws())};
}

/// Profiles of three cache sizes by two numbers of cores, to which the number of workers goes along.
std::vector<ReportInput> swept_profiles() {
  std::vector<ReportInput> inputs;
  for (const double cache : {0.5, 0.25, 1.0})
    for (const int cores : {16, 8}) {
      ReportInput input = full_input(std::to_string(inputs.size()) + ".json");
      auto& profile = std::get<ProfileResult>(input.record);
      profile.settings.cache_size = ByteAmount{ByteAmount::Kind::fraction, 0, cache};
      profile.settings.cores = cores;
      profile.settings.workers = cores;
      for (RunRecord& run : profile.runs)
        if (run.name == "full") {
          run.samples_per_s = 1000 * cache + cores;
          run.ci95_samples_per_s = {run.samples_per_s - 10, run.samples_per_s + 10};
        }
      inputs.push_back(std::move(input));
    }
  return inputs;
}

}  // namespace

TEST_CASE("the Markdown of every kind of record is as its golden file") {
  for (const ReportInput& input : every_kind())
    check_golden_file("report_" + input.label.substr(0, input.label.find('.')) + ".md", markdown_report(std::array{input}));
}

TEST_CASE("pages of every kind have a table that is there below each chart, ids of one thing each, and columns with headings") {
  for (const ReportInput& input : every_kind()) {
    CAPTURE(input.label);
    const std::string page = bare_page_of(input);
    const auto ids = all_of(page, "id=\"([^\"]*)\"");
    for (const std::string& id : ids) CHECK_MESSAGE(ids.count(id) == 1, id);
    for (const std::string& table : all_of(page, "aria-describedby=\"([^\"]*)\"")) CHECK_MESSAGE(ids.count(table) == 1, table);
    for (const std::string& link : all_of(page, "href=\"#([^\"]*)\"")) CHECK_MESSAGE(ids.count(link) == 1, link);
    CHECK(all_of(page, "<th scope=\"col\"[^>]*>(</th>)").empty());
    CHECK(all_of(page, "(<h1)").size() == 1);
    const std::size_t begin = page.find("<island>") + 8;
    const auto island = nlohmann::json::parse(page.substr(begin, page.find("</island>") - begin));
    CHECK(island["live"][0].is_null());
    for (const std::string& chart : all_of(page, "data-chart=\"([^\"]*)\"")) CHECK_MESSAGE(island["charts"].contains(chart), chart);
  }
}

TEST_CASE("two records of one kind keep their ids and names apart") {
  const std::string page = html_report(std::array{record_input("a.json", full_gate()), record_input("b.json", full_gate())}, bare_assets);
  const auto ids = all_of(page, "id=\"([^\"]*)\"");
  for (const std::string& id : ids) CHECK_MESSAGE(ids.count(id) == 1, id);
  CHECK(says(page, "b.json: Regression"));
  CHECK(says(console_report(std::array{record_input("a.json", full_gate()), record_input("b.json", full_gate())}, {}), "b.json\n\nregression"));
}

TEST_CASE("names in records of every kind end no element and make no markup") {
  const std::string hostile = "</script><img src=x onerror=alert(1)><!--|a|\x1b[31m";
  WhatIfResult whatif = full_whatif();
  whatif.job_mix->path = whatif.job_mix->jobs.front().name = whatif.job_mix->answers.front().not_predicted = hostile;
  whatif.source = whatif.model = whatif.advice[0].text = whatif.findings[0].message = hostile;
  whatif.answers[1].change.cache = whatif.found[0].then = whatif.found[0].unit = whatif.validation->reason = hostile;
  whatif.search->conclusions = {hostile};
  whatif.search->front[0].setup.storage = whatif.search->currency = hostile;
  WhatIfResult scaled = scaled_whatif();
  for (WhatIfAnswer& answer : scaled.answers)
    if (answer.change.servers) answer.change.partition = hostile;
  SimulateResult simulation = full_simulation();
  simulation.source = simulation.name = simulation.description = hostile;
  DoctorResult examination = full_examination();
  examination.cpu_model = examination.dataset = examination.kernel = examination.container = hostile;
  for (DoctorCheck& check : examination.checks) {
    check.title = check.found = check.why = check.fix = check.group = check.code = hostile;
    for (DoctorCommand& each : check.commands) each.command = hostile;
  }
  GateResult gate = full_gate();
  gate.reason = gate.metrics[0].name = gate.metrics[0].reason = gate.absent[0].reason = gate.ignored[0].current = hostile;
  gate.baseline.sources = gate.current.tools = {hostile};
  for (const ReportInput& input : {record_input(hostile, whatif), record_input(hostile, scaled), record_input(hostile, simulation),
                                   record_input(hostile, examination), record_input(hostile, gate)}) {
    CAPTURE(input.record.index());
    const std::string page = bare_page_of(input);
    CHECK(all_of(page, "(<img|<!--|</script)").empty());
    CHECK(says(page, "alert(1)"));
    const std::string markdown = markdown_report(std::array{input});
    CHECK_FALSE(says(markdown, "<img"));
    CHECK_FALSE(says(markdown, "\x1b"));
    CHECK_FALSE(says(console_report(std::array{input}, {}), "\x1b"));
  }
}

TEST_CASE("a what-if of several factors is a map of the two with most values, the others held where the best answer has them") {
  const auto map = report::whatif_sweep(swept_whatif());
  REQUIRE(map);
  CHECK(map->held == "accelerator speed 2x");
  std::vector<std::string> headings, rows;
  for (const report::Column& column : map->table.columns) headings.push_back(column.heading);
  for (const auto& row : map->table.rows) rows.push_back(row.front().text);
  CHECK(headings == std::vector<std::string>{"cache", "unchanged", "24", "48"});
  CHECK(rows == std::vector<std::string>{"25 %", "35 % (unchanged)", "50 %", "75 %"});
  CHECK(map->table.rows[3][3].text == "8,982 [F]");
  CHECK(map->table.rows[3][3].heat == 9);
  CHECK(map->table.rows[0][1].heat == 0);
  CHECK(map->table.rows[3][3].look == report::Cell::Look::heat);
  const std::string page = bare_page_of(record_input("sweep.json", swept_whatif()));
  CHECK(says(page, "<td class=\"number heat heat-9\">8,982 [F]</td>"));
  CHECK(says(console_report(std::array{record_input("sweep.json", swept_whatif())}, {}), "35 % (unchanged)"));
}

TEST_CASE("locality that is balanced from storage is a way of parting the dataset of its own in the map") {
  WhatIfResult result = swept_whatif();
  result.answers.resize(1);
  for (const std::uint32_t servers : {2U, 8U})
    for (const auto& [partition, balance_from] : {std::pair{"none", ""}, {"locality", "peers"}, {"locality", "storage"}}) {
      WhatIfAnswer& answer = result.answers.emplace_back(result.answers.front());
      answer.change.servers = servers;
      answer.change.partition = partition;
      answer.change.balance_from = balance_from;
      answer.change.storage_scope = "server";
      answer.samples_per_s *= servers;
    }
  const auto map = report::whatif_sweep(result);
  REQUIRE(map);
  std::vector<std::string> partitions, servers;
  for (const report::Column& column : map->table.columns) servers.push_back(column.heading);
  for (const auto& row : map->table.rows) partitions.push_back(row.front().text);
  CHECK(partitions == std::vector<std::string>{"none", "locality", "locality, balanced from storage"});
  CHECK(servers == std::vector<std::string>{"partition", "2", "8"});
}

TEST_CASE("factors that were changed one at a time are no map, and what lacks with the measured configuration alone is left out of one") {
  WhatIfResult result = swept_whatif();
  std::erase_if(result.answers, [](const WhatIfAnswer& answer) { return answer.change.cache_fraction && answer.change.cores; });
  CHECK_FALSE(report::whatif_sweep(result));
  result = swept_whatif();
  std::erase_if(result.answers,
                [](const WhatIfAnswer& answer) { return answer.change.cache_fraction.has_value() != answer.change.cores.has_value(); });
  const auto map = report::whatif_sweep(result);
  REQUIRE(map);
  CHECK(map->table.rows.size() == 3);
  CHECK(map->table.columns.size() == 3);
  result.answers.resize(1);
  CHECK_FALSE(report::whatif_sweep(result));
}

TEST_CASE("kinds of caches, which have no order, are rows as they come") {
  WhatIfResult result = swept_whatif();
  for (WhatIfAnswer& answer : result.answers) {
    if (answer.change.cache_fraction)
      answer.change.cache = *answer.change.cache_fraction > 0.6 ? "page" : *answer.change.cache_fraction > 0.3 ? "lru" : "minio";
    answer.change.cache_fraction.reset();
  }
  const auto map = report::whatif_sweep(result);
  REQUIRE(map);
  std::vector<std::string> rows;
  for (const auto& row : map->table.rows) rows.push_back(row.front().text);
  CHECK(rows == std::vector<std::string>{"unchanged", "page", "minio", "lru"});
  CHECK(map->table.rows[1][3].text == "8,982 [F]");
}

TEST_CASE("rates near the greatest number there is have their colours") {
  WhatIfResult result = swept_whatif();
  for (WhatIfAnswer& answer : result.answers) answer.samples_per_s *= 1e304;
  const auto map = report::whatif_sweep(result);
  REQUIRE(map);
  CHECK(map->table.rows[3][3].heat == 9);
  CHECK(map->table.rows[0][1].heat == 0);
}

TEST_CASE("profiles that fill a grid of two settings are a map of their full runs; those that change together are one setting") {
  std::vector<ReportInput> inputs = swept_profiles();
  const std::string page = html_report(inputs, bare_assets);
  CHECK(says(page, "rows: cache size, columns: workers, cores"));
  CHECK(says(page, "<td class=\"number heat heat-9\">1,016 ± 10</td>"));
  CHECK(says(page, "<td class=\"number heat heat-0\">258 ± 10</td>"));
  CHECK(says(console_report(inputs, {}), "1,016 ± 10"));
  SUBCASE("one lacks") { inputs.pop_back(); }
  SUBCASE("one is there twice") { inputs.push_back(inputs.front()); }
  SUBCASE("a third setting differs") { std::get<ProfileResult>(inputs[0].record).settings.batch_size = 7; }
  SUBCASE("one has no full run") { std::get<ProfileResult>(inputs[0].record).runs.clear(); }
  CHECK_FALSE(says(html_report(inputs, bare_assets), "heat-9"));
}

TEST_CASE("misses over several sizes of the cache are lines, over one bars") {
  const std::string lines = bare_page_of(record_input("sizes.json", sized_simulation()));
  CHECK(says(lines, R"("kind":"lines")"));
  CHECK(says(bare_page_of(record_input("one.json", full_simulation())), R"("kind":"bars")"));
  CHECK(says(lines, "Least is missed by lru with 50"));
  CHECK(says(lines, "which knows the future"));
}
