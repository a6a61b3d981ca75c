#include "core/rates.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

using namespace dsanalyze;

TEST_CASE("stages that overlap perfectly take the longest's time, serial ones their sum, others lie between") {
  const std::array stages{3.0, 4.0};
  CHECK(overlapped_seconds(stages, std::numeric_limits<double>::infinity()) == 4);
  CHECK(overlapped_seconds(stages, 1) == doctest::Approx(7));
  CHECK(overlapped_seconds(stages, 2) == doctest::Approx(5));
  CHECK(overlapped_seconds(stages, 8) > 4);
  CHECK(overlapped_seconds(stages, 8) < 5);
  CHECK(overlapped_seconds(std::array{1e-300, 2e-300}, 2) == doctest::Approx(std::sqrt(5.0) * 1e-300));
  CHECK(overlapped_seconds(std::array{0.0, 2.0}, 2) == 2);
}

TEST_CASE("stages and exponents that make no sense are refused") {
  CHECK_THROWS_AS(overlapped_seconds({}, 2), std::domain_error);
  CHECK_THROWS_AS(overlapped_seconds(std::array{0.0}, 2), std::domain_error);
  for (const double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(overlapped_seconds(std::array{1.0, bad}, 2), std::domain_error);
  for (const double bad : {0.9, -1.0, std::nan("")}) CHECK_THROWS_AS(overlapped_seconds(std::array{1.0}, bad), std::domain_error);
}
