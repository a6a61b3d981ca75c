#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "policy_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

using Epochs = std::vector<std::vector<std::uint32_t>>;

/// Hits of each epoch under Belady's optimum for items of one size: with all of the future known, whatever is used last of what is held and of what
/// just came is dropped, the newcomer included (bypass). Nothing has more hits in all.
std::vector<std::uint64_t> optimal_hits(const Epochs& epochs, std::size_t items, std::size_t room) {
  constexpr std::uint64_t never = UINT64_MAX;
  std::vector<std::uint32_t> trace;
  for (const auto& epoch : epochs) trace.insert(trace.end(), epoch.begin(), epoch.end());
  std::vector<std::uint64_t> next_use(trace.size());
  std::vector<std::uint64_t> seen(items, never);
  for (std::size_t i = trace.size(); i-- > 0;) {
    next_use[i] = seen[trace[i]];
    seen[trace[i]] = i;
  }
  std::vector<std::uint64_t> hits(epochs.size());
  std::set<std::pair<std::uint64_t, std::uint32_t>> held;  // by next use
  for (std::size_t i = 0; i < trace.size(); ++i) {
    hits[i / items] += held.erase({i, trace[i]});
    held.emplace(next_use[i], trace[i]);
    if (held.size() > room) held.erase(std::prev(held.end()));
  }
  return hits;
}

}  // namespace

// Why: an epoch uses each item once. So every hit is on an item that was in the cache when the epoch began (an item that comes into it later in the
// epoch has had its use), each such item gives at most one, and there are at most as many as the cache has room for. MinIO has exactly that many.
TEST_CASE("Belady's optimum, which knows the future, has no more hits an epoch than MinIO") {
  constexpr std::size_t items = 600;
  constexpr std::size_t epoch_count = 8;
  const std::vector<Bytes> sizes(items, 1);
  struct Order {
    const char* name;
    std::function<std::vector<std::uint32_t>(std::uint64_t)> of_epoch;
  };
  const std::vector<Order> orders = {
      {"a new permutation each epoch", [](std::uint64_t epoch) { return epoch_order(epoch + 1, items); }},
      {"the same permutation each epoch", [](std::uint64_t) { return epoch_order(99, items); }},
      {"file order", [](std::uint64_t) { return file_order(items); }},
      {"back and forth",
       [](std::uint64_t epoch) {
         auto order = epoch_order(99, items);
         if (epoch % 2 == 1) std::ranges::reverse(order);
         return order;
       }},
      {"halves change places",
       [](std::uint64_t epoch) {
         auto order = file_order(items);
         if (epoch % 2 == 1) std::rotate(order.begin(), order.begin() + items / 2, order.end());
         return order;
       }},
  };
  for (const Order& order : orders) {
    Epochs epochs;
    for (std::uint64_t epoch = 0; epoch < epoch_count; ++epoch) epochs.push_back(order.of_epoch(epoch));
    for (const std::size_t room : {std::size_t{0}, items / 4, items * 35 / 100, items / 2, items * 65 / 100, items}) {
      CAPTURE(order.name);
      CAPTURE(room);
      const std::vector<std::uint64_t> best = optimal_hits(epochs, items, room);
      PolicyRig minio(CacheKind::minio, room, items);
      for (std::size_t epoch = 0; epoch < epoch_count; ++epoch) {
        const std::uint64_t hits = minio.hits_of(epochs[epoch], sizes);
        CHECK(hits == (epoch == 0 ? 0 : room));
        CHECK(best[epoch] <= hits);
      }
    }
  }
}

TEST_CASE("the optimum is one: it has at least as many hits as each policy, and more where an item comes twice in an epoch") {
  constexpr std::size_t items = 200;
  constexpr std::size_t room = 70;
  RandomStream random(4);
  Epochs epochs(6, std::vector<std::uint32_t>(items));
  for (auto& epoch : epochs) {
    for (std::uint32_t& key : epoch) key = static_cast<std::uint32_t>(std::min(random.below(items), random.below(items)));
  }
  std::uint64_t best = 0;
  for (const std::uint64_t hits : optimal_hits(epochs, items, room)) best += hits;
  const std::vector<Bytes> sizes(items, 1);
  for (const CacheKind kind : {CacheKind::minio, CacheKind::lru, CacheKind::page_model_random, CacheKind::page_model_linux}) {
    CAPTURE(cache_kind_name(kind));
    PolicyRig cache(kind, room, items);
    std::uint64_t hits = 0;
    for (const auto& epoch : epochs) hits += cache.hits_of(epoch, sizes);
    CHECK(hits < best);
  }
}
