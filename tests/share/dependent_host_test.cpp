#include "share/dependent_host.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <set>

#include "../base/texts.hpp"
#include "dependent_rig.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

/// Takes all batches: each sample of the subset once an epoch, no version twice. 0 when that holds and so many epochs came.
struct TakesAll {
  std::uint64_t epochs = 3;
  std::set<SampleId> expected = {};
  std::uint64_t leave_after_batches = UINT64_MAX;

  int operator()(GroupMember& member) const {
    GroupBatches batches(member, 1);
    std::map<std::uint64_t, std::set<SampleId>> seen;
    std::set<std::pair<std::uint8_t, std::uint8_t>> versions;
    Batch batch;
    for (std::uint64_t taken = 0; taken < leave_after_batches; ++taken) {
      const Status status = batches.next(batch, in_time());
      if (status.code == StatusCode::end) return whole(seen) ? 0 : 4;
      if (!status.ok()) return 10 + static_cast<int>(status.code);
      const std::byte* const memory = batches.memory(batch);
      for (std::uint32_t i = 0; i < batch.count; ++i) {
        SampleId id = 0;
        std::memcpy(&id, memory + batch.ids_offset + i * sizeof id, sizeof id);
        const std::byte* const sample = memory + i * batch.tensor.sample_bytes();
        if (sample[0] != std::byte{static_cast<std::uint8_t>(id)}) return 5;
        if (!versions.emplace(static_cast<std::uint8_t>(sample[0]), static_cast<std::uint8_t>(sample[1])).second) return 6;
        if (!seen[batch.epoch].insert(id).second) return 7;
      }
      batches.release(batch.token);
    }
    return 0;
  }

 private:
  [[nodiscard]] bool whole(const std::map<std::uint64_t, std::set<SampleId>>& seen) const {
    std::set<SampleId> all = expected;
    for (SampleId sample = 0; expected.empty() && sample < dataset_samples; ++sample) all.insert(sample);
    if (seen.size() != epochs) return false;
    for (const auto& [epoch, samples] : seen) {
      if (samples != all) return false;
    }
    return true;
  }
};

TEST_CASE("jobs of one address have batch sizes, epochs and subsets of their own, and come when they like" * doctest::skip(testing::threads_only)) {
  HostRig rig;
  MemberProcess plain = rig.job({}, TakesAll{});
  GroupDemands other;
  other.batch_size = 9;
  other.epochs = 5;
  MemberProcess larger = rig.job(other, TakesAll{.epochs = 5});
  GroupDemands part;
  part.batch_size = 3;
  part.subset = "0-4,50%";
  std::set<SampleId> half;
  for (SampleId sample = 0; sample < 14; ++sample) half.insert(sample);
  MemberProcess some = rig.job(part, TakesAll{.epochs = 3, .expected = half});
  CHECK(plain.end() == 0);
  MemberProcess late = rig.job({}, TakesAll{});
  CHECK(larger.end() == 0);
  CHECK(some.end() == 0);
  CHECK(late.end() == 0);
  CHECK(rig.host().wait_over(in_time()));
  const std::vector<GroupJobAccount> accounts = rig.host().accounts();
  REQUIRE(accounts.size() == 4);
  std::uint64_t taken = 0;
  for (const GroupJobAccount& account : accounts) {
    CHECK(account.end == GroupJobAccount::End::left);
    taken += account.counts.samples_taken;
  }
  CHECK(taken == 3 * 28 + 5 * 28 + 3 * 14 + 3 * 28);
  wait_until([&] { return rig.host().state().shared_bytes == 0; });
  CHECK(rig.host().state().shared_bytes == 0);
}

TEST_CASE("a job of a dependent group may be killed before any of its steps: its slots come back, and the others' epochs are whole" *
          doctest::skip(testing::threads_only)) {
  HostRig rig(8, 0);
  const auto descriptors = open_descriptors();
  GroupDemands demands;
  demands.epochs = 40;
  MemberProcess stays = rig.job(demands, TakesAll{.epochs = 40});
  for (int step = 0; step < 60; ++step) {
    CAPTURE(step);
    GroupDemands of_killed;
    of_killed.batch_size = 1 + static_cast<std::uint32_t>(step % 7);
    auto left = std::make_shared<int>(step);
    MemberProcess killed = rig.job(of_killed, TakesAll{}, [left](StagingStep) {
      if ((*left)-- == 0) ::kill(::getpid(), SIGKILL);
    });
    CHECK(killed.end() == -SIGKILL);
  }
  CHECK(stays.end() == 0);
  CHECK(rig.host().wait_over(in_time()));
  wait_until([&] { return rig.host().state().shared_bytes == 0; });
  CHECK(rig.host().state().shared_bytes == 0);
  CHECK(rig.log().of(GroupEvent::Kind::died).size() + 1 >= rig.host().accounts().size());
  wait_until([&] { return open_descriptors() <= descriptors; });
  CHECK(open_descriptors() <= descriptors);
}

TEST_CASE("a job is let in while the memory of another's slots is being taken from the system" * doctest::skip(testing::threads_only)) {
  std::atomic<bool> go{false};
  HostRig rig(8, 0, {}, {}, Listens::yes, [&go] {
    const Deadline deadline = in_time();
    while (!go && system_timing().clock->now() < deadline.at) system_timing().waiter->sleep_until(system_timing().clock->after(0.001).at);
  });
  const auto takes_one = [](GroupMember& member) {
    GroupBatches batches(member, 1);
    Batch batch;
    if (!batches.next(batch, in_time()).ok()) return 3;
    system_timing().waiter->sleep_until(in_time().at);
    return 4;
  };
  MemberProcess one = rig.job({}, takes_one);
  MemberProcess other = rig.job({}, takes_one);
  const auto both_took_one = [&] {
    const std::vector<GroupJobAccount> accounts = rig.host().accounts();
    return accounts.size() == 2 && accounts[0].counts.batches_taken > 0 && accounts[1].counts.batches_taken > 0;
  };
  const Deadline soon = system_timing().clock->after(4);  // less than a job waits for an answer
  wait_until([&] { return both_took_one() || system_timing().clock->now() >= soon.at; });
  CHECK(both_took_one());
  go = true;
  for (MemberProcess* const job : {&one, &other}) {
    job->signal(SIGKILL);
    job->end();
  }
}

TEST_CASE("the end of a dependent group's coordinator is an error at each of its jobs" * doctest::skip(testing::threads_only)) {
  auto rig = std::make_unique<HostRig>(8, 0);
  const auto lost = [](GroupMember& member) {
    GroupBatches batches(member, 1);
    Batch batch;
    while (true) {
      const Status status = batches.next(batch, in_time());
      if (status.code == StatusCode::io) return batches.failure().find("host is gone") != std::string::npos ? 0 : 3;
      if (!status.ok()) return 4;
      batches.release(batch.token);
    }
  };
  MemberProcess one = rig->job({}, lost);
  MemberProcess other = rig->job({}, lost);
  wait_until([&] { return rig->host().state().jobs == 2; });
  rig.reset();
  CHECK(one.end() == 0);
  CHECK(other.end() == 0);
}

TEST_CASE("jobs that this process starts inherit their lines, also of a host without a socket" * doctest::skip(testing::threads_only)) {
  HostRig rig(8, 2, {}, {}, Listens::no);
  CHECK(rig.host().address().empty());
  FileDescriptor of_one = rig.host().connect();
  FileDescriptor of_other = rig.host().connect();
  CHECK_FALSE(rig.host().wait_over(Deadline{0}));
  const auto job = [](FileDescriptor& line) {
    return MemberProcess([&line] {
      GroupMember member({std::move(line), {}, system_timing(), {}});
      return member.enter(in_time()).ok() ? TakesAll{.epochs = 2}(member) : 2;
    });
  };
  MemberProcess one = job(of_one);
  MemberProcess other = job(of_other);
  of_one.reset();
  of_other.reset();
  CHECK(one.end() == 0);
  CHECK(other.end() == 0);
  CHECK(rig.host().wait_over(in_time()));
  CHECK(rig.host().accounts().size() == 2);
  FileDescriptor of_nobody = rig.host().connect();
  of_nobody.reset();
  CHECK(rig.host().wait_over(in_time()));
}

TEST_CASE("demands that cannot be are refused in words, and so is a job more than there may be" * doctest::skip(testing::threads_only)) {
  HostRig rig(1);
  const auto refused = [&](const GroupDemands& demands) {
    try {
      const GroupMember member({connect_group(rig.host().address(), system_timing()), demands, system_timing(), {}});
    } catch (const RefusedError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  GroupDemands demands;
  demands.subset = "20-30";
  CHECK(says(refused(demands), "no sample number below 28"));
  demands.subset = "";
  CHECK(says(refused(demands), "found \"\""));
  demands = {};
  demands.seed = 99;
  CHECK(says(refused(demands), "the seed of the group is 1, this job asks for 99"));
  demands = {};
  demands.batch_size = 0;
  CHECK(says(refused(demands), "batch size: found 0"));
  MemberProcess stays = rig.job({}, [](GroupMember& member) {
    GroupBatches batches(member, 1);
    Batch batch;
    while (batches.next(batch, in_time()).ok()) continue;
    system_timing().waiter->sleep_until(in_time().at);
    return 0;
  });
  wait_until([&] { return rig.host().state().jobs == 1; });
  CHECK(says(refused({}), "the group has its 1 jobs"));
  stays.signal(SIGKILL);
  stays.end();
  CHECK(rig.job({}, TakesAll{}).end() == 0);
}

TEST_CASE("subsets are numbers, ranges and percentages of the index, each sample once") {
  const std::vector<SampleId> mixed{1, 2, 3, 9};
  CHECK(parse_subset("2-3,9,1-2", 10) == mixed);
  CHECK(parse_subset("50%", 10) == std::vector<SampleId>{0, 1, 2, 3, 4});
  CHECK(parse_subset("90%-100%,0", 10) == std::vector<SampleId>{0, 9});
  for (const char* const wrong : {"", ",", "3-", "-3", "5-2", "10", "x", "10%-5", "60%-50%", "101%", "50%-50%", "1,,2"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_subset(wrong, 10), UsageError);
  }
}

TEST_CASE("a group whose jobs go in step refuses a part of the dataset, and other epochs than its own") {
  GroupDemands demands;
  demands.subset = "50%";
  CHECK(says(refusal(group_terms(1, 3), demands), "--share dependent has that"));
  demands = {};
  demands.epochs = 3;
  CHECK(refusal(group_terms(1, 3), demands).empty());
  demands.epochs = 4;
  CHECK(says(refusal(group_terms(1, 3), demands), "the number of epochs of the group is 3, this job asks for 4"));
}

}  // namespace
}  // namespace dsanalyze
