// Prints one sample document of each kind as a JSON object, for the test that holds them against the published schemas.

#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "sample_results.hpp"

int main() {
  using namespace dsanalyze;
  const nlohmann::json documents = {{"profile", nlohmann::json::parse(to_json(test::full_profile()))},
                                    {"dependent_profile", nlohmann::json::parse(to_json(test::dependent_profile()))},
                                    {"least_profile", nlohmann::json::parse(to_json(test::least_profile()))},
                                    {"whatif", nlohmann::json::parse(to_json(test::full_whatif()))},
                                    {"simulate", nlohmann::json::parse(to_json(test::full_simulation()))},
                                    {"simulate_draws", nlohmann::json::parse(to_json(test::simulated_draws()))},
                                    {"dataset", nlohmann::json::parse(to_json(test::full_dataset_result()))},
                                    {"doctor", nlohmann::json::parse(to_json(test::full_examination()))},
                                    {"gate", nlohmann::json::parse(to_json(test::full_gate()))},
                                    {"share", nlohmann::json::parse(to_json(test::full_share()))},
                                    {"error", nlohmann::json::parse(error_json(ErrorKind::undecided, "inconclusive", 4))}};
  std::puts(documents.dump().c_str());
  return 0;
}
