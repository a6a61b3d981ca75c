#include "core/depths.hpp"

#include <doctest/doctest.h>

using namespace dsanalyze;

TEST_CASE("batches are prepared ahead for each accelerator, and fewer of large ones where memory is another program's") {
  ProfileSettings settings;
  settings.accelerators = 3;
  CHECK(prefetch_batches(settings) == 6);
  constexpr double mib = 1024 * 1024;
  CHECK(prefetch_batches(settings, 0) == 6);
  CHECK(prefetch_batches(settings, 40 * mib) == 6);
  CHECK(prefetch_batches(settings, 64 * mib) == 4);
  CHECK(prefetch_batches(settings, 154 * mib) == 2);
  CHECK(prefetch_batches(settings, 1e15) == 2);
  settings.accelerators = 1;
  CHECK(prefetch_batches(settings, 1) == 4);
}
