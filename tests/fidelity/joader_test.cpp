#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "datasets.hpp"
#include "models/whatif/sharing.hpp"
#include "rows.hpp"

using namespace dsanalyze;
using namespace dsanalyze::fidelity;

namespace {

// [JOADER, Table 1]: minutes an epoch of 1 to 6 ResNet18 jobs, PyTorch's own loader, CoorDL and JOADER.
constexpr std::array<double, 6> baseline{31.74, 35.01, 40.04, 52.11, 57.67, 67.85};
constexpr std::array<double, 6> coordl{32.82, 31.73, 32.73, 34.76, 35.28, 37.98};
constexpr std::array<double, 6> joader{32.70, 32.49, 33.72, 36.32, 37.44, 37.55};

constexpr double joader_batch = 256;

struct Fit {
  double exponent = 0;           ///< how well training and prep overlap
  double training_minutes = 0;   ///< of one job, alone
  double prep_minutes = 0;       ///< of one sweep over the dataset, all cores
  double hand_over_seconds = 0;  ///< a batch
};

/// T(n)^k = training^k + (n prep)^k through the columns 1 to 3 of the independent jobs: three numbers, three parameters.
Fit fit_independent() {
  const auto prep_to_the_k = [](std::size_t jobs, double k) {
    return (std::pow(baseline[jobs - 1], k) - std::pow(baseline[0], k)) / (std::pow(jobs, k) - 1);
  };
  double low = 1;
  double high = 10;
  for (int step = 0; step < 60; ++step) {
    const double k = (low + high) / 2;
    (prep_to_the_k(2, k) < prep_to_the_k(3, k) ? low : high) = k;
  }
  const double prep = prep_to_the_k(3, low);
  return {low, std::pow(std::pow(baseline[0], low) - prep, 1 / low), std::pow(prep, 1 / low), 0};
}

JobsSetup setup_of(const Fit& fit, std::uint32_t jobs, JobSharing sharing) {
  JobsSetup setup;
  constexpr double nothing = std::numeric_limits<double>::infinity();  // "the I/O speed is not the bottleneck" [JOADER, section 5]
  setup.rates = {imagenet_samples / (60 * fit.training_minutes), imagenet_samples / (60 * fit.prep_minutes), nothing, nothing};
  setup.jobs = jobs;
  setup.sharing = sharing;
  setup.cache_fraction = 1;
  setup.batch_samples = joader_batch;
  setup.hand_over_seconds = fit.hand_over_seconds;
  setup.overlap_exponent = fit.exponent;
  return setup;
}

double minutes(const Fit& fit, std::uint32_t jobs, JobSharing sharing) {
  return imagenet_samples / answer_jobs(setup_of(fit, jobs, sharing)).samples_per_s_per_job / 60;
}

/// The hand-over of JOADER, a batch, so that 2 and 3 jobs' mean is the table's.
Fit fit_sharing() {
  Fit fit = fit_independent();
  double low = 0;
  double high = 1;
  for (int step = 0; step < 60; ++step) {
    fit.hand_over_seconds = (low + high) / 2;
    const double mean = (minutes(fit, 2, JobSharing::coordinated) + minutes(fit, 3, JobSharing::coordinated)) / 2;
    (mean < (joader[1] + joader[2]) / 2 ? low : high) = fit.hand_over_seconds;
  }
  return fit;
}

}  // namespace

TEST_CASE("JOADER Table 1: independent jobs grow, fitted on 1 to 3 jobs and tested on 4 to 6") {
  const Fit fit = fit_independent();
  CHECK(fit.exponent == doctest::Approx(2).epsilon(0.1));
  for (const std::uint32_t jobs : {1U, 2U, 3U}) CHECK(minutes(fit, jobs, JobSharing::none) == doctest::Approx(baseline[jobs - 1]).epsilon(1e-6));
  for (const std::uint32_t jobs : {4U, 5U, 6U}) {
    check("dependent", "[JOADER] Table 1", std::to_string(jobs) + " independent jobs, an epoch", baseline[jobs - 1],
          minutes(fit, jobs, JobSharing::none), {"min", 1}, within_share(0.15),
          "training, prep and how they overlap fitted on 1 to 3 jobs of the same line");
    CHECK(minutes(fit, jobs, JobSharing::none) > minutes(fit, jobs - 1, JobSharing::none));
  }
}

TEST_CASE("JOADER Table 1: sharing jobs stay flat, fitted on 1 to 3 jobs and tested on 4 to 6") {
  const Fit fit = fit_sharing();
  for (const std::uint32_t jobs : {4U, 5U, 6U}) {
    check("dependent", "[JOADER] Table 1", std::to_string(jobs) + " sharing jobs, an epoch", joader[jobs - 1],
          minutes(fit, jobs, JobSharing::coordinated), {"min", 1}, within_share(0.15),
          "the independent jobs' fit, and a hand-over fitted on 2 and 3 sharing jobs");
    check("dependent", "[JOADER] Table 1", std::to_string(jobs) + " jobs with CoorDL, an epoch", coordl[jobs - 1],
          minutes(fit, jobs, JobSharing::coordinated), {"min", 1}, within_share(0.15), "the same prediction: nothing is fitted on this line");
    CHECK(minutes(fit, jobs, JobSharing::coordinated) == doctest::Approx(minutes(fit, 2, JobSharing::coordinated)));
  }
}

TEST_CASE("JOADER Table 1: six sharing jobs take 44.7 % less time than six independent ones, within 3 points") {
  const Fit fit = fit_sharing();
  const double saved = 1 - minutes(fit, 6, JobSharing::coordinated) / minutes(fit, 6, JobSharing::none);
  check("dependent", "[JOADER] Table 1", "6 jobs, time saved by sharing", 1 - joader[5] / baseline[5], saved, percent(), within(0.03),
        "both fits, of 1 to 3 jobs");
}

TEST_CASE("JOADER Table 1: the bottleneck rule alone overshoots what six jobs lose") {
  Fit rule{std::numeric_limits<double>::infinity(), baseline[0], baseline[2] / 3, 0};
  const double saved = 1 - minutes(rule, 6, JobSharing::coordinated) / minutes(rule, 6, JobSharing::none);
  check("dependent", "[JOADER] Table 1", "the same by the bottleneck rule", 1 - joader[5] / baseline[5], saved, percent(), reported(),
        "training of 1 job and prep of 3: stages that overlap perfectly");
  CHECK(saved > 0.5);
}
