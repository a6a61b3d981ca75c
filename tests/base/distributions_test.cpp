#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "base/statistics.hpp"

using namespace dsanalyze;

TEST_CASE("quantiles of the normal and of Student's t are those of the tables") {
  CHECK(normal_quantile(0.975) == doctest::Approx(1.959963984540054).epsilon(1e-12));
  CHECK(normal_quantile(0.001) == doctest::Approx(-3.090232306167813).epsilon(1e-12));
  CHECK(normal_quantile(1e-12) == doctest::Approx(-7.034483825301131).epsilon(1e-9));
  CHECK(student_t_quantile(0.99, 24) == doctest::Approx(2.492159473157757).epsilon(1e-9));
  CHECK(student_t_quantile(0.995, 1) == doctest::Approx(63.65674116287399).epsilon(1e-9));
  CHECK(student_t_quantile(0.001, 5) == doctest::Approx(-5.893429531356010).epsilon(1e-9));
  for (std::size_t degrees = 1; degrees <= 60; ++degrees)
    CHECK(student_t_quantile(0.975, static_cast<double>(degrees)) == doctest::Approx(student_t95(degrees)).epsilon(1e-4));
}

TEST_CASE("with one degree of freedom Student's t is Cauchy's, and with many the normal") {
  for (const double t : {-30.0, -2.0, -0.1, 0.0, 0.7, 5.0}) {
    CHECK(student_t_cdf(t, 1) == doctest::Approx(0.5 + std::atan(t) / std::acos(-1.0)).epsilon(1e-12));
    CHECK(student_t_cdf(t, 1e7) == doctest::Approx(normal_cdf(t)).epsilon(1e-4));
  }
}

TEST_CASE("a quantile is the inverse of its distribution function, at degrees that are not whole too") {
  for (const double degrees : {0.7, 2.5, 11.3, 400.0})
    for (const double p : {1e-6, 0.003, 0.2, 0.5, 0.9, 0.9999})
      CHECK(student_t_cdf(student_t_quantile(p, degrees), degrees) == doctest::Approx(p).epsilon(1e-9));
}

TEST_CASE("what is no probability has no quantile") {
  for (const double p : {-0.1, 0.0, 1.0, std::nan("")}) {
    CHECK_THROWS_AS(normal_quantile(p), std::domain_error);
    CHECK_THROWS_AS(student_t_quantile(p, 3), std::domain_error);
  }
  CHECK_THROWS_AS(student_t_quantile(0.9, 0), std::domain_error);
}
