#include "dsanalyze/loaders/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

std::vector<SampleId> draw_epoch(Sampler& sampler, std::vector<std::size_t>* sizes = nullptr) {
  std::vector<SampleId> ids;
  for (bool last = false; !last;) {
    std::uint64_t epoch = 0;
    const auto batch = sampler.next(epoch, last);
    ids.insert(ids.end(), batch.begin(), batch.end());
    if (sizes != nullptr) sizes->push_back(batch.size());
  }
  return ids;
}

TEST_CASE("an epoch yields every sample once, in another order each epoch, with the short batch last") {
  Sampler sampler({7, 0, 0, 1000}, 64);
  std::vector<std::size_t> sizes;
  std::vector<SampleId> first = draw_epoch(sampler, &sizes);
  std::vector<SampleId> second = draw_epoch(sampler);
  CHECK(first != second);
  CHECK(sizes.size() == 16);
  CHECK(sizes.back() == 1000 % 64);
  for (auto* order : {&first, &second}) {
    std::ranges::sort(*order);
    std::vector<SampleId> all(1000);
    std::iota(all.begin(), all.end(), 0U);
    CHECK(*order == all);
  }
}

TEST_CASE("the order is a pure function of seed and epoch") {
  Sampler a({7, 3, 0, 500}, 10);
  Sampler b({7, 3, 0, 500}, 50);
  Sampler other({8, 3, 0, 500}, 50);
  const auto order = draw_epoch(a);
  CHECK(order == draw_epoch(b));
  CHECK(order != draw_epoch(other));
}

TEST_CASE("a sampler resumed at any batch of an epoch goes on with the very same stream") {
  Sampler whole({3, 0, 0, 103}, 10);
  for (int batch = 0; batch < 25; ++batch) {
    Sampler resumed(SamplerState::parse(whole.state().serialise()), 10);
    Sampler copy = whole;
    for (int i = 0; i < 15; ++i) {
      std::uint64_t epoch = 0, resumed_epoch = 0;
      bool last = false, resumed_last = false;
      const auto expected = copy.next(epoch, last);
      const auto got = resumed.next(resumed_epoch, resumed_last);
      REQUIRE(std::ranges::equal(expected, got));
      REQUIRE(epoch == resumed_epoch);
      REQUIRE(last == resumed_last);
    }
    std::uint64_t epoch = 0;
    bool last = false;
    whole.next(epoch, last);
  }
}

TEST_CASE("a state that no sampler wrote is refused") {
  for (const char* text : {"", "sampler/1", "sampler/2 1 0 0 10", "sampler/1 1 0 10 10", "sampler/1 1 0 0 0", "sampler/1 a 0 0 10",
                           "sampler/1 1 0 -1 10", "sampler/1 1 0 0 10 5"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(SamplerState::parse(text), UsageError);
  }
}

TEST_CASE("slices of a global batch are disjoint, complete and differ by at most one sample") {
  std::vector<SampleId> ids(29);
  std::iota(ids.begin(), ids.end(), 0U);
  std::vector<SampleId> joined;
  for (int rank = 0; rank < 8; ++rank) {
    const auto slice = Assignment::slice(ids, rank, 8);
    CHECK((slice.size() == 3 || slice.size() == 4));
    joined.insert(joined.end(), slice.begin(), slice.end());
  }
  CHECK(joined == ids);
}

}  // namespace
}  // namespace dsanalyze
