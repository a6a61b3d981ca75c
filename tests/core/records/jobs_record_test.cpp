#include "core/records/jobs_record.hpp"

#include <doctest/doctest.h>

using namespace dsanalyze;

namespace {

/// A job that trained on 100 samples an epoch and prepared so many of each.
JobRecord job_that_prepared(const std::vector<std::uint64_t>& prepared) {
  JobRecord job;
  for (const std::uint64_t samples : prepared) {
    job.epochs.push_back({job.epochs.size(), 1, 100, "", samples});
    job.samples += 100;
  }
  return job;
}

}  // namespace

TEST_CASE("how often a sample was prepared: by each job for itself, or once for all, whichever job did how much") {
  CHECK(preparations_per_sample({job_that_prepared({100, 100}), job_that_prepared({100, 100})}, 999) == 2);
  CHECK(preparations_per_sample({job_that_prepared({50, 40}), job_that_prepared({50, 60})}, 999) == 1);
  CHECK(preparations_per_sample({job_that_prepared({60}), job_that_prepared({50})}, 999) == doctest::Approx(1.1));
}

TEST_CASE("epochs that not all jobs trained to their end do not count") {
  CHECK(preparations_per_sample({job_that_prepared({50, 70, 100}), job_that_prepared({50})}, 999) == 1);
}

TEST_CASE("where no job prepared, or none got through an epoch, what all processes prepared counts") {
  CHECK(preparations_per_sample({job_that_prepared({0, 0}), job_that_prepared({0})}, 204) == doctest::Approx(1.02));
  JobRecord short_one;
  short_one.samples = 10;
  CHECK(preparations_per_sample({short_one, JobRecord{}}, 12) == doctest::Approx(1.2));
  CHECK(preparations_per_sample({JobRecord{}}, 12) == 0);
  CHECK(preparations_per_sample({}, 0) == 0);
}
