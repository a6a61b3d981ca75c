#include "staging_processes.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/random.hpp"
#include "staging_explorer.hpp"

namespace dsanalyze {
namespace {

using namespace testing;
using Deed = Blow::Deed;

constexpr std::uint64_t shared_epochs = 3;
constexpr std::uint64_t shared_batches = 7;
constexpr int random_kills = 500 / every_so_many;

StagingFacts facts_of_group(std::uint32_t jobs) {
  StagingFacts facts;
  facts.jobs = jobs;
  facts.batches_per_epoch = shared_batches;
  facts.prefetch = jobs;
  facts.look_again = 2'000'000;
  return facts;
}

/// Every step of a job; the coordinator's own are not a job's to die at. What has to happen first for the last three to come: see below.
constexpr std::array plain_steps{StagingStep::enter,         StagingStep::announce,       StagingStep::look,    StagingStep::wait_for_batch,
                                 StagingStep::release,       StagingStep::wake_producers, StagingStep::leave,   StagingStep::choose,
                                 StagingStep::wait_for_room, StagingStep::claim,          StagingStep::publish, StagingStep::wake_jobs};

/// What a test leaves behind, were it to.
struct Belongings {
  std::ptrdiff_t descriptors = 0;
  std::size_t segments = 0;
  bool operator==(const Belongings&) const = default;
  static Belongings now() {
    Belongings all;
    const std::filesystem::directory_iterator open("/proc/self/fd");
    all.descriptors = std::distance(begin(open), end(open));
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) all.segments += line.find("/memfd:stag") == std::string::npos ? 0 : 1;
    return all;
  }
};

std::string counts(const std::array<std::atomic<std::uint64_t>, staging_steps>& of) {
  std::string text;
  for (std::size_t i = 0; i < staging_steps; ++i) {
    if (of[i] > 0) text += fmt::format(" {} {}", staging_step_name(static_cast<StagingStep>(i)), of[i].load());
  }
  return text;
}

void check_ends(const GroupOfProcesses& group, const std::vector<Blow>& blows) {
  for (std::uint32_t job = 0; job < group.jobs(); ++job) {
    const bool in_danger = std::ranges::any_of(blows, [job](const Blow& blow) { return blow.job == job; });
    const int end = group.end_of(job);
    CHECK_MESSAGE((end == 0 || (in_danger && end == -SIGKILL)), fmt::format("job {} ended with {}", job, end));
  }
  for (const auto& [place, why] : group.departed) {
    CHECK((why == StagingDeparture::left || (why == StagingDeparture::died && group.end_of(place) == -SIGKILL)));
  }
}

/// Some of three jobs get a SIGKILL; the others must not notice. How many it struck.
std::ptrdiff_t killed_of_three(const std::vector<Blow>& blows, std::array<std::uint64_t, staging_steps>* coverage = nullptr) {
  GroupOfProcesses group(facts_of_group(3), shared_epochs, blows);
  REQUIRE(group.start_all());
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  check_ends(group, blows);
  for (std::size_t i = 0; coverage != nullptr && i < staging_steps; ++i) (*coverage)[i] += group.tally().killed[i];
  std::ptrdiff_t struck = 0;
  for (std::uint32_t job = 0; job < group.jobs(); ++job) struck += group.end_of(job) == -SIGKILL ? 1 : 0;
  return struck;
}

TEST_CASE("processes that nothing befalls make each batch once") {
  GroupOfProcesses group(facts_of_group(3), shared_epochs, {});
  REQUIRE(group.start_all());
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  check_ends(group, {});
  CHECK(group.tally().made == shared_epochs * shared_batches);
}

TEST_CASE("a process killed in the middle of a batch costs the others nothing") {
  for (const std::uint64_t batches : {0U, 1U, 3U}) CHECK(killed_of_three({{Deed::kill, 0, {}, batches}}) == 1);
}

TEST_CASE("a process killed before any step that a job takes costs the others nothing, and leaves nothing behind") {
  const Belongings before = Belongings::now();
  for (const StagingStep step : plain_steps) {
    INFO(staging_step_name(step));
    for (std::uint32_t job = 0; job < 3; ++job) CHECK(killed_of_three({{Deed::kill, job, step, 0}}) <= 1);
    CHECK(killed_of_three({{Deed::kill, 0, step, 0}, {Deed::kill, 2, step, 0}}) <= 2);
  }
  CHECK(Belongings::now() == before);
}

TEST_CASE("a process killed at the last batch of an epoch, or at the first of the next, costs the others nothing") {
  for (const StagingStep step : {StagingStep::announce, StagingStep::look, StagingStep::release, StagingStep::wake_producers}) {
    INFO(staging_step_name(step));
    for (const std::uint64_t batch : {shared_batches - 1, shared_batches, 2 * shared_batches - 1}) {
      CHECK(killed_of_three({{Deed::kill, 1, step, batch}}) == 1);
      CHECK(killed_of_three({{Deed::kill, 0, step, batch}, {Deed::kill, 1, step, batch}}) == 2);
    }
  }
}

TEST_CASE("a process killed while it reports a late batch, or takes back a slot for a dead one's batch, costs the others nothing") {
  for (const StagingStep step : {StagingStep::report, StagingStep::retract}) {
    INFO(staging_step_name(step));
    // The second job stops over its first batch, the second of all: the others fill their slots, wait for it, report. Then it dies, and the first,
    // with batches 3, 6 and 9 in its three slots, has to make that batch.
    const std::vector<Blow> blows{{Deed::stop_needed, 1, {}, 0}, {Deed::kill, 0, step, 0}};
    constexpr std::uint64_t before_it = 7;
    StagingFacts facts = facts_of_group(3);
    facts.batches_per_epoch = 12;
    GroupOfProcesses group(facts, shared_epochs, blows);
    REQUIRE(group.start_all());
    const bool ends_by_report = step == StagingStep::report;  // perhaps after the third one's, which is late for the same batch
    REQUIRE(group.survey_until([&] { return (!ends_by_report && group.late > 0 && group.tally().made == before_it) || group.ended(0); }));
    group.signal(1, SIGKILL);
    REQUIRE(group.survey_until([&] { return group.all_ended(); }));
    check_ends(group, blows);
    CHECK(group.end_of(0) == -SIGKILL);
    CHECK(group.tally().killed[static_cast<std::size_t>(step)] == 1);
    CHECK(group.end_of(2) == 0);
  }
}

TEST_CASE("kills drawn at random, of one or two of three processes, cost the others nothing") {
  std::array<std::uint64_t, staging_steps> coverage{};
  std::ptrdiff_t struck = 0;
  for (std::uint64_t seed = 0; struck < random_kills && seed < 4U * random_kills; ++seed) {
    RandomStream random(mix(seed, 8));
    const auto drawn_blow = [&](std::uint32_t job) {
      const std::size_t step = random.below(plain_steps.size() + 1);
      return Blow{Deed::kill, job, step < plain_steps.size() ? std::optional(plain_steps.at(step)) : std::nullopt, random.below(12)};
    };
    const auto first = static_cast<std::uint32_t>(random.below(3));
    std::vector<Blow> blows{drawn_blow(first)};
    if (random.below(2) == 0) blows.push_back(drawn_blow((first + 1) % 3));
    INFO("seed " << seed);
    struck += killed_of_three(blows, &coverage);
  }
  std::string text;
  for (std::size_t i = 0; i < staging_steps; ++i)
    text += coverage[i] > 0 ? fmt::format(" {} {}", staging_step_name(static_cast<StagingStep>(i)), coverage[i]) : "";
  MESSAGE(struck << " killed before:" << text);
  CHECK(struck >= random_kills);
  if (every_so_many > 1) return;  // too few for every step
  for (const StagingStep step : plain_steps) {
    if (step != StagingStep::enter && step != StagingStep::leave)
      CHECK_MESSAGE(coverage[static_cast<std::size_t>(step)] > 0, staging_step_name(step));
  }
}

TEST_CASE("a stopped process is waited for: no takeover, and no job misses or repeats a batch when it goes on") {
  GroupOfProcesses group(facts_of_group(3), shared_epochs, {{Deed::stop, 0, {}, 2}});
  REQUIRE(group.start_all());
  REQUIRE(group.survey_until([&] { return group.late > 0; }));
  CHECK(group.departed.empty());
  group.signal(0, SIGCONT);
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  check_ends(group, {});
  CHECK(group.tally().made == shared_epochs * shared_batches);
}

TEST_CASE("a process that never releases is waited for, and told of, until it is ended") {
  GroupOfProcesses group(facts_of_group(3), shared_epochs, {{Deed::keep_batches, 2, {}, 0}});
  REQUIRE(group.start_all());
  REQUIRE(group.survey_until([&] { return group.late > 0; }));
  CHECK(group.departed.empty());
  group.signal(2, SIGKILL);
  REQUIRE(group.survey_until([&] { return group.all_ended(); }));
  for (const std::uint32_t job : {0U, 1U}) CHECK(group.end_of(job) == 0);
}

TEST_CASE("a process that writes garbage over its control page is put out and told, and the others notice nothing") {
  for (const StagingStep step : {StagingStep::announce, StagingStep::look, StagingStep::release, StagingStep::claim, StagingStep::publish}) {
    INFO(staging_step_name(step));
    GroupOfProcesses group(facts_of_group(3), shared_epochs, {{Deed::spoil_page, 0, step, 2}});
    REQUIRE(group.start_all());
    REQUIRE(group.survey_until([&] { return group.all_ended(); }));
    CHECK(group.end_of(0) == 10 + static_cast<int>(StatusCode::cancelled));
    for (const std::uint32_t job : {1U, 2U}) CHECK(group.end_of(job) == 0);
    CHECK(std::ranges::count(group.departed, StagingDeparture::garbage, &StagingRound::Departed::why) == 1);
  }
}

TEST_CASE("when the coordinator is gone every job says so and ends, one that need not wait too") {
  GroupOfProcesses group(facts_of_group(2), shared_epochs, {{Deed::stop, 0, {}, 1}});
  REQUIRE(group.start_all());
  REQUIRE(group.survey_until([&] { return group.late > 0; }));
  group.hang_up();
  CHECK(group.end_of(1) == 10 + static_cast<int>(StatusCode::io));
  group.signal(0, SIGCONT);
  CHECK(group.end_of(0) == 10 + static_cast<int>(StatusCode::io));
}

TEST_CASE("a hundred jobs crash and are replaced while others go on, and nothing is left behind") {
  const Belongings before = Belongings::now();
  constexpr std::uint32_t crashes = 100;
  {
    std::vector<Blow> blows;
    for (std::uint32_t i = 0; i < crashes; ++i) {
      const std::size_t step = i % (plain_steps.size() + 1);
      const bool leaves = step < plain_steps.size() && plain_steps.at(step) == StagingStep::leave;  // it never comes to that
      blows.push_back(
          {Deed::kill, 2 + i, step == plain_steps.size() || leaves ? std::nullopt : std::optional(plain_steps.at(step)), i % 3 == 0 ? 1U : 0U});
      if (blows.back().step == StagingStep::enter) blows.back().skipped = 0;
    }
    GroupOfProcesses group(facts_of_group(3), 0, blows);
    REQUIRE(group.start_all());
    for (std::uint32_t i = 0; i < crashes; ++i) {
      REQUIRE_MESSAGE(group.survey_until([&] { return group.vacated.size() == i + 1; }), i);
      CHECK(group.end_of(2 + i) == -SIGKILL);
      REQUIRE(group.start());
    }
    group.coordinator().end();
    REQUIRE(group.survey_until([&] { return group.all_ended(); }));
    check_ends(group, blows);
    CHECK(group.end_of(0) == 0);
    CHECK(group.end_of(1) == 0);
    CHECK(group.jobs() == 3 + crashes);
    MESSAGE("killed before:" << counts(group.tally().killed));
  }
  CHECK(Belongings::now() == before);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

}  // namespace
}  // namespace dsanalyze
