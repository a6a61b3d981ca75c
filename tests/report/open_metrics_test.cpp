#include "report/report.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <sstream>
#include <string>

#include "../core/sample_results.hpp"

using namespace dsanalyze;

namespace {

bool has_line(const std::string& text, const std::string& line) { return ("\n" + text).find("\n" + line + "\n") != std::string::npos; }

/// The form of each line, and that each family stands together, once.
void check_form(const std::string& text) {
  CHECK(text.ends_with("# EOF\n"));
  std::set<std::string> families;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(!line.empty());
    if (line == "# EOF") break;
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(family).second);
    } else if (line.starts_with("# UNIT ")) {
      CHECK(line.substr(7, family.size()) == family);
      CHECK(family.ends_with("_" + line.substr(line.rfind(' ') + 1)));
    } else if (!line.starts_with("# HELP ")) {
      CHECK(line.starts_with(family));
      CHECK(line.find("{dataset=\"") != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("a profile's figures are in the metrics as the record has them") {
  const std::string text = open_metrics(test::full_profile());
  check_form(text);
  for (const char* line : {R"(dsanalyze_profile_started_timestamp_seconds{dataset="/data"} 1795208733)",
                           R"(dsanalyze_profile_trusted{dataset="/data"} 1)",
                           R"(dsanalyze_profile_findings{dataset="/data",severity="error"} 1)",
                           R"(dsanalyze_rate_samples_per_second{dataset="/data",rate="S"} 4698.5)",
                           R"(dsanalyze_epoch_ratio{dataset="/data",part="fetch"} 0.5)",
                           R"(dsanalyze_bottleneck{dataset="/data",resource="io"} 1)",
                           R"(dsanalyze_bottleneck{dataset="/data",resource="gpu"} 0)",
                           R"(dsanalyze_run_storage_bytes{dataset="/data",run="full"} 77)",
                           R"(dsanalyze_run_stall_seconds{dataset="/data",run="full",quantile="0.5"} 0.001)",
                           R"(dsanalyze_run_stall_seconds_count{dataset="/data",run="full"} 40)",
                           R"(dsanalyze_run_stall_seconds_sum{dataset="/data",run="full"} 0.08)",
                           R"(dsanalyze_run_mlperf_storage_au_ratio{dataset="/data",run="full"} 0.425)",
                           R"(dsanalyze_prep_operator_seconds{dataset="/data",run="full",operator="decode"} 0.0021)",
                           R"(dsanalyze_job_samples_per_second{dataset="/data",job="1"} 617.25)",
                           R"(dsanalyze_job_stall_ratio{dataset="/data",job="1"} 0.125)",
                           R"(dsanalyze_job_prepared_samples{dataset="/data",job="1"} 76)",
                           R"(dsanalyze_job_ended{dataset="/data",job="0",end="died"} 1)",
                           R"(dsanalyze_sharing_info{dataset="/data",share="coordinated",producers="coordinator"} 1)",
                           R"(dsanalyze_sharing_preparations_per_sample{dataset="/data"} 1.02)",
                           R"(dsanalyze_sharing_handover_seconds{dataset="/data"} 1.4e-05)",
                           R"(dsanalyze_sharing_staged_bytes{dataset="/data"} 36864)",
                           R"(dsanalyze_rate_samples_per_second{dataset="/data",rate="N"} 45454.5)",
                           R"(dsanalyze_rank_samples_per_second{dataset="/data",rank="1"} 411.5)",
                           R"(dsanalyze_rank_stall_ratio{dataset="/data",rank="1"} 0.0625)",
                           R"(dsanalyze_rank_trained_samples{dataset="/data",rank="1"} 52)",
                           R"(dsanalyze_rank_fetched_samples{dataset="/data",rank="1",source="cache"} 30)",
                           R"(dsanalyze_rank_fetched_samples{dataset="/data",rank="1",source="peers"} 12)",
                           R"(dsanalyze_rank_fetched_samples{dataset="/data",rank="1",source="storage"} 10)",
                           R"(dsanalyze_rank_fetched_bytes{dataset="/data",rank="1",source="peers"} 1320)",
                           R"(dsanalyze_rank_fetched_bytes{dataset="/data",rank="1",source="storage"} 4096)",
                           R"(dsanalyze_rank_served_bytes{dataset="/data",rank="1"} 1540)",
                           R"(dsanalyze_rank_redirected_requests{dataset="/data",rank="1"} 3)",
                           R"(dsanalyze_rank_refused_connections{dataset="/data",rank="1"} 5)",
                           R"(dsanalyze_rank_ended{dataset="/data",rank="2",host="node-c",end="lost"} 1)",
                           R"(dsanalyze_partition_info{dataset="/data",partition="locality",balance_from="storage",storage_scope="shared"} 1)",
                           R"(dsanalyze_partition_ranks{dataset="/data"} 3)",
                           R"(dsanalyze_partition_lost_ranks{dataset="/data"} 2)",
                           R"(dsanalyze_partition_nowhere_bytes{dataset="/data"} 770)",
                           R"(dsanalyze_partition_balance_ratio{dataset="/data"} 0.034)"}) {
    CAPTURE(line);
    CHECK(has_line(text, line));
  }
}

TEST_CASE("what is not known has no line, not even a heading") {
  const std::string text = open_metrics(test::least_profile());
  check_form(text);
  for (const char* name :
       {"started_timestamp", "rate=\"G\"", "epoch_ratio", "bottleneck", "dsanalyze_run", "dsanalyze_rank", "dsanalyze_partition", "rate=\"N\""})
    CHECK(text.find(name) == std::string::npos);
  CHECK(text.find("rate=\"P\"") != std::string::npos);
  ProfileResult odd = test::full_profile();
  odd.prep->samples_per_s = std::numeric_limits<double>::infinity();
  CHECK(open_metrics(odd).find(R"(rate_samples_per_second{dataset="/data",rate="P"})") == std::string::npos);
}

TEST_CASE("names of strangers end neither a label nor a line") {
  ProfileResult result = test::full_profile();
  result.dataset.path = "a\"} 1\n# EOF\n\\\x1b[2J\xff";
  result.runs.back().prep_operators.front().name = "x\"\\";
  const std::string text = open_metrics(result);
  check_form(text);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\xff') == std::string::npos);
  CHECK(text.find(R"(operator="x\"\\")") != std::string::npos);
  CHECK(text.find("\n# EOF") == text.size() - std::string("\n# EOF\n").size());
}
