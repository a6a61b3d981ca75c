#include <doctest/doctest.h>

#include "base/error.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::SimulatedMachine;
using test::Speeds;

namespace {

struct Rig {
  GateCommands commands{.baseline = "old", .current = "new"};
  GateOptions options;
  ManualTiming timing;
  std::stop_source stop;
  std::string order;  ///< B and C, run by run
  double seconds = 1;

  GateResult compare(SimulatedMachine& machine, const Speeds& current) {
    return compare_commands(
        commands, options,
        [&](GateSideName side) {
          order += side == GateSideName::baseline ? 'B' : 'C';
          timing.advance(to_nanoseconds(seconds));
          return machine.run(side == GateSideName::baseline ? Speeds{} : current).profile;
        },
        null_events(), stop.get_token(), timing);
  }
};

}  // namespace

TEST_CASE("a large slow-down ends the comparison at the first look") {
  Rig rig;
  SimulatedMachine machine(1, {.each = 0.01});
  const GateResult result = rig.compare(machine, Speeds{}.slower(0.2));
  CHECK(result.verdict == GateVerdict::regression);
  CHECK(result.baseline.runs == 8);
  CHECK(result.unit == GateUnit::pair);
  CHECK(result.seconds == doctest::Approx(18));
  CHECK(rig.order.size() == 18);
}

TEST_CASE("a steady drift of the machine is no change") {
  Rig rig;
  SimulatedMachine machine(2, {.each = 0.002, .drift = -0.3});
  CHECK(rig.compare(machine, {}).verdict == GateVerdict::no_change);
}

TEST_CASE("each block of two pairs has each side first and last") {
  Rig rig;
  rig.commands.warm_ups = 0;
  SimulatedMachine machine(3, {.each = 0.2});
  rig.compare(machine, {});
  REQUIRE(rig.order.size() == 40);
  bool both_orders = false;
  for (std::size_t at = 0; at < rig.order.size(); at += 4) {
    const std::string block = rig.order.substr(at, 4);
    CHECK((block == "BCCB" || block == "CBBC"));
    both_orders = both_orders || block != rig.order.substr(0, 4);
  }
  CHECK(both_orders);
}

TEST_CASE("a time budget ends the comparison and says so") {
  Rig rig;
  rig.commands.time_budget_seconds = 20;
  SimulatedMachine machine(4, {.each = 0.1});
  const GateResult result = rig.compare(machine, {});
  CHECK(*result.seconds <= 20);
  CHECK(result.baseline.runs == 9);
  CHECK(result.verdict == GateVerdict::cannot_tell);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].code == "time-budget-spent");
}

TEST_CASE("a time budget for one pair alone still gives a record") {
  Rig rig;
  rig.commands.time_budget_seconds = 0.1;
  SimulatedMachine machine(5, {});
  const GateResult result = rig.compare(machine, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(result.metrics[0].more.value_or(0) > 0);
}

TEST_CASE("two pairs at most are looked at once") {
  Rig rig;
  rig.commands.most_pairs = 2;
  SimulatedMachine machine(6, {.each = 0.001});
  CHECK(rig.compare(machine, Speeds{}.slower(0.5)).baseline.runs == 2);
}

TEST_CASE("commands that measure different things are refused after the warm-up") {
  Rig rig;
  SimulatedMachine machine(7, {});
  const auto runner = [&](GateSideName side) {
    rig.order += '.';
    ProfileResult profile = machine.run({}).profile;
    if (side == GateSideName::current) profile.settings.batch_size = 7;
    return profile;
  };
  CHECK_THROWS_WITH_AS(compare_commands(rig.commands, rig.options, runner, null_events(), {}, rig.timing), doctest::Contains("settings.batch_size"),
                       UsageError);
  CHECK(rig.order.size() == 2);
}

TEST_CASE("a stop ends it between runs, and what fails is passed on") {
  Rig rig;
  SimulatedMachine machine(8, {});
  int runs = 0;
  const auto runner = [&](GateSideName) {
    if (++runs == 3) rig.stop.request_stop();
    return machine.run({}).profile;
  };
  CHECK_THROWS_AS(compare_commands(rig.commands, rig.options, runner, null_events(), rig.stop.get_token(), rig.timing), Interrupted);
  CHECK(runs == 3);
  const auto failing = [](GateSideName) -> ProfileResult { throw Error("no disk"); };
  CHECK_THROWS_WITH_AS(compare_commands(rig.commands, rig.options, failing, null_events(), {}, rig.timing), "no disk", Error);
}

TEST_CASE("a pair with a run that is not trusted is run again") {
  Rig rig;
  SimulatedMachine machine(10, {.each = 0.002});
  int runs = 0;
  const auto runner = [&](GateSideName) {
    ProfileResult profile = machine.run({}).profile;
    profile.trusted = ++runs != 5;
    return profile;
  };
  const GateResult result = compare_commands(rig.commands, rig.options, runner, null_events(), {}, rig.timing);
  CHECK(result.verdict == GateVerdict::no_change);
  CHECK(runs == 2 * (1 + 8 + 1));
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].code == "pairs-repeated");
}

TEST_CASE("runs that are never trusted end the comparison undecided, and soon") {
  Rig rig;
  SimulatedMachine machine(11, {.each = 0.002});
  int runs = 0;
  const auto runner = [&](GateSideName) {
    ++runs;
    ProfileResult profile = machine.run({}).profile;
    profile.trusted = false;
    return profile;
  };
  const GateResult result = compare_commands(rig.commands, rig.options, runner, null_events(), {}, rig.timing);
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(result.metrics[0].reason.find("not trusted") != std::string::npos);
  CHECK(runs == 2 * (1 + 6));
}

TEST_CASE("a first pair without a metric on both sides ends the comparison with the reason") {
  GateOptions options;
  options.metrics = {"S"};
  int runs = 0;
  SimulatedMachine machine(12, {});
  ManualTiming timing;
  const auto without_storage = [&](GateSideName) {
    ++runs;
    ProfileResult profile = machine.run({}).profile;
    profile.storage.reset();
    return profile;
  };
  const GateCommands commands{.baseline = "old", .current = "new", .warm_ups = 0};
  const GateResult result = compare_commands(commands, options, without_storage, null_events(), {}, timing);
  CHECK(runs == 2);
  CHECK(result.verdict == GateVerdict::cannot_tell);
  REQUIRE(result.absent.size() == 1);
  CHECK(result.absent[0].reason.find("was not measured") != std::string::npos);
}

TEST_CASE("both commands are needed") {
  Rig rig;
  rig.commands.current = "  ";
  SimulatedMachine machine(9, {});
  CHECK_THROWS_WITH_AS(rig.compare(machine, {}), doctest::Contains("--current-command"), UsageError);
}
