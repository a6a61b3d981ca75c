#include "loaders/staging/staging.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "loaders/staging/segments.hpp"

namespace dsanalyze {
namespace {

FileDescriptor copy_of(int descriptor) { return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)); }

StagingFacts one_job() {
  StagingFacts facts;
  facts.batches_per_epoch = 3;
  facts.look_again = 1'000'000;
  return facts;
}

TEST_CASE("all slots of a group are at most two a job and the prefetch") {
  for (const auto producers : {Producers::jobs, Producers::coordinator}) {
    for (std::uint32_t jobs = 1; jobs <= staging_most_jobs; ++jobs) {
      for (std::uint32_t prefetch = 0; prefetch < 20; ++prefetch) {
        StagingFacts facts;
        facts.jobs = jobs;
        facts.prefetch = prefetch;
        facts.producers = producers;
        REQUIRE_NOTHROW(facts.validate());
        REQUIRE(facts.window() <= 2 * jobs + prefetch);
        REQUIRE(facts.window() > 2 * jobs + prefetch - jobs);
        REQUIRE(facts.staged_bytes() == Bytes{facts.window()} * 4096);
      }
    }
  }
}

TEST_CASE("facts that cannot be are refused by name") {
  const auto message = [](auto change) {
    StagingFacts facts;
    change(facts);
    try {
      facts.validate();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message([](StagingFacts& facts) { facts.jobs = 65; }).find("the number of jobs is 65") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.jobs = 0; }).find("the number of jobs is 0") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.slot_bytes = 5000; }).find("multiple of 4096") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.held = 3; }).find("may hold is 3, expected 1 to 2") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.batches_per_epoch = 0; }).find("batches per epoch") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.epochs = std::uint64_t{1} << 29U; }).find("the number of epochs") != std::string::npos);
  CHECK(message([](StagingFacts& facts) { facts.prefetch = 10000; }).find("prefetch") != std::string::npos);
}

TEST_CASE("a report comes after ten iterations, with a floor and a ceiling") {
  CHECK(staging_deadline(50'000'000) == 500'000'000);
  CHECK(staging_deadline(0) == 100'000'000);
  CHECK(staging_deadline(INT64_MAX) == 60 * nanoseconds_per_second);
}

TEST_CASE("every step has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < staging_steps; ++i) names.insert(staging_step_name(static_cast<StagingStep>(i)));
  CHECK(names.size() == staging_steps);
}

TEST_CASE("slots begin on 4 KiB boundaries behind the headers and do not overlap") {
  StagingFacts facts;
  facts.slot_bytes = 8192;
  const MemorySegment segment = staging::make_slab(facts);
  staging::SlabHead* const slab = staging::slab_of(segment);
  for (std::uint32_t slot = 0; slot < facts.slots(); ++slot) {
    const auto bytes = staging::slot_of(slab, facts, slot);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 4096 == 0);
    CHECK(bytes.data() >= segment.data() + sizeof(staging::SlabHead) + slot * facts.slot_bytes);
    CHECK(bytes.data() + bytes.size() <= segment.data() + segment.size());
  }
}

TEST_CASE("no other process can write what a process shares, and what any could write is not attached") {
  const MemorySegment page = staging::make_page();
  void* const writable = ::mmap(nullptr, sizeof(staging::ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, page.descriptor(), 0);
  CHECK(writable == MAP_FAILED);
  CHECK_NOTHROW(staging::attach_sealed(copy_of(page.descriptor()), sizeof(staging::ControlPage)));
  for (const std::size_t other : {sizeof(staging::ControlPage) + 1, sizeof(staging::ControlPage) - 1}) {
    CHECK_THROWS_AS(staging::attach_sealed(copy_of(page.descriptor()), other), Error);
  }
  const MemorySegment open_to_all = MemorySegment::create("page", sizeof(staging::ControlPage));
  CHECK_THROWS_AS(staging::attach_sealed(copy_of(open_to_all.descriptor()), sizeof(staging::ControlPage)), Error);
}

TEST_CASE("a page that claims to have released what is not open counts as one that has released nothing") {
  staging::Board board;
  board.facts = one_job();
  staging::View view(board);
  staging::ControlPage page;
  view.map_page(0, &page);
  board.epochs[0].members = board.epochs[0].live = board.epochs[0].readable = staging::bit(0);
  board.epochs[0].epoch = 0;
  board.opened = 1;
  page.released = 2;
  CHECK(view.released_by_all(1));
  CHECK_FALSE(view.released_by_all(2));
  page.released = 4;
  CHECK_FALSE(view.released_by_all(1));
  CHECK(view.slowest().position == 0);
}

TEST_CASE("a group that needs more memory than there is does not start, and says how much it needs") {
  StagingFacts facts = one_job();
  facts.slot_bytes = Bytes{1} << 50U;
  facts.producers = Producers::coordinator;
  CHECK_THROWS_WITH_AS(StagingCoordinator(
                           facts, [](std::uint32_t) { return true; }, system_timing()),
                       doctest::Contains("it needs 2"), Error);
  facts.producers = Producers::jobs;
  const StagingCoordinator coordinator(
      facts, [](std::uint32_t) { return true; }, system_timing());
  CHECK_THROWS_WITH_AS(StagingJob(
                           copy_of(coordinator.board()), [] { return true; }, system_timing()),
                       doctest::Contains("this process may use"), Error);
}

TEST_CASE("memory of slots that is taken while they are used is promised until then, and a group may end before it has it all") {
  StagingFacts facts = one_job();
  facts.producers = Producers::coordinator;
  facts.slot_bytes = Bytes{20} << 20U;
  std::atomic<int> pieces{0};
  std::atomic<bool> go{false};
  const auto before_piece = [&] {
    ++pieces;
    while (!go) std::this_thread::yield();
  };
  {
    const StagingCoordinator coordinator(facts, [](std::uint32_t) { return true; }, system_timing(), {}, {true, 0, before_piece});
    CHECK(coordinator.promised() > 0);
    go = true;
    while (pieces < 5) std::this_thread::yield();
  }
  go = false;
  pieces = 0;
  std::jthread lets_go;
  {
    const StagingCoordinator coordinator(facts, [](std::uint32_t) { return true; }, system_timing(), {}, {true, 0, before_piece});
    while (pieces == 0) std::this_thread::yield();
    lets_go = std::jthread([&go] {
      system_timing().waiter->sleep_until(system_timing().clock->after(0.05).at);
      go = true;
    });
  }
  CHECK(pieces >= 1);
}

/// A coordinator and one job in this process.
struct OneJob {
  explicit OneJob(const StagingFacts& facts, StagingObserver observer = {})
      : coordinator(
            facts, [](std::uint32_t) { return true; }, system_timing(), std::move(observer)),
        job(
            copy_of(coordinator.board()), [this] { return coordinator_lives; }, system_timing()) {
    place = coordinator.admit(copy_of(job.page()), job.slab() < 0 ? FileDescriptor() : copy_of(job.slab()));
    job.join(place);
  }
  bool coordinator_lives = true;
  StagingCoordinator coordinator;
  StagingJob job;
  std::uint32_t place = 0;
};

Deadline in_time() { return system_timing().clock->after(10); }

TEST_CASE("one job makes, takes and releases its batches through sealed segments") {
  OneJob group(one_job());
  group.coordinator.survey();
  group.job.leave_after(1);
  for (std::uint64_t sequence = 0; sequence < 6; ++sequence) {
    group.coordinator.survey();
    StagingClaim claim;
    REQUIRE(group.job.claim(claim, in_time()).ok());
    CHECK(claim.sequence == sequence);
    CHECK(claim.epoch == sequence / 3);
    CHECK(claim.index == sequence % 3);
    claim.bytes[7] = static_cast<std::byte>(sequence + 1);
    group.job.publish(claim, {1, 0, 5});
    StagedBatch batch;
    REQUIRE(group.job.take(batch, in_time()).ok());
    CHECK(batch.sequence == sequence);
    CHECK(batch.producer == group.place);
    CHECK(batch.count == 1);
    CHECK(batch.bytes[7] == static_cast<std::byte>(sequence + 1));
    StagedBatch second;
    CHECK(group.job.take(second, in_time()).code == StatusCode::busy);
    CHECK(group.job.release(sequence + 1).code == StatusCode::corrupt);
    CHECK(group.job.release(sequence).ok());
    CHECK(group.job.release(sequence).code == StatusCode::corrupt);
  }
  StagedBatch none;
  CHECK(group.job.take(none, in_time()).code == StatusCode::end);
  group.job.leave();
  const StagingRound round = group.coordinator.survey();
  REQUIRE(round.departed.size() == 1);
  CHECK(round.departed.front().why == StagingDeparture::left);
  StagingClaim claim;
  CHECK(group.job.claim(claim, in_time()).code == StatusCode::end);
}

TEST_CASE("a job that waits for a batch ends with its deadline, and with the coordinator") {
  OneJob group(one_job());
  StagedBatch batch;
  CHECK(group.job.take(batch, Deadline{0}).code == StatusCode::timeout);
  group.coordinator_lives = false;
  CHECK(group.job.take(batch, in_time()).code == StatusCode::io);
  StagingClaim claim;
  CHECK(group.job.claim(claim, in_time()).code == StatusCode::io);
}

TEST_CASE("a group of so many epochs ends by itself") {
  StagingFacts facts = one_job();
  facts.first_epoch = 5;
  facts.epochs = 2;
  OneJob group(facts);
  std::uint64_t taken = 0;
  for (StagedBatch batch;; ++taken) {
    group.coordinator.survey();
    if (StagingClaim claim; taken < 6 && group.job.claim(claim, in_time()).ok()) group.job.publish(claim, {1, 0, 0});
    const Status status = group.job.take(batch, in_time());
    if (status.code == StatusCode::end) break;
    REQUIRE(status.ok());
    CHECK(batch.sequence == 15 + taken);
    CHECK(group.job.release(batch.sequence).ok());
  }
  CHECK(taken == 6);
}

TEST_CASE("a group that goes on in mid-epoch has no batch before its first, and ends with whole epochs") {
  StagingFacts facts = one_job();
  facts.first_epoch = 5;
  facts.first_batch = 2;
  facts.epochs = 2;
  OneJob group(facts);
  std::vector<std::uint64_t> taken;
  for (StagedBatch batch;;) {
    group.coordinator.survey();
    if (StagingClaim claim; taken.size() < 4 && group.job.claim(claim, in_time()).ok()) group.job.publish(claim, {1, 0, 0});
    const Status status = group.job.take(batch, in_time());
    if (status.code == StatusCode::end) break;
    REQUIRE(status.ok());
    CHECK(batch.sequence == batch.epoch * facts.batches_per_epoch + batch.index);
    taken.push_back(batch.sequence);
    CHECK(group.job.release(batch.sequence).ok());
  }
  CHECK(taken == std::vector<std::uint64_t>{17, 18, 19, 20});
  facts.first_batch = facts.batches_per_epoch;
  CHECK_THROWS_AS(facts.validate(), UsageError);
}

TEST_CASE("what a job has announced it gets after the coordinator took back all else") {
  StagingFacts facts = one_job();
  facts.batches_per_epoch = 8;
  facts.prefetch = 2;
  facts.held = 2;
  facts.producers = Producers::coordinator;
  for (const std::uint64_t taken : {0, 1, 3}) {
    for (const bool announced : {false, true}) {
      CAPTURE(taken);
      CAPTURE(announced);
      OneJob group(facts);
      group.job.attach(staging_most_jobs, {}, copy_of(group.coordinator.slab(staging_most_jobs)));
      group.coordinator.survey();
      const auto make = [&] {
        StagingClaim claim;
        if (!group.coordinator.producer().claim(claim, {0}).ok()) return false;
        group.coordinator.producer().publish(claim, {1, 0, 0});
        return true;
      };
      const auto take = [&](std::uint64_t expected) {
        StagedBatch batch;
        REQUIRE(group.job.take(batch, in_time()).ok());
        CHECK(batch.sequence == expected);
        CHECK(group.job.release(batch.sequence).ok());
      };
      StagedBatch batch;
      // A wait for what is not there yet is an announcement.
      if (announced && taken == 0) CHECK(group.job.take(batch, {0}).code == StatusCode::timeout);
      while (make()) continue;
      for (std::uint64_t i = 0; i < taken; ++i) take(i);
      if (announced && taken > 0) {
        // All that was made is taken, and more is made while the job waits.
        std::uint64_t next = taken;
        while (group.job.take(batch, {0}).ok()) {
          CHECK(batch.sequence == next++);
          CHECK(group.job.release(batch.sequence).ok());
        }
        while (make()) continue;
        CHECK(group.coordinator.withdraw() == next + 1);
        take(next);
      } else {
        CHECK(group.coordinator.withdraw() == taken + (announced ? 1 : 0));
        if (announced) take(0);
      }
      CHECK(group.job.take(batch, {0}).code == StatusCode::timeout);
      CHECK(group.coordinator.survey().departed.empty());
    }
  }
}

TEST_CASE("a job that announces a batch while the coordinator takes it back gets it") {
  StagingFacts facts = one_job();
  facts.batches_per_epoch = 8;
  facts.held = 2;
  facts.producers = Producers::coordinator;
  std::unique_ptr<OneJob> group;
  StagedBatch batch;
  bool taken = false;
  group = std::make_unique<OneJob>(facts, [&](StagingStep step) {
    if (step == StagingStep::retract && !std::exchange(taken, true)) CHECK(group->job.take(batch, {0}).ok());
  });
  group->job.attach(staging_most_jobs, {}, copy_of(group->coordinator.slab(staging_most_jobs)));
  group->coordinator.survey();
  for (StagingClaim claim; group->coordinator.producer().claim(claim, {0}).ok();) group->coordinator.producer().publish(claim, {1, 0, 0});
  CHECK(group->coordinator.withdraw() == 1);
  CHECK(taken);
  CHECK(batch.sequence == 0);
  CHECK(group->coordinator.survey().departed.empty());
  CHECK(group->job.release(0).ok());
  CHECK(group->job.take(batch, {0}).code == StatusCode::timeout);
}

TEST_CASE("a group takes in as many jobs as it has slots for") {
  OneJob group(one_job());
  StagingJob second(
      copy_of(group.coordinator.board()), [] { return true; }, system_timing());
  CHECK_THROWS_WITH_AS(group.coordinator.admit(copy_of(second.page()), copy_of(second.slab())), doctest::Contains("the group has its 1 jobs"), Error);
  CHECK_THROWS_AS(group.coordinator.admit(copy_of(second.page()), FileDescriptor()), Error);
  CHECK(group.coordinator.progress().next_epoch == 0);
  group.coordinator.survey();
  CHECK(group.coordinator.progress().next_epoch == 1);
  CHECK(group.coordinator.progress().released == 0);
  CHECK(group.coordinator.progress().until_next == 1);  // two slots: the next epoch of three batches opens when one is released
  group.job.leave();
  std::vector<std::uint32_t> vacated;
  for (int round = 0; round < 3; ++round) {
    for (const std::uint32_t place : group.coordinator.survey().vacated) vacated.push_back(place);
  }
  CHECK(vacated == std::vector<std::uint32_t>{group.place});
  CHECK_NOTHROW(group.coordinator.admit(copy_of(second.page()), copy_of(second.slab())));
}

TEST_CASE("the coordinator makes all batches where it is the producer") {
  StagingFacts facts = one_job();
  facts.producers = Producers::coordinator;
  OneJob group(facts);
  group.coordinator.survey();
  group.job.attach(staging_most_jobs, FileDescriptor(), copy_of(group.coordinator.slab(staging_most_jobs)));
  StagingClaim claim;
  CHECK(group.job.claim(claim, in_time()).code == StatusCode::unsupported);
  REQUIRE(group.coordinator.producer().claim(claim, in_time()).ok());
  claim.bytes[0] = std::byte{42};
  group.coordinator.producer().publish(claim, {1, 0, 0});
  StagedBatch batch;
  REQUIRE(group.job.take(batch, in_time()).ok());
  CHECK(batch.producer == staging_most_jobs);
  CHECK(batch.bytes[0] == std::byte{42});
}

}  // namespace
}  // namespace dsanalyze
