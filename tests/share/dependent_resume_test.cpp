#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "../base/texts.hpp"
#include "dependent_rig.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

/// Notes each sample of each batch as soon as it has the batch, until there is none.
struct NotesAll {
  std::filesystem::path notes;
  Nanoseconds batch_time = 0;

  int operator()(GroupMember& member) const {
    GroupBatches batches(member, 1);
    const FileDescriptor file(::open(notes.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    for (Batch batch;;) {
      const Status status = batches.next(batch, in_time());
      if (!status.ok()) return status.code == StatusCode::io || status.code == StatusCode::end ? 0 : 10 + static_cast<int>(status.code);
      const std::byte* const memory = batches.memory(batch);
      std::string lines;
      for (std::uint32_t i = 0; i < batch.count; ++i) {
        SampleId id = 0;
        std::memcpy(&id, memory + batch.ids_offset + i * sizeof id, sizeof id);
        const std::byte* const sample = memory + i * batch.tensor.sample_bytes();
        lines += std::to_string(batch.epoch) + ' ' + std::to_string(id) + ' ' + std::to_string(std::to_integer<int>(sample[1])) + '\n';
      }
      if (::write(file.get(), lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) return 3;
      if (batch_time > 0) system_timing().waiter->sleep_until(system_timing().clock->now() + batch_time);
      batches.release(batch.token);
    }
  }
};

struct Named {
  std::string name;
  std::uint32_t batch_size = 4;
  std::uint64_t epochs = 3;
  std::string subset{};
  Nanoseconds batch_time = 0;
};

GroupDemands demands_of(const Named& job) {
  GroupDemands demands;
  demands.name = job.name;
  demands.batch_size = job.batch_size;
  demands.epochs = job.epochs;
  if (!job.subset.empty()) demands.subset = job.subset;
  return demands;
}

/// Why the group refuses these demands; empty: it does not.
std::string refused(const HostRig& rig, const GroupDemands& demands) {
  try {
    const GroupMember member({connect_group(rig.host().address(), system_timing()), demands, system_timing(), {}});
  } catch (const RefusedError& error) {
    return error.what();
  }
  return {};
}

/// What a job with these demands is told that had all its epochs; empty: it had not.
std::string told_that_all_is_had(const HostRig& rig, const GroupDemands& demands) {
  try {
    const GroupMember member({connect_group(rig.host().address(), system_timing()), demands, system_timing(), {}, 77});
  } catch (const EpochsOverError& error) {
    return error.what();
  }
  return {};
}

/// Each sample once an epoch, in epochs from 0, and no version twice.
void check_notes(const Named& job, const std::filesystem::path& notes) {
  std::ifstream file(notes);
  std::map<std::uint64_t, std::set<SampleId>> epochs;
  std::set<std::pair<SampleId, int>> versions;
  std::uint64_t epoch = 0;
  SampleId id = 0;
  int version = 0;
  while (file >> epoch >> id >> version) {
    CHECK_MESSAGE(epochs[epoch].insert(id).second, job.name);
    CHECK_MESSAGE(versions.emplace(id, version).second, job.name);
  }
  const std::size_t samples = job.subset.empty() ? dataset_samples : parse_subset(job.subset, dataset_samples).size();
  CHECK(epochs.size() == job.epochs);
  for (const auto& [number, of_epoch] : epochs) CHECK_MESSAGE(of_epoch.size() == samples, job.name);
}

TEST_CASE("a group that is saved at any time goes on: each job has each sample of its epochs once and no version twice, whether it lived or died" *
          doctest::skip(testing::threads_only)) {
  const std::vector<Named> kinds{{"a", 4, 3, {}, 1'000'000}, {"b", 9, 4, {}, 0}, {"c", 3, 5, "0-4,50%", 3'000'000}};
  RandomStream random(5);
  std::uint64_t resumed = 0;
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const TemporaryFolder folder;
    const auto notes = [&](const Named& job) { return folder.path() / job.name; };
    DependentPositions positions;
    std::optional<DependentGroup::State> state;
    std::set<std::string> ended;
    for (int run = 0; run < 4; ++run) {
      const bool last = run == 3;
      resumed += positions.size();
      auto rig = std::make_unique<HostRig>(8, 0, std::exchange(positions, {}), state);
      std::vector<MemberProcess> processes;
      const auto start = [&](const Named& job, std::uint64_t steps) {
        const auto left = std::make_shared<std::uint64_t>(steps);
        processes.push_back(rig->job(demands_of(job), NotesAll{notes(job), job.batch_time}, [left](StagingStep) {
          if ((*left)-- == 0) ::kill(::getpid(), SIGKILL);
        }));
      };
      for (const Named& job : kinds)
        if (!ended.contains(job.name)) start(job, last || random.below(2) == 0 ? UINT64_MAX : random.below(60));
      if (!last) system_timing().waiter->sleep_until(system_timing().clock->after(0.001 * static_cast<double>(random.below(60))).at);
      if (last) {
        for (MemberProcess& process : processes) CHECK(process.end() == 0);
      }
      // As in a file.
      DependentState saved{rig->terms().dataset_digest, rig->terms().prep, rig->terms().seed, {}, rig->host().stop()};
      saved.group = rig->feed().feed().state();
      const DependentState read = parse_dependent_state(to_text(saved), "state", rig->terms());
      positions = read.jobs;
      state = read.group;
      rig.reset();
      for (MemberProcess& process : processes) {
        const int end = process.end();
        // One that comes while its group ends is not let in, or does not find it.
        constexpr int not_let_in = 2;
        constexpr int found_none = 99;
        CHECK_MESSAGE((end == 0 || end == -SIGKILL || end == not_let_in || end == found_none), end);
      }
      for (const auto& each : positions)
        if (last) CHECK_MESSAGE(each.second.epoch == each.second.epochs, each.first);
      // A job that has had everything does not come again.
      for (const Named& job : kinds) {
        std::ifstream file(notes(job));
        const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
        const std::size_t samples = job.subset.empty() ? dataset_samples : parse_subset(job.subset, dataset_samples).size();
        if (static_cast<std::uint64_t>(lines) == job.epochs * samples) ended.insert(job.name);
      }
    }
    for (const Named& job : kinds) check_notes(job, notes(job));
  }
  CHECK(resumed > 10);
}

TEST_CASE("a job that died goes on in its group when it comes again under its name, one that left begins anew" *
          doctest::skip(testing::threads_only)) {
  const TemporaryFolder folder;
  HostRig rig(8, 0);
  const Named job{"again", 3, 2, {}, 0};
  for (int i = 0; i < 4; ++i) {
    auto left = std::make_shared<int>(8 + i);
    MemberProcess killed = rig.job(demands_of(job), NotesAll{folder.path() / "notes"}, [left](StagingStep) {
      if ((*left)-- == 0) ::kill(::getpid(), SIGKILL);
    });
    CHECK(killed.end() == -SIGKILL);
  }
  CHECK(rig.job(demands_of(job), NotesAll{folder.path() / "notes"}).end() == 0);
  check_notes(job, folder.path() / "notes");
  CHECK(rig.job(demands_of(job), NotesAll{folder.path() / "anew"}).end() == 0);
  check_notes(job, folder.path() / "anew");
  const DependentPositions positions = rig.host().stop();
  REQUIRE(positions.size() == 1);
  CHECK(positions[0].second.epoch == 2);
  const HostRig later(8, 0, positions);
  CHECK(says(told_that_all_is_had(later, demands_of(job)), "has had its epochs: 2, and it asks for 2 in all"));
  REQUIRE(later.host().accounts().size() == 1);
  CHECK(later.host().accounts()[0].end == JobEnd::finished);
  CHECK(later.host().accounts()[0].origin.command == 77);
  CHECK(later.host().state().joined == 0);
}

TEST_CASE("a job that stands still when its group is saved has had what it had announced" * doctest::skip(testing::threads_only)) {
  HostRig rig(8, 0);
  const Named job{"still", 3, 2, {}, 0};
  const TemporaryFolder folder;
  MemberProcess still = rig.job(demands_of(job), NotesAll{folder.path() / "notes"}, [](StagingStep step) {
    if (step == StagingStep::look) ::kill(::getpid(), SIGSTOP);
  });
  wait_until([&] { return rig.feed().feed().totals().drawn >= 6; });
  const DependentPositions positions = rig.host().stop();
  still.signal(SIGKILL);
  REQUIRE(positions.size() == 1);
  CHECK(positions[0].second.batch == 1);
  CHECK(positions[0].second.samples.size() == dataset_samples - 3);
}

TEST_CASE("what a job asks for that comes again has to be what it had, and its name is its own" * doctest::skip(testing::threads_only)) {
  DependentPositions positions{{"a", {4, "0-9", 5, 2, 1, {0, 3, 4, 6, 7, 9}}}};
  HostRig rig(8, 0, positions);
  GroupDemands demands;
  demands.name = "a";
  demands.batch_size = 5;
  demands.subset = "0-9";
  CHECK(says(refused(rig, demands), "its batch size was 4, and it asks for 5"));
  demands.batch_size = 4;
  demands.subset = "0-10";
  CHECK(says(refused(rig, demands), "its part of the dataset was 0-9, and it asks for 0-10"));
  demands.subset.reset();
  CHECK(says(refused(rig, demands), "was 0-9, and it asks for all"));
  demands.subset = "0-9";
  demands.epochs = 2;
  CHECK(says(told_that_all_is_had(rig, demands), "has had its epochs: 2, and it asks for 2 in all"));
  demands.epochs.reset();
  demands.name = "a\n";
  CHECK(says(refused(rig, demands), "without control characters"));
  demands.name = std::string(201, 'x');
  CHECK(says(refused(rig, demands), "1 to 200 bytes"));
  demands.name = "a";
  MemberProcess stays = rig.job(demands, [](GroupMember& member) {
    GroupBatches batches(member, 1);
    Batch batch;
    if (!batches.next(batch, in_time()).ok() || batch.epoch != 2) return 3;
    system_timing().waiter->sleep_until(in_time().at);
    return 0;
  });
  wait_until([&] { return rig.host().state().jobs == 1; });
  CHECK(says(refused(rig, demands), "a job named \"a\" takes part"));
  demands.name_is_given = false;
  demands.epochs = 1;
  CHECK(rig.job(demands,
                [](GroupMember& member) {
                  GroupBatches batches(member, 1);
                  Batch batch;
                  return batches.next(batch, in_time()).ok() && batch.epoch == 0 ? 0 : 3;
                })
            .end() == 0);
}

}  // namespace
}  // namespace dsanalyze
