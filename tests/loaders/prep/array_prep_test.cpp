#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "base/error.hpp"
#include "loaders/prep/prep.hpp"

using namespace dsanalyze;

namespace {

TensorShape tensor_of(const std::string& dtype, std::vector<std::uint64_t> shape, Bytes sample_bytes) {
  return make_array_prep({dtype, std::move(shape), sample_bytes})->tensor(5);
}

void check_tensor(const TensorShape& tensor, DType dtype, std::vector<std::int64_t> shape) {
  CHECK(tensor.dtype == dtype);
  REQUIRE(tensor.dimensions == shape.size());
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) CHECK(tensor.shape[dimension] == shape[dimension]);
}

}  // namespace

TEST_CASE("arrays of bytes and of floats keep their dimensions, up to three of them") {
  check_tensor(tensor_of("|u1", {224, 224, 3}, 150528), DType::uint8, {5, 224, 224, 3});
  check_tensor(tensor_of("<f4", {3, 8, 6}, 576), DType::float32, {5, 3, 8, 6});
  check_tensor(tensor_of("<f4", {17}, 68), DType::float32, {5, 17});
  check_tensor(tensor_of("<f4", {}, 4), DType::float32, {5, 1});
  check_tensor(tensor_of("<f4", {2, 3, 4, 5}, 480), DType::float32, {5, 120});
  check_tensor(tensor_of("|u1", {2, 3, 4, 5}, 120), DType::uint8, {5, 120});
}

TEST_CASE("arrays of other types come as their bytes") {
  check_tensor(tensor_of("<i2", {10, 10}, 200), DType::uint8, {5, 200});
  check_tensor(tensor_of("<f8", {3}, 24), DType::uint8, {5, 24});
  check_tensor(tensor_of("|b1", {3}, 3), DType::uint8, {5, 3});
  check_tensor(tensor_of("<c16", {3}, 48), DType::uint8, {5, 48});
}

TEST_CASE("arrays that cannot be handed on are refused, with what they are") {
  CHECK_THROWS_WITH_AS(tensor_of(">f4", {3}, 12), doctest::Contains("big-endian"), UsageError);
  CHECK_THROWS_WITH_AS(tensor_of("|O", {3}, 24), doctest::Contains("'|O'"), UsageError);
  CHECK_THROWS_AS(tensor_of("<U8", {3}, 96), UsageError);
  CHECK_THROWS_AS(tensor_of("<f3", {3}, 9), UsageError);
  CHECK_THROWS_AS(tensor_of("", {3}, 3), UsageError);
  CHECK_THROWS_AS(tensor_of("<f4", {0, 3}, 0), UsageError);
  CHECK_THROWS_WITH_AS(tensor_of("<f4", {3}, 13), doctest::Contains("found 13"), UsageError);
  CHECK_THROWS_WITH_AS(tensor_of("<f4", {1ULL << 40, 1ULL << 40}, 0), doctest::Contains("too large"), UsageError);
}

TEST_CASE("an array is copied as it is, and one of another length is corrupt") {
  const auto factory = make_array_prep({"|u1", {2, 3}, 6});
  CHECK(factory->operator_names() == std::vector<std::string_view>{"copy"});
  const auto prep = factory->make();
  const std::array sample{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}, std::byte{6}, std::byte{7}};
  std::vector<std::byte> output(6);
  REQUIRE(prep->prepare({std::span(sample).first(6), 0, 0, 0, output}).ok());
  CHECK(std::equal(output.begin(), output.end(), sample.begin()));
  CHECK(prep->prepare({std::span(sample).first(5), 0, 0, 0, output}).code == StatusCode::corrupt);
  CHECK(prep->prepare({sample, 0, 0, 0, output}).code == StatusCode::corrupt);
  CHECK(prep->prepare({{}, 0, 0, 0, output}).code == StatusCode::corrupt);
  CHECK(prep->operator_times().size() == 1);
}
