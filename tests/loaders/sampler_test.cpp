#include "loaders/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "../base/texts.hpp"
#include "base/error.hpp"
#include "dataset/dataset_folder.hpp"

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
  Sampler sampler({7, 0, 0, 1000, {}}, 64);
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
  Sampler a({7, 3, 0, 500, {}}, 10);
  Sampler b({7, 3, 0, 500, {}}, 50);
  Sampler other({8, 3, 0, 500, {}}, 50);
  const auto order = draw_epoch(a);
  CHECK(order == draw_epoch(b));
  CHECK(order != draw_epoch(other));
}

TEST_CASE("a sampler resumed at any batch of an epoch goes on with the very same stream") {
  Sampler whole({3, 0, 0, 103, {}}, 10);
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
  CHECK(SamplerState::parse("sampler/3 1 0 0 10 random 0 0 1 1 0 -") == SamplerState{1, 0, 0, 10, {}});
  for (const char* text : {"", "sampler/3", "sampler/2 1 0 0 10 random 0 0 1 1", "sampler/3 1 0 0 10 random 0 0 1 1",
                           "sampler/3 1 0 10 10 random 0 0 1 1 0 -", "sampler/3 1 0 0 0 random 0 0 1 1 0 -", "sampler/3 a 0 0 10 random 0 0 1 1 0 -",
                           "sampler/3 1 0 -1 10 random 0 0 1 1 0 -", "sampler/3 1 0 0 10 random 0 0 1 1 0 - 5",
                           "sampler/3 1 0 0 10 random 0 0 1 1 0 ", "sampler/3 1 0 0 10 shuffled 0 0 1 1 0 -", "sampler/3 1 0 0 10 shards 0 2 2 1 0 -",
                           "sampler/3 1 0 0 10 shards 0 0 1 0 0 -", "sampler/3 18446744073709551616 0 0 10 random 0 0 1 1 0 -"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(SamplerState::parse(text), UsageError);
  }
}

TEST_CASE("a state with any seed of 64 bits, its dataset and its batch size is the same when it is read") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1} << 63, UINT64_MAX}) {
    const SamplerState state{seed, 2, 3, 100, {OrderKind::shards, 64, 1, 2, 3}, 32, "sampled:0123456789abcdef0123456789abcdef"};
    CHECK(SamplerState::parse(state.serialise()) == state);
  }
}

TEST_CASE("a state of another dataset is refused") {
  const std::vector<IndexRecord> records(10);
  CHECK_THROWS_AS(Sampler({1, 0, 0, 11, {OrderKind::sequential}}, 4, records), UsageError);
  CHECK_THROWS_AS(Sampler({1, 0, 0, 11, {}}, 4, records), UsageError);
  CHECK_THROWS_AS(Sampler({1, 0, 10, 10, {}}, 4, records), UsageError);
  CHECK_THROWS_AS(Sampler({1, 0, 0, 10, {OrderKind::shards, 0, 1, 2}}, 4, records), UsageError);  // one shard, two nodes
}

TEST_CASE("what does not fit of a state is named") {
  const auto error = [](const SamplerState& state) { return testing::error_of([&] { state.require_fit("abc", 10, 4); }); };
  SamplerState state{1, 3, 5, 10, {}, 4, "abc"};
  CHECK(error(state).empty());
  state.batch_size = 5;
  CHECK(testing::says(error(state), "batches of 5"));
  state.position = 0;  // at an epoch's begin any batch size goes on
  CHECK(error(state).empty());
  state.digest = "abd";
  CHECK(testing::says(error(state), "digest abd"));
  state.samples = 11;
  CHECK(testing::says(error(state), "11 samples"));
}

TEST_CASE("what storage is asked for covers each sample once, ahead of training by at most the buffer, resumed or not") {
  std::vector<IndexRecord> records(103);
  for (std::uint32_t i = 0; i < records.size(); ++i) records[i].file = i / 20;
  for (const OrderSpec& order :
       {OrderSpec{}, OrderSpec{OrderKind::sequential, 16}, OrderSpec{OrderKind::shards, 30, 0, 1, 2}, OrderSpec{OrderKind::shards, 0}}) {
    CAPTURE(order_kind_name(order.kind));
    for (std::uint64_t position = 0; position < 103; position += 10) {
      CAPTURE(position);
      Sampler sampler({3, 1, position, 103, order}, 10, records);
      std::vector<SampleId> asked, drawn;
      bool last = false;
      while (!last) {
        std::uint64_t epoch = 0;
        const auto batch = sampler.next(epoch, last);
        drawn.insert(drawn.end(), batch.begin(), batch.end());
        const auto ahead = sampler.ahead();
        asked.insert(asked.end(), ahead.begin(), ahead.end());
        for (const SampleId id : batch) REQUIRE(std::ranges::find(asked, id) != asked.end());
        REQUIRE(asked.size() - drawn.size() <= order.shuffle_buffer);
      }
      std::ranges::sort(asked);
      std::ranges::sort(drawn);
      CHECK(asked == drawn);
      CHECK(drawn.size() == 103 - position);
    }
  }
}

}  // namespace
}  // namespace dsanalyze
