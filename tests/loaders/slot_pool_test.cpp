#include "loaders/slot_pool.hpp"

#include <doctest/doctest.h>

namespace dsanalyze {
namespace {

const TensorShape tensor = TensorShape::images(DType::float32, Layout::nchw, 3, 3, 5, 5);

TEST_CASE("slots begin on 4 KiB boundaries and hold samples, ids and labels without overlap") {
  const SlotPool pool(4, tensor, system_timing());
  const SlotLayout& layout = pool.layout();
  CHECK(layout.ids_at >= 3 * tensor.sample_bytes());
  CHECK(layout.labels_at >= layout.ids_at + 3 * sizeof(SampleId));
  CHECK(layout.bytes >= layout.labels_at + 3 * sizeof(std::uint32_t));
  CHECK(layout.bytes % 4096 == 0);
  for (std::uint32_t slot = 0; slot < 4; ++slot) CHECK(pool.data(slot) == pool.data(0) + slot * layout.bytes);
  CHECK(pool.bytes() >= 4 * layout.bytes);
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
