#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>

#include "core/cache_policy/page_cache_forms.hpp"
#include "datasets.hpp"
#include "readers.hpp"
#include "rows.hpp"

using namespace dsanalyze;
using namespace dsanalyze::fidelity;

namespace {

const char* const shuffled_random = "random replacement, new order each epoch, replayed";

}  // namespace

TEST_CASE("Table 6: DALI-shuffle misses 53 % at 65 % cached and reads 340 GB") {
  const double missed = one_job_misses(ReplayPolicy::page_model_random, 0.65, OrderKind::random);
  check("page cache", "Table 6, section 5.1", "DALI-shuffle, misses at 65 % cached", 0.53, missed, percent(), within(0.03), shuffled_random);
  check("page cache", "Table 6", "DALI-shuffle, disk I/O", 340, missed * open_images_gb, {"GB", 0}, within_share(0.03), "of 645 GB");
  check("page cache", "Table 6", "the same by m = c ln(c + (1 - c) e^(1/c))", 0.53, random_replacement_misses(0.65), percent(2), within(0.03),
        "exact for the policy that is replayed");
  check("page cache", "Table 6", "the same by 1 - m = ((1 - e^(-m/c)) / (m/c))^2", 0.53, random_replacement_misses_even(0.65), percent(2),
        within(0.03), "takes misses to be spread evenly");
}

TEST_CASE("Section 3.3.1: the page cache misses about 85 % at 35 % cached, 125 GiB of 146") {
  const double missed = one_job_misses(ReplayPolicy::page_model_random, 0.35, OrderKind::random);
  check("page cache", "Section 3.3.1", "misses at 35 % cached (65 % and 20 % thrashing)", 0.85, missed, percent(), within(0.03), shuffled_random);
  check("page cache", "Section 3.3.1", "the same by m = c ln(c + (1 - c) e^(1/c))", 0.85, random_replacement_misses(0.35), percent(2), within(0.03),
        "");
  check("page cache", "Section 3.3.1", "the same by 1 - m = ((1 - e^(-m/c)) / (m/c))^2", 0.85, random_replacement_misses_even(0.35), percent(2),
        within(0.03), "");
  check("page cache", "Section 3.3.1", "one job reads", 125, missed * 146, {"GiB", 1}, within_share(0.03), "of 146 GiB");
}

TEST_CASE("the kernel's own policy at the papers' sizes: Table 6's 53 % of 645 GB, but less than section 3.3.1's 85 % of 146 GiB") {
  check("page cache", "Table 6, section 5.1", "DALI-shuffle, misses at 65 % cached, by the model of Linux", 0.53,
        one_job_misses_of(ReplayPolicy::page_model_linux, 0.65, Bytes{645'000'000'000}), percent(), within(0.03),
        "page-model:linux, 645 GB in 50,000 items, replayed; the age of its counters, a 128th of the cache, is chosen and not fitted on this");
  check("page cache", "Section 3.3.1", "misses at 35 % cached, by the model of Linux", 0.85,
        one_job_misses_of(ReplayPolicy::page_model_linux, 0.35, Bytes{146} << 30), percent(), reported(),
        "page-model:linux, 146 GiB in 50,000 items, replayed: not reached");
}

TEST_CASE("Table 6: MinIO misses 35 % at 65 % cached, reads 225 GB, and saves a third of DALI-shuffle's reading") {
  const double missed = one_job_misses(ReplayPolicy::minio, 0.65, OrderKind::random);
  check("page cache", "Table 6, section 5.1", "MinIO, misses at 65 % cached", 0.35, missed, percent(), within(0.0005), "replayed");
  check("page cache", "Table 6", "MinIO, disk I/O", 225, missed * open_images_gb, {"GB", 0}, within_share(0.01), "of 645 GB");
  check("page cache", "App. D.2", "MinIO's disk I/O below DALI-shuffle's", 0.33, 1 - missed / random_replacement_misses(0.65), percent(),
        within(0.03), "");
  CHECK(std::abs(one_job_misses(ReplayPolicy::minio, 0.35, OrderKind::random) - 0.65) < 0.0005);
}

TEST_CASE("Table 6: DALI-seq's 66 % is not reached: in file order random replacement misses 61 %, LRU all") {
  const double missed = one_job_misses(ReplayPolicy::page_model_random, 0.65, OrderKind::sequential);
  check("page cache", "Table 6, section 5.1", "DALI-seq, misses at 65 % cached", 0.66, missed, percent(), reported(),
        "random replacement, same order each epoch, replayed: not reached");
  check("page cache", "Table 6", "DALI-seq, disk I/O", 422, missed * open_images_gb, {"GB", 0}, within_share(0.1), "of 645 GB");
  CHECK(one_job_misses(ReplayPolicy::lru, 0.65, OrderKind::sequential) == 1);
}

TEST_CASE("Table 3: records in the same order each epoch miss 94 % at 35 % cached and 97 % at 25 %") {
  struct Line {
    double cached, paper;
    Allowed allowed;
  };
  for (const Line& line : {Line{0.25, 0.97, within(0.02)}, Line{0.35, 0.94, within(0.02)}, Line{0.50, 0.91, reported()}}) {
    const std::string at = std::to_string(static_cast<int>(100 * line.cached)) + " % cached";
    const double missed = one_job_misses(ReplayPolicy::page_model_random, line.cached, OrderKind::sequential);
    check("page cache", "Table 3", "TFRecord, misses at " + at, line.paper, missed, percent(), line.allowed,
          std::string("random replacement, same order each epoch, replayed") + (line.cached == 0.50 ? ": not reached" : ""));
    CHECK(std::abs(missed - random_replacement_misses_in_order(line.cached)) < 0.005);
  }
}

TEST_CASE("both closed forms of random replacement are near the policy, and the one that counts an epoch's beginning is it") {
  for (const double cached : {0.25, 0.35, 0.5, 0.65}) {
    CAPTURE(cached);
    const double replayed = one_job_misses(ReplayPolicy::page_model_random, cached, OrderKind::random);
    CHECK(std::abs(random_replacement_misses(cached) - replayed) < 0.002);
    CHECK(std::abs(random_replacement_misses_even(cached) - replayed) < 0.004);
    CHECK(random_replacement_misses_even(cached) > random_replacement_misses(cached));
  }
  check("forms", "Core", "hits at 25 % cached by the exact form, against the replay",
        1 - one_job_misses(ReplayPolicy::page_model_random, 0.25, OrderKind::random), 1 - random_replacement_misses(0.25), percent(2), within(0.002),
        "");
  check("forms", "Core", "the same by the squared form", 1 - one_job_misses(ReplayPolicy::page_model_random, 0.25, OrderKind::random),
        1 - random_replacement_misses_even(0.25), percent(2), within(0.004), "");
}
