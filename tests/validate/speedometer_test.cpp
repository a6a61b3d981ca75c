#include "validate/validate.hpp"

#include <doctest/doctest.h>

using namespace dsanalyze;

TEST_CASE("prep while a configuration ran is the measured one, times what the probe says that the cores were faster or slower meanwhile") {
  ProbedWork work;
  work.add({1000, 0.001});
  work.add({1000, 0.001});
  CHECK(work.prep(0.001) == doctest::Approx(1000));
  // The cores were a tenth slower in between: no gauge shows it.
  CHECK(work.prep(0.0011) == doctest::Approx(1000 / 1.1));
  // A gauge while they were slow says the same of them.
  work.add({800, 0.00125});
  CHECK(work.prep(0.001) == doctest::Approx(1000));
  CHECK(work.prep(0.00125) == doctest::Approx(800));
}

TEST_CASE("the noise of one gauge is one of all of them, and gauges without a probe or without a rate say nothing") {
  ProbedWork work;
  CHECK_FALSE(work.prep(0.001));
  work.add({0, 0.001});
  work.add({1000, 0});
  CHECK_FALSE(work.prep(0.001));
  work.add({1040, 0.001});
  work.add({960, 0.001});
  CHECK(work.prep(0.001) == doctest::Approx(1000));
  CHECK_FALSE(work.prep(0));
}
