#include "dsanalyze/loaders/slot_pool.hpp"

#include <doctest/doctest.h>

namespace dsanalyze {
namespace {

const TensorShape tensor = TensorShape::images(DType::float32, Layout::nchw, 3, 3, 5, 5);

TEST_CASE("slots begin on 4 KiB boundaries and hold samples, ids and labels without overlap") {
  const SlotPool pool(4, tensor, system_timing());
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    CHECK(pool.samples_offset(slot) % 4096 == 0);
    CHECK(pool.ids_offset(slot) >= pool.samples_offset(slot) + 3 * tensor.sample_bytes());
    CHECK(pool.labels_offset(slot) >= pool.ids_offset(slot) + 3 * sizeof(SampleId));
    CHECK(pool.labels_offset(slot) + 3 * sizeof(std::uint32_t) <= (slot + 1 < 4 ? pool.samples_offset(slot + 1) : pool.segment().size()));
  }
}

TEST_CASE("a slot comes back with its token, once, and a stale or invented token is refused") {
  SlotPool pool(1, tensor, system_timing());
  ReleaseToken first;
  REQUIRE(pool.acquire(first, system_timing().clock->after(1)));
  ReleaseToken none;
  CHECK_FALSE(pool.acquire(none, Deadline{0}));
  CHECK(pool.release(first).ok());
  CHECK(pool.release(first).code == StatusCode::corrupt);
  ReleaseToken second;
  REQUIRE(pool.acquire(second, system_timing().clock->after(1)));
  CHECK(second.generation > first.generation);
  CHECK(pool.release(first).code == StatusCode::corrupt);
  CHECK(pool.release({7, 1}).code == StatusCode::corrupt);
  CHECK(pool.release({0, 0}).code == StatusCode::corrupt);
}

}  // namespace
}  // namespace dsanalyze
