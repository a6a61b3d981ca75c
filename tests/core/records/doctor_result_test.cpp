#include "core/records/doctor_result.hpp"

#include <doctest/doctest.h>

#include "../../base/texts.hpp"
#include "../sample_results.hpp"
#include "core/records/fields/doctor_fields.hpp"

using namespace dsanalyze;
using testing::replaced;

namespace {

std::string refusal(const std::string& text) {
  try {
    doctor_from_json(text, "x.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("an examination is read back as it was written") {
  const DoctorResult written = test::full_examination();
  const DoctorResult read = doctor_from_json(to_json(written), "x.json");
  CHECK(read.checks == written.checks);
  CHECK(to_json(read) == to_json(written));
  CHECK(written.count(DoctorStatus::ok) == 2);
}

TEST_CASE("an examination with an unknown status, a key too many, or counts that are not those of its checks is refused, and the place is named") {
  const std::string text = to_json(test::full_examination());
  CHECK(refusal(replaced(text, "\"status\": \"note\"", "\"status\": \"not\"")).find("/checks/1/status") != std::string::npos);
  CHECK(refusal(replaced(text, "\"kernel\":", "\"kernels\": 1, \"kernel\":")).find("kernels") != std::string::npos);
  CHECK(refusal(replaced(text, "\"problem\": 1", "\"problem\": 2")).find("/counts/problem") != std::string::npos);
  CHECK(refusal(replaced(text, "dsanalyze.doctor/2", "dsanalyze.doctor/3")).find("/schema") != std::string::npos);
}

TEST_CASE("version 1, whose key of a fix was another, is read") {
  const DoctorResult written = test::full_examination();
  std::string text = replaced(to_json(written), "dsanalyze.doctor/2", "dsanalyze.doctor/1");
  const std::string key = '"' + std::string(Fields<DoctorCheck>::key_of_version_1) + '"';
  for (std::size_t at = text.find("\"fix\""); at != std::string::npos; at = text.find("\"fix\"")) text.replace(at, 5, key);
  CHECK(to_json(doctor_from_json(text, "x.json")) == to_json(written));
}

TEST_CASE("bytes of names that are no UTF-8 do not break the document") {
  DoctorResult result = test::full_examination();
  result.dataset = "/data/\xff";
  CHECK(doctor_from_json(to_json(result), "x.json").dataset == "/data/\xef\xbf\xbd");
}
