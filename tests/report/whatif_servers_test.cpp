#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "../base/texts.hpp"
#include "record_samples.hpp"
#include "report/document/record_documents.hpp"

using namespace dsanalyze;
using namespace dsanalyze::report;
using namespace dsanalyze::test;
using dsanalyze::testing::says;

namespace {

std::vector<Figure> figures_of(const WhatIfResult& result) {
  std::vector<Figure> figures;
  for (const Block& block : whatif_servers_section(result).blocks) figures.push_back(std::get<Figure>(block));
  return figures;
}

const Chart::Series& line_of(const Figure& figure, const std::string& label) {
  const auto& series = figure.charts.at(0).series;
  const auto found = std::ranges::find(series, label, &Chart::Series::label);
  REQUIRE_MESSAGE(found != series.end(), label);
  return *found;
}

std::vector<std::string> labels_of(const Figure& figure) {
  std::vector<std::string> labels;
  for (const Chart::Series& series : figure.charts.at(0).series) labels.push_back(series.label);
  return labels;
}

using Texts = std::vector<std::string>;

Texts headings_of(const Figure& figure) {
  Texts headings;
  for (const Column& column : figure.table.columns) headings.push_back(column.heading);
  return headings;
}

Texts texts_of(const std::vector<Cell>& row) {
  Texts texts;
  for (const Cell& cell : row) texts.push_back(cell.text);
  return texts;
}

using Numbers = std::vector<std::pair<double, double>>;

Numbers points_of(const Chart::Series& series) {
  Numbers points;
  for (const Chart::Point& point : series.points) points.emplace_back(point.x, point.y);
  return points;
}

void let_share_storage(WhatIfResult& result) {
  for (WhatIfAnswer answer : std::vector(result.answers)) {
    if (!answer.change.servers) continue;
    answer.change.storage_scope = "shared";
    result.answers.push_back(answer);
  }
}

}  // namespace

TEST_CASE(
    "what servers reach is a line for each way of parting the dataset, from the measured configuration on, beside what the accelerators can "
    "consume") {
  const Figure figure = figures_of(scaled_whatif()).at(0);
  CHECK(labels_of(figure) == Texts{"no partition", "partitioned", "locality", "locality, balanced from storage", "the accelerators can consume [G]"});
  CHECK(points_of(line_of(figure, "no partition")) == Numbers{{1, 7157}, {2, 14'000}, {4, 28'400}, {8, 57'200}});
  CHECK(points_of(line_of(figure, "locality, balanced from storage")) == Numbers{{1, 7157}, {2, 14'300}, {4, 28'700}, {8, 57'500}});
  CHECK(points_of(line_of(figure, "the accelerators can consume [G]")) == Numbers{{1, 20'000}, {2, 40'000}, {4, 80'000}, {8, 160'000}});
  CHECK(line_of(figure, "the accelerators can consume [G]").line == Chart::Series::Line::dashed);
  CHECK(line_of(figure, "locality").points.back().low == 57'350);
  CHECK(figure.charts.front().x_scale == Chart::Scale::logarithmic);
  CHECK(figure.charts.front().y_scale == Chart::Scale::logarithmic);

  CHECK(headings_of(figure) ==
        Texts{"servers", "no partition", "partitioned", "locality", "locality, balanced from storage", "the accelerators can consume [G]"});
  CHECK(texts_of(figure.table.rows.at(3)) == Texts{"8", "57,200 ± 50 [F]", "57,300 ± 50 [F]", "57,400 ± 50 [F]", "57,500 ± 50 [F]", "160,000"});
  CHECK(says(figure.text, "meets the accelerators'"));
}

TEST_CASE("without the accelerators' rate there is no line of it, and no column") {
  WhatIfResult result = scaled_whatif();
  for (WhatIfAnswer& answer : result.answers) answer.ingestion.reset();
  const Figure figure = figures_of(result).at(0);
  CHECK(labels_of(figure).back() == "locality, balanced from storage");
  CHECK(headings_of(figure).size() == 5);
  CHECK_FALSE(says(figure.text, "accelerators'"));
}

TEST_CASE("answers that change something else are in no line, and a number that one way lacks is a dash in its column") {
  WhatIfResult result = scaled_whatif();
  std::erase_if(result.answers, [](const WhatIfAnswer& answer) { return answer.change.servers == 4U && answer.change.partition == "none"; });
  const Figure figure = figures_of(result).at(0);
  for (const Chart::Series& series : figure.charts.front().series)
    for (const Chart::Point& point : series.points) CHECK(point.y != 99'999);
  CHECK(line_of(figure, "no partition").points.size() == 3);
  CHECK(figure.table.rows.at(2).at(1).text == "-");
}

TEST_CASE("one number of servers is no curve") {
  WhatIfResult result = scaled_whatif();
  CHECK_FALSE(figures_of(result).empty());
  for (WhatIfAnswer& answer : result.answers)
    if (answer.change.servers) answer.change.servers = 8;
  CHECK(figures_of(result).empty());
  CHECK(figures_of(swept_whatif()).empty());
  // Nor do one server and eight make one: the measured configuration is one server already.
  result.answers.back() = result.answers.at(2);
  result.answers.back().change.servers = 1;
  CHECK(figures_of(result).empty());
}

TEST_CASE("bytes are drawn in the unit of the table, by partition alone, and from others only where some get any") {
  WhatIfResult result = scaled_whatif();
  let_share_storage(result);
  const auto figures = figures_of(result);
  REQUIRE(figures.size() == 3);
  CHECK(labels_of(figures[1]) == Texts{"no partition", "partitioned", "locality", "locality, balanced from storage"});
  CHECK(points_of(line_of(figures[1], "no partition")) == Numbers{{2, 2}, {4, 1}, {8, 0.5}});
  CHECK(texts_of(figures[1].table.rows.at(0)) == Texts{"2", "2", "1.5", "1", "0.5"});
  CHECK(figures[1].table.caption == "bytes that each server reads from storage in an epoch, GiB");
  CHECK(figures[1].charts.front().y_scale == Chart::Scale::linear);
  CHECK(points_of(line_of(figures[2], "partitioned")) == Numbers{{2, 16}, {4, 8}, {8, 4}});
  CHECK(figures[2].table.caption == "bytes that each server gets from the others in an epoch, MiB");
  for (WhatIfAnswer& answer : result.answers)
    if (answer.servers) answer.servers->network_bytes_server_epoch = 0;
  CHECK(figures_of(result).size() == 2);
}

TEST_CASE("shared storage is a line of its own, and so is each network for those who ask others over it") {
  WhatIfResult result = scaled_whatif();
  let_share_storage(result);
  CHECK(line_of(figures_of(result).at(0), "no partition, shared storage").points.size() == 4);
  CHECK(line_of(figures_of(result).at(0), "partitioned, shared storage").points.size() == 4);
  const std::size_t ways = labels_of(figures_of(result).at(0)).size();

  for (WhatIfAnswer& answer : result.answers)
    if (answer.change.servers) answer.change.network_bytes_per_s = 1.25e9;
  CHECK(labels_of(figures_of(result).at(0)).size() == ways);
  CHECK(line_of(figures_of(result).at(0), "partitioned").points.size() == 4);
  for (WhatIfAnswer answer : std::vector(result.answers)) {
    if (!answer.change.servers || answer.change.storage_scope == "shared") continue;
    answer.change.network_bytes_per_s = 5e9;
    result.answers.push_back(answer);
  }
  const Texts labels = labels_of(figures_of(result).at(0));
  CHECK(labels.size() == ways + 2);
  CHECK(std::ranges::count(labels, "partitioned, 1.25 GB/s network") == 1);
  CHECK(std::ranges::count(labels, "locality, 5 GB/s network") == 1);
  CHECK(std::ranges::count(labels, "no partition") == 1);
  CHECK(std::ranges::count(labels, "locality, balanced from storage") == 1);
}

TEST_CASE("a chart of many lines is taller, for the room that their names take") {
  const HtmlAssets sections_alone{"{{sections}}", "", "", ""};
  const std::string tall = R"(<div class="plot tall"><canvas data-chart="servers-throughput")";
  WhatIfResult result = scaled_whatif();
  CHECK_FALSE(says(html_report(std::array{record_input("w.json", result)}, sections_alone), tall));
  let_share_storage(result);
  CHECK(says(html_report(std::array{record_input("w.json", result)}, sections_alone), tall));
}

TEST_CASE("of many ways and numbers of servers as many are shown as can be read, and the text says so") {
  WhatIfResult result = scaled_whatif();
  const WhatIfAnswer one = result.answers.at(2);
  result.answers.resize(1);
  for (std::uint32_t at = 0; at < 200; ++at) {
    WhatIfAnswer& answer = result.answers.emplace_back(one);
    answer.change.servers = 2 + at;
    answer.change.partition = "way " + std::to_string(at % 40);
  }
  const Figure figure = figures_of(result).at(0);
  CHECK(figure.charts.front().series.size() == 12 + 1);
  CHECK(figure.charts.front().series.at(6).line == Chart::Series::Line::dashed);
  CHECK(figure.table.columns.size() == 12 + 2);
  CHECK(figure.table.rows.size() == 60);
  CHECK(figure.table.rows.front().front().text == "1");
  CHECK(figure.table.rows.back().front().text == "201");
  CHECK(says(figure.text, "The first 12 of 40 ways are shown"));
  CHECK(says(figure.text, "60 of 201 numbers of servers are shown"));
}
