#include "core/records/share_result.hpp"

#include <doctest/doctest.h>

#include "../../base/texts.hpp"
#include "../sample_results.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using testing::replaced;

namespace {

std::string share_refusal(const std::string& text) {
  try {
    share_from_json(text, "x.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("what a group shared is read back as it was written") {
  const ShareResult written = test::full_share();
  const ShareResult read = share_from_json(to_json(written), "x.json");
  CHECK(to_json(read) == to_json(written));
  CHECK(read.jobs.size() == 4);
  CHECK(read.commands.at(1).signal == 9);
  CHECK(read.commands.at(0).batches_taken == 376);
  CHECK_FALSE(read.commands.at(1).batches_taken.has_value());  // of an older record
}

TEST_CASE("what a dependent group drew is read back, and is absent of others") {
  ShareResult written = test::full_share();
  CHECK(to_json(written).find("dependent") == std::string::npos);
  written.terms.share = "dependent";
  written.dependent = ShareDependentRecord{1, 2, 3, 4, "lru", 5, 6, 7};
  const ShareResult read = share_from_json(to_json(written), "x.json");
  CHECK(to_json(read) == to_json(written));
  REQUIRE(read.dependent.has_value());
  CHECK(read.dependent->samples_from_store == 4);
  CHECK(share_refusal(replaced(to_json(written), "\"lru\"", "\"mru\"")).find("/dependent/policy") != std::string::npos);
}

TEST_CASE("a group's seed of 64 bits is read back") {
  ShareResult written = test::full_share();
  written.terms.seed = UINT64_MAX;
  CHECK(share_from_json(to_json(written), "x.json").terms.seed == UINT64_MAX);
}

TEST_CASE("a record of a group with an unknown end, a key too many, or an impossible status is refused, and the place is named") {
  const std::string text = to_json(test::full_share());
  CHECK(share_refusal(replaced(text, "\"end\": \"died\"", "\"end\": \"slept\"")).find("/jobs/1/end") != std::string::npos);
  CHECK(share_refusal(replaced(text, "\"late_reports\":", "\"later\": 1, \"late_reports\":")).find("later") != std::string::npos);
  CHECK(share_refusal(replaced(text, "\"exit_status\": 3", "\"exit_status\": 300")).find("/commands/2/exit_status") != std::string::npos);
  CHECK(share_refusal(replaced(text, "dsanalyze.share/1", "dsanalyze.share/2")).find("/schema") != std::string::npos);
}
