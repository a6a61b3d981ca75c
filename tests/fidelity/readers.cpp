#include "readers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "models/simulate/cache_simulator.hpp"

namespace dsanalyze::fidelity {
namespace {

constexpr std::uint32_t items = 50'000;
constexpr std::uint32_t epochs = 12;
constexpr std::uint32_t first_steady = 5;
constexpr std::uint32_t last_steady = epochs - 3;  // after it the first jobs to begin have ended

double steady_misses(AccessSource& source, ReplayPolicy policy, double cached, std::uint32_t first, std::uint32_t last, Bytes item = 1) {
  const std::array cases{CacheCase{policy, static_cast<Bytes>(std::llround(cached * items)) * item, 0}};
  const std::vector<CaseCounts> counts = replay(source, cases);
  AccessCounts steady;
  for (const EpochCounts& epoch : counts.front().epochs) {
    if (epoch.epoch >= first && epoch.epoch <= last) steady.add(epoch.counts);
  }
  return steady.miss_share();
}

/// Jobs that take turns, each of which reads in an order that depends on its epoch alone.
class OneOrder final : public AccessSource {
 public:
  OneOrder(std::uint32_t jobs, double stagger) : m_late(jobs), m_epochs(jobs), m_orders(jobs, std::vector<std::uint32_t>(items)) {
    for (std::uint32_t job = 0; job < jobs; ++job) m_late[job] = static_cast<std::uint64_t>(stagger * job * items);
  }
  void rewind() override { m_now = 0; }
  bool next(AccessBlock& block) override {
    m_accesses.clear();
    std::uint64_t until = m_now + items;
    for (std::uint32_t job = 0; job < jobs(); ++job) {
      if (m_now < m_late[job]) {
        until = std::min(until, m_late[job]);
        continue;
      }
      const std::uint64_t gone = m_now - m_late[job];
      m_epochs[job] = static_cast<std::uint32_t>(std::min<std::uint64_t>(gone / items, epochs - 1));
      if (gone % items == 0) random_permutation(mix(1, gone / items), m_orders[job]);
      if (gone / items < epochs) until = std::min(until, m_now + items - gone % items);
    }
    for (; m_now < until; ++m_now) {
      for (std::uint32_t job = 0; job < jobs(); ++job) {
        if (m_now < m_late[job] || m_now - m_late[job] >= std::uint64_t{epochs} * items) continue;
        m_accesses.push_back({m_orders[job][(m_now - m_late[job]) % items], 1, job, 0});
      }
    }
    block = {m_accesses, m_epochs};
    return !m_accesses.empty();
  }
  [[nodiscard]] std::uint64_t key_count() const override { return items; }
  [[nodiscard]] std::uint32_t jobs() const override { return static_cast<std::uint32_t>(m_late.size()); }

 private:
  std::uint64_t m_now = 0;
  std::vector<std::uint64_t> m_late;
  std::vector<std::uint32_t> m_epochs;
  std::vector<std::vector<std::uint32_t>> m_orders;
  std::vector<CacheAccess> m_accesses;
};

}  // namespace

double jobs_miss(ReplayPolicy policy, double cached, std::uint32_t jobs, double stagger, OrderKind order) {
  JobOrders orders;
  orders.order.kind = order;
  orders.samples = items;
  orders.sizes.each = 1;
  orders.seed = 1;
  orders.epochs = epochs;
  orders.jobs = jobs;
  orders.stagger = stagger;
  return steady_misses(*make_order_source(orders), policy, cached, first_steady, last_steady);
}

double one_job_misses(ReplayPolicy policy, double cached, OrderKind order) { return jobs_miss(policy, cached, 1, 0, order); }

double one_job_misses_of(ReplayPolicy policy, double cached, Bytes dataset) {
  JobOrders orders;
  orders.samples = items;
  orders.sizes.each = dataset / items;
  orders.seed = 1;
  orders.epochs = epochs;
  return steady_misses(*make_order_source(orders), policy, cached, first_steady, epochs - 1, orders.sizes.each);
}

double jobs_of_one_order_miss(ReplayPolicy policy, double cached, std::uint32_t jobs, double stagger) {
  OneOrder source(jobs, stagger);
  return steady_misses(source, policy, cached, first_steady, last_steady);
}

double server_misses(ReplayPolicy policy, double cached, std::uint32_t servers) {
  JobOrders orders;
  orders.samples = items;
  orders.sizes.each = 1;
  orders.seed = 1;
  orders.epochs = epochs * servers;
  orders.servers = servers;
  return steady_misses(*make_order_source(orders), policy, cached, orders.epochs / 2, orders.epochs - 1);
}

}  // namespace dsanalyze::fidelity
