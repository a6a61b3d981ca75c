#include "share/dependent_feed.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "feed_rig.hpp"
#include "loaders/slot_pool.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

/// A job's slots in plain memory: what is published is noted, and the slot is free again when the test says so.
class SlotsOfJob final : public StagingProducer {
 public:
  SlotsOfJob(std::uint32_t slots, std::uint32_t batch_size, std::uint64_t batches_per_epoch, std::uint64_t epochs, std::uint64_t first = 0)
      : m_tensor(TensorShape::images(DType::uint8, Layout::nhwc, batch_size, 3, 2, 2)),
        m_layout(m_tensor),
        m_batches_per_epoch(batches_per_epoch),
        m_batches(batches_per_epoch * epochs),
        m_memory(slots * m_layout.bytes),
        m_slots(slots),
        m_claimed(first),
        m_published(first),
        m_released(first) {
    for (std::uint32_t slot = 0; slot < slots; ++slot) m_free.push_back(slot);
  }

  struct Seen {
    SampleId sample = 0;
    std::uint8_t generation = 0;
    bool operator==(const Seen&) const = default;
  };

  Status claim(StagingClaim& claim, Deadline deadline) override {
    while (true) {
      {
        const std::scoped_lock lock(m_mutex);
        if (m_claimed == m_batches) return {StatusCode::end, 0};
        if (!m_free.empty()) {
          const std::uint32_t slot = m_free.back();
          m_free.pop_back();
          claim = {m_claimed, m_claimed / m_batches_per_epoch, m_claimed % m_batches_per_epoch, slot,
                   std::span(m_memory).subspan(slot * m_layout.bytes, m_layout.bytes)};
          ++m_claimed;
          return {};
        }
      }
      if (system_timing().clock->now() >= deadline.at) return {StatusCode::timeout, 0};
      system_timing().waiter->sleep_until(system_timing().clock->after(0.0005).at);
    }
  }
  void publish(const StagingClaim& claim, const StagedFacts& facts) override {
    const std::scoped_lock lock(m_mutex);
    std::vector<Seen>& epoch = m_seen[claim.epoch];
    for (std::uint32_t i = 0; i < facts.count; ++i) {
      SampleId id = 0;
      std::memcpy(&id, claim.bytes.data() + m_layout.ids_at + i * sizeof id, sizeof id);
      const auto* const sample = reinterpret_cast<const std::uint8_t*>(claim.bytes.data()) + i * m_tensor.sample_bytes();
      CHECK(sample[0] == id);
      epoch.push_back({id, sample[1]});
      m_batches_seen[claim.sequence].push_back({id, sample[1]});
    }
    m_failed += facts.failed;
    ++m_published;
    // A job takes its batches in order.
    for (m_whole.emplace(claim.sequence, claim.slot); !m_whole.empty() && m_whole.begin()->first == m_released; ++m_released) {
      (m_releases ? m_free : m_held).push_back(m_whole.begin()->second);
      m_whole.erase(m_whole.begin());
    }
  }
  /// From now on what is published stays in its slot.
  void hold() {
    const std::scoped_lock lock(m_mutex);
    m_releases = false;
  }
  /// So many of the slots that were held are free.
  void release(std::size_t count) {
    const std::scoped_lock lock(m_mutex);
    for (; count > 0; --count) {
      m_free.push_back(m_held.back());
      m_held.pop_back();
    }
  }
  [[nodiscard]] bool done() const {
    const std::scoped_lock lock(m_mutex);
    return m_published == m_batches;
  }
  [[nodiscard]] std::uint64_t published() const {
    const std::scoped_lock lock(m_mutex);
    return m_published;
  }
  [[nodiscard]] std::uint64_t failed() const {
    const std::scoped_lock lock(m_mutex);
    return m_failed;
  }
  [[nodiscard]] std::map<std::uint64_t, std::vector<Seen>> seen() const {
    const std::scoped_lock lock(m_mutex);
    return m_seen;
  }
  /// What the batches before this one held.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, Seen>> before(std::uint64_t next) const {
    const std::scoped_lock lock(m_mutex);
    std::vector<std::pair<std::uint64_t, Seen>> all;
    for (const auto& [sequence, samples] : m_batches_seen)
      for (const Seen& each : samples)
        if (sequence < next) all.emplace_back(sequence / m_batches_per_epoch, each);
    return all;
  }
  [[nodiscard]] const TensorShape& tensor() const { return m_tensor; }
  [[nodiscard]] std::uint32_t slots() const { return m_slots; }

 private:
  TensorShape m_tensor;
  SlotLayout m_layout;
  std::uint64_t m_batches_per_epoch;
  std::uint64_t m_batches;
  std::vector<std::byte> m_memory;
  mutable std::mutex m_mutex;
  std::uint32_t m_slots;
  std::vector<std::uint32_t> m_free;
  std::vector<std::uint32_t> m_held;
  std::uint64_t m_claimed = 0;
  std::uint64_t m_published = 0;
  std::uint64_t m_released = 0;                      ///< batches before it: released, or held by the test
  std::map<std::uint64_t, std::uint32_t> m_whole{};  ///< after it: the slots of those that are published
  std::uint64_t m_failed = 0;
  bool m_releases = true;
  std::map<std::uint64_t, std::vector<Seen>> m_seen;
  std::map<std::uint64_t, std::vector<Seen>> m_batches_seen;
};

DependentJob job_of(const SlotsOfJob& slots, std::uint32_t batch_size, std::vector<SampleId> subset = {}) {
  return {batch_size, std::move(subset), slots.tensor(), slots.slots()};
}

/// Each sample of the subset once an epoch, and no version twice.
void check_epochs(const SlotsOfJob& slots, std::size_t epochs, const std::set<SampleId>& expected) {
  std::set<std::pair<SampleId, std::uint8_t>> versions;
  const auto seen = slots.seen();
  CHECK(seen.size() == epochs);
  for (const auto& [epoch, samples] : seen) {
    std::set<SampleId> ids;
    for (const SlotsOfJob::Seen& each : samples) {
      ids.insert(each.sample);
      CHECK(versions.insert({each.sample, each.generation}).second);
    }
    CHECK(samples.size() == expected.size());
    CHECK(ids == expected);
  }
}

std::set<SampleId> samples_from_to(SampleId from, SampleId to) {
  std::set<SampleId> all;
  for (SampleId sample = from; sample < to; ++sample) all.insert(sample);
  return all;
}

TEST_CASE("jobs of a dependent group with batches, epochs and subsets of their own get each sample of each epoch once, and no version twice") {
  for (const StagingPolicy policy : {StagingPolicy::refcnt, StagingPolicy::lru}) {
    SlotsOfJob whole(3, 4, 7, 5);
    SlotsOfJob odd(2, 5, 6, 3);
    SlotsOfJob part(3, 3, 4, 6);
    FeedRig rig(6, policy);
    const std::set<SampleId> some = samples_from_to(7, 18);
    rig.feed().add(0, job_of(whole, 4), whole);
    rig.feed().add(1, job_of(odd, 5), odd);
    rig.feed().add(63, job_of(part, 3, {some.begin(), some.end()}), part);
    wait_until([&] { return whole.done() && odd.done() && part.done(); });
    check_epochs(whole, 5, samples_from_to(0, 28));
    check_epochs(odd, 3, samples_from_to(0, 28));
    check_epochs(part, 6, some);
    const DependentFeed::Totals totals = rig.feed().totals();
    CHECK(totals.drawn == 5 * 28 + 3 * 28 + 6 * 11);
    CHECK(totals.prepared + totals.from_store <= totals.drawn);
    CHECK(totals.prepared < totals.drawn);
    CHECK(totals.from_store > 0);
  }
}

TEST_CASE("what was drawn and prepared is known of the time until a job had all its samples, and before then so far") {
  SlotsOfJob fast(6, 4, 7, 3);
  SlotsOfJob slow(6, 4, 7, 3);
  slow.hold();
  FeedRig rig(28);
  CHECK_FALSE(rig.feed().drawn_by(2).has_value());
  rig.feed().add(2, job_of(slow, 4), slow);
  wait_until([&] { return slow.published() == 6; });
  REQUIRE(rig.feed().drawn_by(2).has_value());
  CHECK(rig.feed().drawn_by(2)->drawn == 24);
  DependentJob job_of_fast = job_of(fast, 4);
  job_of_fast.batches = 3 * 7;
  rig.feed().add(5, job_of_fast, fast);
  wait_until([&] { return fast.done(); });
  const auto fastest = rig.feed().drawn_by(5);
  REQUIRE(fastest.has_value());
  CHECK(fastest->drawn == 3 * 28);
  CHECK(fastest->group.drawn == 3 * 28 + 24);
  CHECK(fastest->group.prepared >= 3 * 28);
  CHECK(fastest->group.prepared + fastest->group.from_store <= fastest->group.drawn);
  slow.release(6);
  wait_until([&] { return slow.published() == 12; });
  rig.feed().remove(5);
  CHECK(rig.feed().drawn_by(5)->group.drawn == 3 * 28 + 24);
}

TEST_CASE("of a job that goes before it had its samples it is known what it drew") {
  SlotsOfJob some(6, 4, 7, 100);
  some.hold();
  FeedRig rig(0);
  rig.feed().add(0, job_of(some, 4), some);
  wait_until([&] { return some.published() == 6; });
  rig.feed().remove(0);
  REQUIRE(rig.feed().drawn_by(0).has_value());
  CHECK(rig.feed().drawn_by(0)->drawn == 24);
}

TEST_CASE("draws that are held begin when they may, with all jobs that have come, so that jobs alike draw alike") {
  SlotsOfJob one(6, 4, 7, 1);
  SlotsOfJob other(6, 4, 7, 1);
  one.hold();
  other.hold();
  std::array<std::atomic<int>, 2> looks{};  // for a slot; each but the last of which had found one
  DependentFeedSpec spec = feed_spec(0);
  spec.held = true;
  spec.observer = [&looks](DependentStep step, std::uint32_t job) {
    if (step == DependentStep::claim_slot) ++looks.at(job);
  };
  FeedRig rig(spec);
  rig.feed().add(0, job_of(one, 4), one);
  wait_until([&] { return looks[0] > 6; });
  rig.feed().add(1, job_of(other, 4), other);
  wait_until([&] { return looks[1] > 6; });
  CHECK(rig.feed().totals().drawn == 0);
  rig.feed().begin();
  wait_until([&] { return one.published() == 6 && other.published() == 6; });
  CHECK(rig.feed().totals().drawn == 48);
  CHECK(rig.feed().totals().prepared == 24);
}

TEST_CASE("a job whose slots are full stops no other, and goes on where it was") {
  SlotsOfJob slow(2, 4, 7, 2);
  SlotsOfJob fast(2, 4, 7, 9);
  slow.hold();
  FeedRig rig(4);
  rig.feed().add(0, job_of(slow, 4), slow);
  rig.feed().add(1, job_of(fast, 4), fast);
  wait_until([&] { return fast.done(); });
  check_epochs(fast, 9, samples_from_to(0, 28));
  CHECK(slow.published() == 2);
}

TEST_CASE("a job with room in few of its slots waits for a draw of others, and shares it") {
  constexpr Nanoseconds for_ever = 3600 * nanoseconds_per_second;
  SlotsOfJob slow(6, 2, 14, 100);
  SlotsOfJob fast(6, 2, 14, 100);
  slow.hold();
  fast.hold();
  FeedRig rig(0, StagingPolicy::refcnt, dataset_samples, for_ever);
  rig.feed().add(0, job_of(slow, 2), slow);
  wait_until([&] { return slow.published() == 4; });
  system_timing().waiter->sleep_until(system_timing().clock->after(0.05).at);
  CHECK(slow.published() == 4);
  CHECK(rig.feed().totals().rounds == 8);
  rig.feed().add(1, job_of(fast, 2), fast);
  wait_until([&] { return slow.published() == 6 && fast.published() == 4; });
  CHECK(slow.published() == 6);
  CHECK(rig.feed().totals().rounds == 16);
  CHECK(rig.feed().totals().prepared < rig.feed().totals().drawn);
  slow.release(3);
  wait_until([&] { return slow.published() == 7; });
  CHECK(slow.published() == 7);
}

TEST_CASE("a job that is gone leaves the draws, its number serves another, and the others' epochs stay whole") {
  SlotsOfJob stays(2, 4, 7, 12);
  FeedRig rig(4);
  rig.feed().add(0, job_of(stays, 4), stays);
  for (int i = 0; i < 10; ++i) {
    SlotsOfJob goes(2, 3, 10, 1000);
    rig.feed().add(1, job_of(goes, 3), goes);
    wait_until([&] { return goes.published() > static_cast<std::uint64_t>(i); });
    rig.feed().remove(1);
    const std::uint64_t at_its_end = goes.published();
    system_timing().waiter->sleep_until(system_timing().clock->after(0.002).at);
    CHECK(goes.published() == at_its_end);
  }
  wait_until([&] { return stays.done(); });
  check_epochs(stays, 12, samples_from_to(0, 28));
}

TEST_CASE("a sample that cannot be prepared is left out of each job's batch, and counted there") {
  SlotsOfJob one(2, 4, 7, 2);
  SlotsOfJob other(2, 5, 6, 2);
  FeedRig rig(4, StagingPolicy::refcnt, 9);
  rig.feed().add(0, job_of(one, 4), one);
  rig.feed().add(1, job_of(other, 5), other);
  wait_until([&] { return one.done() && other.done(); });
  std::set<SampleId> good = samples_from_to(0, 28);
  good.erase(9);
  check_epochs(one, 2, good);
  check_epochs(other, 2, good);
  CHECK(one.failed() == 2);
  CHECK(other.failed() == 2);
}

TEST_CASE("a feed that is frozen at any time says what each job still needs, and a later one gives it exactly that, in other versions") {
  struct OfJob {
    std::uint32_t batch_size = 1;
    std::uint32_t slots = 2;
    std::uint64_t epochs = 3;
    std::vector<SampleId> subset{};
  };
  const std::set<SampleId> some = samples_from_to(5, 18);
  const std::vector<OfJob> kinds{{4, 3, 4, {}}, {5, 2, 2, {}}, {3, 4, 6, {some.begin(), some.end()}}};
  RandomStream random(11);
  std::uint64_t in_mid_epoch = 0;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<std::uint64_t> next(kinds.size());
    std::vector<std::vector<std::pair<std::uint64_t, SlotsOfJob::Seen>>> had(kinds.size());
    std::vector<std::vector<SampleId>> rest(kinds.size());
    std::optional<DependentGroup::State> state;
    // Twice frozen, and run to the end.
    for (int run = 0; run < 3; ++run) {
      FeedRig rig(6, StagingPolicy::refcnt, dataset_samples, 1'000'000, state);
      std::vector<std::unique_ptr<SlotsOfJob>> slots;
      for (std::uint32_t i = 0; i < kinds.size(); ++i) {
        const OfJob& kind = kinds[i];
        const std::size_t samples = kind.subset.empty() ? dataset_samples : kind.subset.size();
        const std::uint64_t batches = (samples + kind.batch_size - 1) / kind.batch_size;
        slots.push_back(std::make_unique<SlotsOfJob>(kind.slots, kind.batch_size, batches, kind.epochs, next[i]));
        DependentJob job = job_of(*slots.back(), kind.batch_size, kind.subset);
        job.first = next[i];
        job.batches = batches * kind.epochs - next[i];
        job.rest = rest[i];
        job.comes_again = true;
        rig.feed().add(i, std::move(job), *slots.back());
      }
      if (run == 2) {
        wait_until([&] { return std::ranges::all_of(slots, [](const auto& each) { return each->done(); }); });
      } else {
        const std::uint64_t drawn = random.below(90);
        wait_until([&] { return rig.feed().totals().drawn >= drawn || slots[2]->done(); });
        if (random.below(2) == 0) rig.feed().end(1);
      }
      rig.feed().freeze();
      for (std::uint32_t i = 0; i < kinds.size(); ++i) {
        // It may have taken less than there is.
        DependentFeed::Rest found = rig.feed().rest(i, next[i] + random.below(12));
        if (run == 2) found = rig.feed().rest(i, UINT64_MAX);
        for (const auto& each : slots[i]->before(found.next)) had[i].push_back(each);
        REQUIRE(found.next >= next[i]);
        next[i] = found.next;
        rest[i] = std::move(found.samples);
        in_mid_epoch += rest[i].empty() ? 0 : 1;
      }
      state = rig.feed().state();
    }
    for (std::uint32_t i = 0; i < kinds.size(); ++i) {
      CAPTURE(i);
      std::map<std::uint64_t, std::set<SampleId>> epochs;
      std::set<std::pair<SampleId, std::uint8_t>> versions;
      for (const auto& [epoch, seen] : had[i]) {
        CHECK(epochs[epoch].insert(seen.sample).second);
        CHECK(versions.emplace(seen.sample, seen.generation).second);
      }
      CHECK(epochs.size() == kinds[i].epochs);
      for (const auto& each : epochs) CHECK(each.second == (kinds[i].subset.empty() ? samples_from_to(0, 28) : some));
    }
  }
  CHECK(in_mid_epoch > 60);
}

}  // namespace
}  // namespace dsanalyze
