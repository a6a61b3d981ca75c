#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "../base/texts.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::says;

namespace {

SearchPoint point_of(double cost, double seconds, double samples_per_s) {
  SearchPoint point;
  point.setup = {1, PartitionMode::none, 24, "v100", 8, 0.35, 54'867'197'952, "gp3", 5e8};
  point.cost_per_epoch = cost;
  point.epoch_seconds = seconds;
  point.samples_per_s = samples_per_s;
  point.ci95_samples_per_s = {samples_per_s * 0.99, samples_per_s * 1.01};
  point.bottleneck = "cpu";
  return point;
}

WhatIfResult searched() {
  SearchResult search;
  search.prices = "shop";
  search.prices_date = "2024-02-29";
  search.currency = "EUR";
  search.setups = 9876;
  search.simulated = 1;
  search.conclusions = {"Cheapest an epoch: this."};
  search.findings = {{"storage-from-list", Finding::Severity::info, "From the list."}};
  search.front = {point_of(0.5, 1000, 1280), point_of(1.25, 500, 2560)};
  search.front[1].simulated = SearchPoint::Simulated{2500, 512, 1.28};
  search.front[1].close_to_cheaper = true;
  search.front[1].too_close = true;
  WhatIfResult result;
  result.answers.emplace_back();
  result.search = search;
  return result;
}

}  // namespace

TEST_CASE("a search shows its list and day, what it concludes, and each point of the front with its parts") {
  const std::string text = console_summary(searched(), {});
  CHECK(says(text, "shop of 2024-02-29; 9,876 configurations by the closed form, 1 simulated"));
  CHECK(says(text, "Cheapest an epoch: this."));
  CHECK(says(text, "0.500 EUR"));
  CHECK(says(text, "1,280 ± 13"));
  CHECK(says(text, "24 cores, 8 v100, 35 % cached (51.1 GiB), gp3 at 500 MB/s\n"));
  CHECK(says(text, "gp3 at 500 MB/s; simulated"));
  CHECK(says(text, "8 min 20 s *"));
  CHECK(says(text, "* not surely faster"));
  CHECK(says(text, "[P] ?"));
  CHECK(says(text, "From the list."));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 82);
}

TEST_CASE("without a search there is no section of it") {
  WhatIfResult result = searched();
  result.search = std::nullopt;
  CHECK_FALSE(says(console_summary(result, {}), "\nsearch\n"));
}
