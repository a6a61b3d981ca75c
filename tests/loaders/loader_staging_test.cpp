#include <doctest/doctest.h>
#include <fcntl.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "loader_rig.hpp"
#include "loaders/slot_pool.hpp"
#include "loaders/staging/staging.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

constexpr std::uint64_t shared_epochs = 4;
constexpr std::uint32_t shared_batch = 3;

FileDescriptor copied(int descriptor) { return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3)); }

/// A group whose jobs are threads of this process, with loaders that make their batches, over one server's cache.
class GroupOfLoaders {
 public:
  GroupOfLoaders(const std::shared_ptr<const DatasetIndex>& index, std::uint32_t jobs, Producers producers, Bytes cache)
      : m_index(index),
        m_prep(small_prep()),
        m_server({CacheKind::minio, cache, index->size(), index->bytes(), largest_sample(*index), 4096}, system_timing()),
        m_coordinator(
            facts(jobs, producers), [](std::uint32_t) { return true; }, system_timing()) {
    for (std::uint32_t i = 0; i < jobs; ++i) m_jobs.push_back(make_job());
    for (std::uint32_t i = 0; i < jobs; ++i) {
      for (std::uint32_t other = 0; other < jobs; ++other) {
        if (i == other) continue;
        m_jobs[i]->attach(other, copied(m_jobs[other]->page()), slab_of_place(other));
      }
      if (producers == Producers::coordinator) m_jobs[i]->attach(staging_most_jobs, {}, copied(m_coordinator.slab(staging_most_jobs)));
    }
    if (producers == Producers::coordinator) {
      start_loader(m_coordinator.producer());
    } else {
      for (const auto& job : m_jobs) start_loader(*job);
    }
  }

  /// What each job saw: the samples' bytes by batch.
  std::vector<std::vector<std::vector<std::byte>>> run() {
    std::atomic<bool> over{false};
    std::jthread keeper([&] {
      while (!over) {
        m_coordinator.survey();
        system_timing().waiter->sleep_until(system_timing().clock->after(0.002).at);
      }
    });
    std::vector<std::vector<std::vector<std::byte>>> seen(m_jobs.size());
    std::vector<std::jthread> takers;
    for (std::size_t i = 0; i < m_jobs.size(); ++i) takers.emplace_back([this, &seen, i] { take_all(*m_jobs[i], seen[i]); });
    takers.clear();
    over = true;
    keeper.join();
    Batch none;
    for (const auto& loader : m_loaders) {
      CHECK(loader->next(none, system_timing().clock->after(20)).code == StatusCode::end);
      loader->stop();
    }
    return seen;
  }
  [[nodiscard]] std::uint64_t prepared() const {
    std::uint64_t prepared = 0;
    for (const auto& loader : m_loaders) prepared += loader->totals().prep.samples;
    return prepared;
  }
  [[nodiscard]] Bytes requested() const {
    Bytes requested = 0;
    for (const auto& engine : m_engines) requested += engine->requested();
    return requested;
  }
  /// Of the parts that the loaders made of an epoch.
  [[nodiscard]] std::uint64_t drawn_in(std::uint64_t epoch) const {
    std::uint64_t drawn = 0;
    for (const auto& loader : m_loaders) {
      for (const EpochTotals& totals : loader->epochs()) drawn += totals.epoch == epoch ? totals.samples : 0;
    }
    return drawn;
  }

 private:
  StagingFacts facts(std::uint32_t jobs, Producers producers) const {
    StagingFacts facts;
    facts.batches_per_epoch = (m_index->size() + shared_batch - 1) / shared_batch;
    facts.jobs = jobs;
    facts.batch_size = shared_batch;
    facts.slot_bytes = SlotLayout(m_prep->tensor(shared_batch)).bytes;
    facts.producers = producers;
    facts.epochs = shared_epochs;
    return facts;
  }
  std::unique_ptr<StagingJob> make_job() {
    auto job = std::make_unique<StagingJob>(
        copied(m_coordinator.board()), [] { return true; }, system_timing());
    job->join(m_coordinator.admit(copied(job->page()), job->slab() < 0 ? FileDescriptor() : copied(job->slab())));
    return job;
  }
  FileDescriptor slab_of_place(std::uint32_t place) const { return m_jobs[place]->slab() < 0 ? FileDescriptor() : copied(m_jobs[place]->slab()); }
  void start_loader(StagingProducer& producer) {
    m_engines.push_back(make_thread_engine(m_index, Rig::fetch(16), system_timing()));
    LoaderOptions options = loader_options(shared_batch, 0);
    options.start.samples = m_index->size();
    m_loaders.push_back(std::make_unique<Loader>(Loader::Parts{m_index,
                                                               m_engines.back().get(),
                                                               &m_server.cache(),
                                                               m_prep.get(),
                                                               {},
                                                               system_timing(),
                                                               nullptr,
                                                               nullptr,
                                                               &producer,
                                                               m_jobs.front()->facts().slots()},
                                                 options));
  }
  void take_all(StagingJob& job, std::vector<std::vector<std::byte>>& seen) const {
    StagedBatch batch;
    const std::size_t sample_bytes = m_prep->tensor(1).sample_bytes();
    while (job.take(batch, system_timing().clock->after(20)).ok()) {
      seen.emplace_back(batch.bytes.data(), batch.bytes.data() + batch.count * sample_bytes);
      if (!job.release(batch.sequence).ok()) return;
    }
  }

  std::shared_ptr<const DatasetIndex> m_index;
  std::unique_ptr<PrepFactory> m_prep;
  ServerHolder m_server;
  StagingCoordinator m_coordinator;
  std::vector<std::unique_ptr<FetchEngine>> m_engines;
  std::vector<std::unique_ptr<StagingJob>> m_jobs;
  std::vector<std::unique_ptr<Loader>> m_loaders;
};

TEST_CASE("loaders of a group make each batch once, the same as one loader alone, and every job takes them all") {
  FileDataset data;
  const auto index = pictures(data, {});
  Rig rig(index, CacheKind::none, 0, small_prep());
  auto alone = rig.loader(loader_options(shared_batch, shared_epochs));
  const Seen expected = consume(*alone);
  REQUIRE(expected.samples.size() == shared_epochs * 4);
  for (const Producers producers : {Producers::jobs, Producers::coordinator}) {
    for (const std::uint32_t jobs : {1U, 3U}) {
      CAPTURE(jobs);
      GroupOfLoaders group(index, jobs, producers, index->bytes());
      for (const auto& seen : group.run()) CHECK(seen == expected.samples);
      CHECK(group.prepared() == shared_epochs * index->size());
      CHECK(group.requested() == index->bytes());  // a cache that holds all of it: each sample is read once
      for (std::uint64_t epoch = 0; epoch < shared_epochs; ++epoch) CHECK(group.drawn_in(epoch) == index->size());
    }
  }
}

TEST_CASE("samples that cannot be obtained are left out of the group's batches as of one loader's") {
  FileDataset data;
  const auto index = pictures(data, {2, 5});
  Rig rig(index, CacheKind::none, 0, small_prep());
  auto alone = rig.loader(loader_options(shared_batch, shared_epochs));
  const Seen expected = consume(*alone);
  GroupOfLoaders group(index, 2, Producers::jobs, index->bytes());
  for (const auto& seen : group.run()) CHECK(seen == expected.samples);
}

}  // namespace
}  // namespace dsanalyze
