#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "loader_rig.hpp"

// One engine, one loader after another, and storage that hangs in between.

namespace dsanalyze {
namespace {

using testing::emulated_dataset;
using testing::loader_options;
using testing::no_prep;

/// Time that passes a thousand times as fast.
class FastTiming final : public Clock, public Waiter {
 public:
  [[nodiscard]] Nanoseconds now() const override { return m_real.clock->now() * speed; }
  bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) override {
    return m_real.waiter->wait(word, expected, {deadline.at / speed});
  }
  void wake(const std::atomic<std::uint32_t>& word, int count) override { m_real.waiter->wake(word, count); }
  void sleep_until(Nanoseconds instant) override { m_real.waiter->sleep_until(instant / speed); }
  Timing timing() { return {this, this}; }

 private:
  static constexpr Nanoseconds speed = 1000;
  Timing m_real = system_timing();
};

/// An engine whose reads come back once storage no longer hangs; until then nothing ends them.
class HangingEngine final : public FetchEngine {
 public:
  HangingEngine(std::unique_ptr<FetchEngine> inner, Timing timing) : m_inner(std::move(inner)), m_timing(timing) {}
  void hang(bool hangs) { m_hangs.store(hangs); }

  Status submit(std::span<const FetchRequest> requests) override { return m_inner->submit(requests); }
  std::size_t reap(std::span<FetchCompletion> completions, Deadline deadline) override {
    if (!m_hangs.load()) return m_inner->reap(completions, deadline);
    m_timing.waiter->sleep_until(deadline.at);
    return 0;
  }
  void release(std::span<const FetchBuffer> buffers) override { m_inner->release(buffers); }
  void cancel() override {}
  [[nodiscard]] std::size_t capacity() const override { return m_inner->capacity(); }
  [[nodiscard]] std::size_t free_places() const override { return m_inner->free_places(); }
  [[nodiscard]] Bytes requested() const override { return m_inner->requested(); }

 private:
  std::unique_ptr<FetchEngine> m_inner;
  Timing m_timing;
  std::atomic<bool> m_hangs{false};
};

struct HangingRig {
  explicit HangingRig(std::size_t places)
      : index(emulated_dataset(200, 100)),
        server({CacheKind::minio, 100'000, index->size(), index->bytes(), largest_sample(*index), 4096}, system_timing()),
        engine(make_null_engine(testing::Rig::fetch(places), time.timing()), time.timing()),
        prep(no_prep()) {}
  std::unique_ptr<Loader> loader(std::uint64_t epochs) {
    LoaderOptions options = loader_options(8, epochs);
    options.start.samples = index->size();
    return std::make_unique<Loader>(Loader::Parts{index, &engine, &server.cache(), prep.get(), {}, time.timing()}, options);
  }
  /// A loader that is stopped with every place of the engine at a read that does not come back.
  void leave_reads_behind() {
    engine.hang(true);
    auto loader = this->loader(0);
    while (engine.free_places() > 0) std::this_thread::yield();
    loader->stop();
  }
  /// The ids that a loader of one epoch gives out, sorted.
  std::vector<SampleId> epoch() {
    auto loader = this->loader(1);
    std::vector<SampleId> all;
    Batch batch;
    while (loader->next(batch, time.timing().clock->after(20'000)).ok()) {
      const auto* ids = reinterpret_cast<const SampleId*>(loader->memory(batch) + batch.ids_offset);
      all.insert(all.end(), ids, ids + batch.count);
      loader->release(batch.token);
    }
    CHECK(loader->failed_samples() == 0);
    CHECK(loader->totals().fetch.samples == loader->totals().misses);
    std::ranges::sort(all);
    return all;
  }

  FastTiming time;
  std::shared_ptr<const DatasetIndex> index;
  ServerHolder server;
  HangingEngine engine;
  std::unique_ptr<PrepFactory> prep;
};

TEST_CASE("reads that an earlier loader left behind when storage hung never reach the next one on the same engine") {
  for (const std::size_t places : {std::size_t{8}, std::size_t{16}, std::size_t{24}}) {
    CAPTURE(places);
    HangingRig rig(places);
    std::vector<SampleId> every(rig.index->size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<SampleId>(i);
    rig.leave_reads_behind();
    CHECK(rig.engine.free_places() == 0);
    rig.engine.hang(false);
    CHECK(rig.epoch() == every);
    CHECK(rig.engine.free_places() == rig.engine.capacity());
    CHECK(rig.epoch() == every);
    // What the first loader was to put into the cache is no longer waited for.
    CHECK(rig.server.cache().totals().items == rig.index->size());
  }
}

}  // namespace
}  // namespace dsanalyze
