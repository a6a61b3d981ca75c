#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "group_rig.hpp"

namespace dsanalyze {
namespace {

using testing::group_terms;
using testing::host_parts;
using testing::in_time;

/// One job that makes its own batches.
struct Alone {
  explicit Alone(const GroupTerms& terms) : host(host_parts(terms)), member({host.connect(), {}, system_timing(), {}}) {
    REQUIRE(member.enter(in_time()).ok());
  }
  void begin_making() {
    making = std::jthread([this] { testing::produce(member.job(), over); });
  }
  ~Alone() { over = true; }
  GroupHost host;
  GroupMember member;
  std::atomic<bool> over{false};
  std::jthread making;
};

TEST_CASE("a step takes a batch for each accelerator, and an epoch's last step those that are left") {
  GroupTerms terms = group_terms(1, 2);
  terms.staging.first_epoch = 4;
  terms.staging.held = 3;
  terms.staging.prefetch = 3;
  Alone job(terms);
  job.begin_making();
  GroupBatches batches(job.member, 3);
  std::vector<Batch> step;
  for (std::uint64_t sequence = 0; sequence < 14; ++sequence) {
    Batch batch;
    REQUIRE(batches.next(batch, in_time()).ok());
    const std::uint64_t index = sequence % 7;
    CHECK(batch.sequence == sequence);
    CHECK(batch.epoch == 4 + sequence / 7);
    CHECK(batch.generation == batch.epoch);
    CHECK(batch.step == sequence / 7 * 3 + index / 3);
    CHECK(batch.slice == index % 3);
    CHECK(batch.slices == (index == 6 ? 1 : 3));
    CHECK(batch.last_of_epoch == (index == 6));
    CHECK(batch.count == 4);
    CHECK(batch.tensor.shape == terms.tensor.shape);
    CHECK(batch.ids_offset == SlotLayout(terms.tensor).ids_at);
    CHECK(batch.labels_offset == SlotLayout(terms.tensor).labels_at);
    CHECK(batch.token.generation == 28 + sequence);
    step.push_back(batch);
    if (batch.slice + 1 < batch.slices) continue;
    for (const Batch& each : step) {
      CHECK(testing::batch_is(batches.memory(each), terms.staging.slot_bytes, 28 + each.sequence));
      batches.release(each.token);
    }
    step.clear();
  }
  Batch none;
  CHECK(batches.next(none, in_time()).code == StatusCode::end);
  CHECK(batches.failure().empty());
}

TEST_CASE("as many batches as may be held are given, then busy until one is released, in any order") {
  GroupTerms terms = group_terms(1, 1);
  terms.staging.held = 2;
  Alone job(terms);
  job.begin_making();
  GroupBatches batches(job.member, 1);
  Batch first;
  Batch second;
  Batch third;
  REQUIRE(batches.next(first, in_time()).ok());
  REQUIRE(batches.next(second, in_time()).ok());
  CHECK(batches.next(third, in_time()).code == StatusCode::busy);
  batches.release(second.token);
  batches.release(second.token);  // a token counts once
  batches.release({99, 0});
  CHECK(batches.next(third, in_time()).code == StatusCode::busy);  // slots are freed in order
  batches.release(first.token);
  CHECK(batches.next(third, in_time()).ok());
  CHECK(third.sequence == 2);
}

TEST_CASE("stopping leaves the group, ends a wait, and is no failure") {
  Alone job(group_terms(1, 0));  // no process makes batches
  GroupBatches batches(job.member, 1);
  std::jthread stopper([&] {
    testing::wait_until([&] { return job.host.state().jobs == 1; });
    batches.stop();
  });
  Batch batch;
  CHECK(batches.next(batch, in_time()).code == StatusCode::cancelled);
  CHECK(batches.next(batch, in_time()).code == StatusCode::cancelled);
  CHECK(batches.failure().empty());
  CHECK(job.host.wait_over(in_time()));
}

TEST_CASE("an event loop is woken for each batch, at the end, and not before there is one") {
  Alone job(group_terms(1, 1));
  GroupBatches batches(job.member, 1);
  const int event = job.member.event_descriptor();
  CHECK(job.member.event_descriptor() == event);
  pollfd entry{event, POLLIN, 0};
  CHECK(::poll(&entry, 1, 0) == 0);
  job.begin_making();
  std::uint64_t taken = 0;
  for (bool more = true; more;) {
    REQUIRE(::poll(&entry, 1, 60'000) == 1);
    std::uint64_t count = 0;
    REQUIRE(::read(event, &count, sizeof count) == sizeof count);
    for (Status status; status.ok();) {
      Batch batch;
      status = batches.next(batch, Deadline{0});
      if (status.ok()) {
        ++taken;
        batches.release(batch.token);
      }
      more = more && status.code != StatusCode::end;
    }
  }
  CHECK(taken == 7);
}

}  // namespace
}  // namespace dsanalyze
