#include "loaders/slot_pool.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

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

/// Pages of the pool's memory that the kernel has given.
std::ptrdiff_t pages_of(const SlotPool& pool) {
  std::vector<unsigned char> pages(pool.bytes() / 4096);
  REQUIRE(::mincore(pool.data(0), pool.bytes(), pages.data()) == 0);
  return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

TEST_CASE("slots that take their memory as it is written have none before") {
  const SlotPool pool(4, tensor, system_timing(), SlotPages::as_written);
  CHECK(pages_of(pool) == 0);
  *pool.data(2) = std::byte{1};
  CHECK(pages_of(pool) > 0);
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

TEST_CASE("the room for samples of a slot's batch ends with the slot's release") {
  SlotPool pool(2, tensor, system_timing());
  ReleaseToken token;
  REQUIRE(pool.acquire(token, system_timing().clock->after(1)));
  const std::byte* const first = pool.room(token.slot).take(100).data();
  const std::byte* const other = pool.room(1 - token.slot).take(100).data();
  CHECK(pool.room(token.slot).take(100).data() != first);
  REQUIRE(pool.release(token).ok());
  CHECK(pool.room(token.slot).take(100).data() == first);
  CHECK(other != first);
}

}  // namespace
}  // namespace dsanalyze
