#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "../base/texts.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "made_training.hpp"

// A training that is measured on fewer cores once all phases are over.

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

/// That is led through the phases on two cores, and once more on one.
struct OnFewerCores {
  Training training;
  Notes notes;
  int asked = 0;               ///< times that the cores were restricted
  std::vector<int> cpus{};     ///< to which
  std::size_t escaped = 0;     ///< threads that had others in the end
  std::vector<int> all{4, 6};  ///< that the training may use
  bool refused = false;
  double used = 0.1;  ///< of a core, by the training
  Conductor::Plan plan;

  OnFewerCores() {
    plan.seconds = 60;
    plan.worker_counts = {1, 2};
    plan.fewer_cores = 1;
    training.on_fewer_cores = 0.016;
  }
  Conductor conductor() {
    plan.restrict_to = [this](const std::vector<int>& given) -> std::optional<std::size_t> {
      ++asked;
      if (refused) return std::nullopt;
      cpus = given;
      return std::exchange(training.restricted, true) ? escaped : 5;
    };
    const auto use = [this] {
      TreeUse so_far;
      so_far.at = training.now;
      so_far.cpu_seconds = used * to_seconds(training.now);
      return so_far;
    };
    Conductor made(plan, use, notes);
    if (all.empty()) return made;
    DeviceMessage device;
    device.cpus = all;
    made.receive(0, device, 0);
    return made;
  }
};

}  // namespace

TEST_CASE("in the end the training as found is measured on fewer cores, and what was found on all of them stays") {
  OnFewerCores made;
  Conductor conductor = made.conductor();
  made.training.run(conductor);
  CHECK(conductor.finished());
  CHECK(made.asked == 2);  // And looked at in the end.
  CHECK(made.cpus == std::vector<int>{4});
  CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(3200));
  REQUIRE(conductor.training().on_fewer_cores);
  CHECK(conductor.training().on_fewer_cores->steady);
  CHECK(estimate_of_ratio(stretches_of(*conductor.training().on_fewer_cores)).value == doctest::Approx(2000));
  CHECK(made.notes.lines.back() == "as found, on 1 core: 2000.0 samples/s");
  CHECK(made.notes.lines.at(made.notes.lines.size() - 2) == "prep, on 1 core: 6400.0 with 2 workers, 6400.0 with 1 worker samples/s");
  CHECK(made.training.members.at(0).ended);
}

TEST_CASE("before that, its loader is drained there, with the numbers of workers that share its cores") {
  const auto drained = [](auto&& change) {
    OnFewerCores made;
    made.plan.seconds = 120;
    made.training.drains_in_time = true;
    change(made);
    Conductor conductor = made.conductor();
    const Nanoseconds begun = made.training.now;
    made.training.run(conductor);
    CHECK(conductor.finished());
    CHECK(conductor.training().on_fewer_cores);
    CHECK(made.asked == 2);
    CHECK(to_seconds(made.training.now - begun) < made.plan.seconds);
    std::vector<int> workers;
    for (const DrainMeasurement& drain : conductor.training().drains_on_fewer_cores) {
      CHECK_FALSE(drain.by_rank.empty());
      workers.push_back(drain.workers);
    }
    return workers;
  };
  using Workers = std::vector<int>;
  CHECK(drained([](OnFewerCores& /*as it is*/) {}) == Workers{2, 1});
  const auto on_four = [](OnFewerCores& made) {
    made.all = {0, 1, 2, 3};
    made.plan.fewer_cores = 2;
    made.plan.worker_counts = {1, 2, 4, 8};
  };
  CHECK(drained(on_four) == Workers{2, 8});
  CHECK(drained([](OnFewerCores& made) { made.plan.worker_counts = {1, 2, 4, 8}; }) == Workers{2, 1, 8});
  // What is not sure is drained again, as long as its share lasts.
  const Workers unsure = drained([](OnFewerCores& made) { made.training.drained_spread = 0.3; });
  CHECK(unsure.size() > 2);
  CHECK(std::ranges::count(unsure, 1) >= 1);
  // A drain that fails there is not repeated, and one that failed on all cores is not tried.
  CHECK(drained([](OnFewerCores& made) {
          made.training.drained_spread = 0.3;
          made.training.until = [&training = made.training] {
            training.drained_error = training.restricted ? "RuntimeError: no more" : "";
            return false;
          };
        }) == Workers{2, 1});
  CHECK(drained([](OnFewerCores& made) { made.training.drained_error = "RuntimeError: no more"; }).empty());
  // Where two batches of each worker take too long, the training as found counts for more.
  CHECK(drained([](OnFewerCores& made) { made.training.drained = 9; }).empty());
}

TEST_CASE("no cores are taken from a training of which that would say nothing, nor where there is no time") {
  const auto tried = [](auto&& change) {
    OnFewerCores made;
    change(made);
    Conductor conductor = made.conductor();
    made.training.run(conductor);
    CHECK(conductor.finished());
    CHECK_FALSE(conductor.training().out_of_time);
    CHECK_FALSE((conductor.training().on_fewer_cores && !made.training.restricted));
    return made.asked;
  };
  CHECK(tried([](OnFewerCores& /*as it is*/) {}) == 2);
  CHECK(tried([](OnFewerCores& made) { made.plan.fewer_cores = 0; }) == 0);
  CHECK(tried([](OnFewerCores& made) { made.training.ranks = 2; }) == 0);
  CHECK(tried([](OnFewerCores& made) { made.used = 0.9; }) == 0);         // Its steps compute on cores.
  CHECK(tried([](OnFewerCores& made) { made.plan.seconds = 15; }) == 0);  // Too short a time budget.
  CHECK(tried([](OnFewerCores& made) { made.all = {3}; }) == 0);          // It is restricted already.
  CHECK(tried([](OnFewerCores& made) { made.all.clear(); }) == 0);
  CHECK(tried([](OnFewerCores& made) { made.refused = true; }) == 1);
}

TEST_CASE("what is measured on fewer cores ends with the time budget, however little the other phases left") {
  for (const double drained : {1.0, 7.0, 8.0, 9.0}) {
    CAPTURE(drained);
    OnFewerCores made;
    made.training.drained = drained;  // seconds a batch, so that drains last longer than they should
    made.training.batches = 1'000'000;
    made.training.on_fewer_cores = 0.4;
    made.training.spread = 1;  // No rate is ever sure, of steps or of drains.
    made.training.drains_in_time = true;
    made.training.drained_spread = 0.3;
    Conductor conductor = made.conductor();
    const Nanoseconds begun = made.training.now;
    made.training.run(conductor);
    CHECK(conductor.training().on_fewer_cores);
    constexpr double windows = 4;  // of steps that are begun then
    CHECK(to_seconds(made.training.now - begun) < made.plan.seconds + windows);
  }
}

TEST_CASE("short passes are measured on fewer cores, too, those of a stream after its drains") {
  for (const LoaderRecord::Style style : {LoaderRecord::Style::map, LoaderRecord::Style::iterable}) {
    OnFewerCores made;
    made.training.batches = 20;
    made.training.style = style;
    Conductor conductor = made.conductor();
    made.training.run(conductor);
    CHECK(conductor.finished());
    CHECK(conductor.training().cached_not_separable == (style == LoaderRecord::Style::iterable));
    REQUIRE(conductor.training().on_fewer_cores);
    CHECK(conductor.training().on_fewer_cores->passes);
    CHECK(estimate_of_ratio(stretches_of(*conductor.training().on_fewer_cores)).value == doctest::Approx(2000));
  }
}

TEST_CASE("where workers chose other cores meanwhile, what was measured is dropped") {
  OnFewerCores made;
  made.escaped = 1;
  Conductor conductor = made.conductor();
  made.training.run(conductor);
  CHECK(conductor.finished());
  CHECK_FALSE(conductor.training().on_fewer_cores);
  CHECK(conductor.training().drains_on_fewer_cores.empty());
  CHECK_FALSE(says(made.notes.lines.back(), "as found, on 1 core"));
}

TEST_CASE("the end of an epoch ends what is measured on fewer cores, before the script validates there") {
  for (const std::uint64_t left : {3, 900}) {
    CAPTURE(left);
    OnFewerCores made;
    made.training.batches = 100'000;
    Conductor conductor = made.conductor();
    // Once it has fewer cores, so many steps of the epoch are left.
    made.training.until = [&made, left] {
      Training::Rank& rank = made.training.members.at(0);
      if (made.training.restricted && rank.step < made.training.batches - left && rank.epoch == 0) made.training.batches = rank.step + left;
      return false;
    };
    made.training.run(conductor);
    CHECK(conductor.finished());
    CHECK(made.training.members.at(0).ended);
    CHECK(conductor.training().on_fewer_cores.has_value() == (left > 100));
    CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(4000));
  }
}

TEST_CASE("what is measured on fewer cores goes on over the ends of epochs that are known to pause briefly") {
  for (const double pause : {0.05, 3.0}) {
    CAPTURE(pause);
    OnFewerCores made;
    made.training.batches = 100;
    EpochGap gap;
    gap.end = to_nanoseconds(pause);
    made.training.gap = gap;
    Conductor conductor = made.conductor();
    made.training.run(conductor);
    CHECK(conductor.finished());
    REQUIRE(made.training.restricted);
    const auto& measured = conductor.training().on_fewer_cores;
    const auto windows = measured ? estimate_of_ratio(stretches_of(*measured)).windows : 0;
    CHECK((windows >= 3) == (pause < 1));
  }
}

namespace {

/// The two moments at which something may go wrong there: while the loader is drained, and while the training is measured.
enum class Moment { drain, found };

/// Stops a training at one of them.
void stop_at(Moment moment, OnFewerCores& made, const Conductor& conductor) {
  made.training.until = [&made, &conductor, moment] {
    return moment == Moment::drain ? made.training.restricted : conductor.training().on_fewer_cores.has_value();
  };
}

}  // namespace

TEST_CASE("what fails on fewer cores takes nothing from what was measured before") {
  for (const Moment moment : {Moment::drain, Moment::found}) {
    OnFewerCores made;
    Conductor conductor = made.conductor();
    CHECK_FALSE(conductor.give_up_fewer_cores("too early"));
    CHECK(conductor.training().notes.empty());
    stop_at(moment, made, conductor);
    made.training.run(conductor);
    REQUIRE_FALSE(conductor.finished());
    CHECK_THROWS_AS(conductor.receive(0, OffMessage{"it cannot be followed"}, made.training.now), const Error&);
    CHECK(conductor.give_up_fewer_cores("it failed"));
    REQUIRE(conductor.training().notes.size() == 1);
    CHECK(conductor.training().notes[0].code == "fewer-cores-not-measured");
    CHECK(conductor.training().notes[0].text == "the training was not measured on 1 core: it failed");
    CHECK(made.notes.lines.back() == conductor.training().notes[0].text);
    CHECK(conductor.finished());
    CHECK_FALSE(conductor.training().on_fewer_cores);
    CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(4000));
    CHECK(conductor.training().drains_on_fewer_cores.size() == (moment == Moment::found ? 2 : 1));
    CHECK_FALSE(conductor.give_up_fewer_cores("twice"));
  }
}

TEST_CASE("where no checkpoint comes on fewer cores, the profile ends without them") {
  for (const Moment moment : {Moment::drain, Moment::found}) {
    OnFewerCores made;
    Conductor conductor = made.conductor();
    stop_at(moment, made, conductor);
    made.training.run(conductor);
    conductor.tick(made.training.now + to_nanoseconds(17));  // Thrice its share of 60 s are 18 s.
    CHECK_FALSE(conductor.finished());
    conductor.tick(made.training.now + to_nanoseconds(19));
    CHECK(conductor.finished());
    CHECK_FALSE(conductor.training().on_fewer_cores);
  }
}

TEST_CASE("where the time budget is nearly used up, what stands still on fewer cores is not waited for as long") {
  OnFewerCores made;
  made.training.batches = 1'000'000;
  made.training.on_fewer_cores = 0.4;
  made.training.spread = 1;  // No rate is ever sure, of steps or of drains: the phases before use all of their time.
  made.training.drains_in_time = true;
  made.training.drained_spread = 0.3;
  Conductor conductor = made.conductor();
  const Nanoseconds begun = made.training.now;
  stop_at(Moment::found, made, conductor);
  made.training.run(conductor);
  REQUIRE_FALSE(conductor.finished());
  const double share = 6;
  REQUIRE(to_seconds(made.training.now - begun) + 3 * share > made.plan.seconds + share + 2);  // It may last thrice its share.
  conductor.tick(begun + to_nanoseconds(made.plan.seconds + share - 1));
  CHECK_FALSE(conductor.finished());
  conductor.tick(begun + to_nanoseconds(made.plan.seconds + share + 1));
  CHECK(conductor.finished());
}

TEST_CASE("a script that ends on fewer cores has gone through all phases") {
  for (const Moment moment : {Moment::drain, Moment::found}) {
    OnFewerCores made;
    Conductor conductor = made.conductor();
    stop_at(moment, made, conductor);
    made.training.run(conductor);
    REQUIRE(made.training.restricted);
    CHECK_FALSE(conductor.finished());
    CHECK_NOTHROW(conductor.leave(0, made.training.now));
    CHECK(conductor.finished());
    CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(4000));
    REQUIRE(conductor.training().notes.size() == 1);
    CHECK(conductor.training().notes[0].text == "the training was not measured on 1 core: it ended suddenly there");
  }
}

TEST_CASE("why a script ended on fewer cores is told, where it said so") {
  for (const std::string error : {"", "RuntimeError: no more"}) {
    OnFewerCores made;
    Conductor conductor = made.conductor();
    stop_at(Moment::found, made, conductor);
    made.training.run(conductor);
    ByeMessage bye;
    bye.error = error.empty() ? error : error + "\x1b[2J";
    conductor.receive(0, bye, made.training.now);
    conductor.leave(0, made.training.now);
    REQUIRE(conductor.training().notes.size() == 1);
    CHECK(says(conductor.training().notes[0].text, error.empty() ? "it came to its end there" : error));
    CHECK(made.notes.lines.back().find('\x1b') == std::string::npos);
  }
}
