#include <doctest/doctest.h>

#include <cmath>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"

using namespace dsanalyze;

namespace {

DatasetSpec spec_of(std::uint64_t samples, Bytes mean_bytes, double deviation) {
  DatasetSpec spec;
  spec.name = "photos";
  spec.samples = samples;
  spec.mean_sample_bytes = mean_bytes;
  spec.sample_bytes_deviation = deviation;
  return spec;
}

}  // namespace

TEST_CASE("an emulated dataset has the mean and spread of its spec, and the same sizes for the same seed") {
  const DatasetSpec spec = spec_of(200'000, 115'000, 0.5);
  const auto index = make_emulated_index(spec, 0, 1, 3);
  CHECK(index->size() == 200'000);
  const double mean = static_cast<double>(index->bytes()) / index->size();
  CHECK(mean == doctest::Approx(115'000).epsilon(0.01));
  double squares = 0;
  for (const IndexRecord& record : index->records()) squares += std::pow(static_cast<double>(record.length) - mean, 2);
  CHECK(std::sqrt(squares / index->size()) / mean == doctest::Approx(0.5).epsilon(0.03));
  CHECK(index->facts().root == "emulated:photos");
  CHECK(index->facts().format == "emulated");
  CHECK(index->labels().size() == 1000);
  CHECK((*index)[199'999].label == 999);
  CHECK(dataset_digest(*make_emulated_index(spec, 0, 1, 3)) == dataset_digest(*index));
  CHECK(dataset_digest(*make_emulated_index(spec, 0, 1, 4)) != dataset_digest(*index));
}

TEST_CASE("scaling an emulated dataset divides its bytes and keeps its samples") {
  const DatasetSpec spec = spec_of(1000, 100'000, 0.3);
  const auto whole = make_emulated_index(spec, 0, 1, 1);
  const auto small = make_emulated_index(spec, 0, 1000, 1);
  CHECK(small->size() == whole->size());
  CHECK(static_cast<double>(small->bytes()) == doctest::Approx(static_cast<double>(whole->bytes()) / 1000).epsilon(0.01));
  CHECK(make_emulated_index(spec, 0, 1e9, 1)->bytes() == 1000);
  CHECK(make_emulated_index(spec, 10, 1, 1)->size() == 10);
  CHECK((*make_emulated_index(spec, 10, 1, 1))[3].length == (*whole)[3].length);
}

TEST_CASE("an emulated dataset that cannot be is refused") {
  const DatasetSpec spec = spec_of(10, 100, 0);
  CHECK_THROWS_AS(make_emulated_index(spec, 0, 0, 1), UsageError);
  CHECK_THROWS_AS(make_emulated_index(spec, 0, NAN, 1), UsageError);
  CHECK_THROWS_AS(make_emulated_index(spec, std::uint64_t{1} << 33, 1, 1), UsageError);
  CHECK_THROWS_AS(make_emulated_index(spec_of(10, 0, 0), 0, 1, 1), UsageError);
  CHECK_THROWS_AS(make_emulated_index(spec_of(0, 10, 0), 0, 1, 1), UsageError);
}
