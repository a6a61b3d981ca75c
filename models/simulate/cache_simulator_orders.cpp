#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "cache_simulator.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t block_accesses = 4096;
/// Sizes lie in memory in the order of the dataset, and are asked for in another.
constexpr std::size_t sizes_ahead = 32;

void check(const JobOrders& jobs) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw Error(fmt::format("accesses to replay: {}", what));
  };
  require(jobs.samples > 0, "the dataset has no samples");
  require(jobs.jobs > 0 && jobs.epochs > 0 && jobs.turn > 0 && jobs.unit > 0, "jobs, epochs, a job's turn and the unit must be 1 or more");
  require(jobs.jobs <= most_replay_jobs, "there are more than 1024 jobs");
  require(jobs.stagger >= 0 && jobs.stagger <= 1000, "the stagger must be a share of an epoch, from 0 to 1000");
  require(jobs.sizes.records.empty() || jobs.sizes.records.size() == jobs.samples, "there must be one record a sample");
  require(jobs.sizes.sizes.empty() || jobs.sizes.sizes.size() == jobs.samples, "there must be one size a sample");
  require(jobs.servers > 0 && jobs.servers <= jobs.samples, "servers must be 1 or more, and at most as many as samples");
  require(jobs.servers == 1 || jobs.order.kind == OrderKind::random, "servers each take a part of random orders alone");
  require(jobs.order.kind != OrderKind::shards || !jobs.sizes.records.empty(), "an order by shards needs to know the shards");
}

class OrderSource final : public AccessSource {
 public:
  explicit OrderSource(const JobOrders& jobs) : m_spec(jobs), m_accesses(block_accesses) {
    check(jobs);
    OrderSource::rewind();
  }

  void rewind() override {
    m_jobs.assign(m_spec.jobs, {});
    m_epoch_of_job.assign(m_spec.jobs, static_cast<std::uint32_t>(m_spec.first_epoch));
    for (std::uint32_t job = 0; job < m_spec.jobs; ++job) {
      m_jobs[job].seed = job == 0 || m_spec.seeds == JobSeeds::same ? m_spec.seed : mix(m_spec.seed, job);
      m_jobs[job].begins = static_cast<std::uint64_t>(std::llround(job * m_spec.stagger * m_spec.samples));
    }
    m_turn_of = 0;
    m_taken = 0;
    m_round = 0;
  }

  bool next(AccessBlock& block) override {
    std::size_t filled = 0;
    while (filled < block_accesses && find_turn()) {
      Job& job = m_jobs[m_turn_of];
      if (job.at == job.order.size()) {  // its next epoch
        if (filled > 0) break;           // in the next block
        begin_epoch(m_turn_of);
        if (job.order.empty()) {  // a node without a shard
          job.done = true;
          continue;
        }
      }
      const auto count = std::min<std::size_t>({m_spec.turn - m_taken, job.order.size() - job.at, block_accesses - filled});
      fill(m_turn_of, std::span(job.order).subspan(job.at, count), std::span(m_accesses).subspan(filled, count));
      filled += count;
      job.at += count;
      m_taken += static_cast<std::uint32_t>(count);
      const bool epoch_ended = job.at == job.order.size();
      if (epoch_ended && job.epochs_begun == m_spec.epochs) job.done = true;
      if (epoch_ended || m_taken == m_spec.turn) end_turn();
    }
    block = {std::span(m_accesses).first(filled), m_epoch_of_job};
    return filled > 0;
  }

  [[nodiscard]] std::uint64_t key_count() const override { return m_spec.samples; }
  [[nodiscard]] std::uint32_t jobs() const override { return m_spec.jobs; }

 private:
  struct Job {
    std::uint64_t seed = 0;
    std::uint64_t begins = 0;  // samples that a job from the very start has taken by then
    std::uint32_t epochs_begun = 0;
    bool done = false;
    std::vector<SampleId> order;
    std::size_t at = 0;
  };

  /// Moves on to the next job whose turn it may be; false when all are done.
  bool find_turn() {
    for (;;) {
      std::uint64_t next_begin = UINT64_MAX;
      for (; m_turn_of < m_jobs.size(); ++m_turn_of) {
        const Job& job = m_jobs[m_turn_of];
        if (!job.done && job.begins <= m_round * m_spec.turn) return true;
      }
      bool any_runs = false;
      for (const Job& job : m_jobs) {
        if (job.done) continue;
        next_begin = std::min(next_begin, job.begins);
        any_runs = any_runs || job.begins <= m_round * m_spec.turn;
      }
      if (next_begin == UINT64_MAX) return false;
      m_turn_of = 0;
      m_round = any_runs ? m_round + 1 : (next_begin + m_spec.turn - 1) / m_spec.turn;
    }
  }
  void end_turn() {
    m_taken = 0;
    ++m_turn_of;
  }

  void begin_epoch(std::uint32_t number) {
    Job& job = m_jobs[number];
    const std::uint64_t epoch = m_spec.first_epoch + job.epochs_begun++;
    make_epoch_order(m_spec.order, job.seed, epoch, m_spec.sizes.records, m_spec.samples, m_order);
    std::swap(job.order, m_order.storage.empty() ? m_order.training : m_order.storage);
    job.order.resize(job.order.size() / m_spec.servers);
    job.at = 0;
    m_epoch_of_job[number] = static_cast<std::uint32_t>(epoch);
  }

  void fill(std::uint32_t job, std::span<const SampleId> ids, std::span<CacheAccess> out) const {
    const bool all_alike = m_spec.sizes.records.empty() && m_spec.sizes.sizes.empty();
    if (all_alike) {
      const CacheAccess any = access_of(job, 0);
      for (std::size_t i = 0; i < ids.size(); ++i) out[i] = {ids[i], any.bytes, job, any.priority};
      return;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + sizes_ahead < ids.size()) expect_size(ids[i + sizes_ahead]);
      out[i] = access_of(job, ids[i]);
    }
  }
  [[nodiscard]] CacheAccess access_of(std::uint32_t job, SampleId id) const {
    const Bytes bytes = m_spec.sizes.of(id);
    const Bytes kept = m_spec.unit > 1 ? (bytes + m_spec.unit - 1) / m_spec.unit * m_spec.unit : bytes;
    return {id, kept, job, m_spec.storage_cost.access_priority(bytes)};
  }
  void expect_size(SampleId id) const {
    if (m_spec.sizes.records.empty()) {
      __builtin_prefetch(&m_spec.sizes.sizes[id]);
    } else {
      __builtin_prefetch(&m_spec.sizes.records[id]);
    }
  }

  JobOrders m_spec;
  std::vector<Job> m_jobs;
  std::vector<CacheAccess> m_accesses;
  std::vector<std::uint32_t> m_epoch_of_job;
  EpochOrder m_order;
  std::uint32_t m_turn_of = 0;  // the job whose turn it is, if it may run
  std::uint32_t m_taken = 0;    // of its turn
  std::uint64_t m_round = 0;
};

}  // namespace

std::unique_ptr<AccessSource> make_order_source(const JobOrders& jobs) { return std::make_unique<OrderSource>(jobs); }

}  // namespace dsanalyze
