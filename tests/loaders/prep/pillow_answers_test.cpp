#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/prep/prep.hpp"

using namespace dsanalyze;

namespace {

constexpr int side = 8;
constexpr std::size_t sample_bytes = std::size_t{side} * side * 3;

std::vector<std::byte> from_hexadecimal(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < text.size(); at += 2) bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(at, 2), nullptr, 16)));
  return bytes;
}

/// A file, and what Pillow makes of it for each crop; nothing where it refuses.
struct Answer {
  std::string name;
  std::vector<std::byte> file;
  std::array<std::vector<std::byte>, 2> values;
};

/// tests/bench/pixels_vs_pillow.py --freeze wrote them.
std::vector<Answer> pillow_answers() {
  std::ifstream lines(PILLOW_ANSWERS);
  std::vector<Answer> answers;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string file;
    std::string random;
    std::string centre;
    Answer& answer = answers.emplace_back();
    words >> answer.name >> file >> random >> centre;
    answer.file = from_hexadecimal(file);
    if (random != "refused") answer.values = {from_hexadecimal(random), from_hexadecimal(centre)};
  }
  return answers;
}

std::unique_ptr<Prep> prep_of(CropRule crop) {
  ImagePrepOptions options{.prep = {}, .dtype = DType::uint8, .layout = Layout::nhwc, .seed = 1, .crop = crop};
  options.prep.crop_size = side;
  return make_image_prep(options)->make();
}

int largest_difference(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  int most = 0;
  for (std::size_t at = 0; at < one.size(); ++at) most = std::max(most, std::abs(std::to_integer<int>(one[at]) - std::to_integer<int>(other[at])));
  return most;
}

}  // namespace

TEST_CASE("prep makes of each image what Pillow makes of it, within one level, and refuses what Pillow refuses") {
  const std::vector<Answer> answers = pillow_answers();
  REQUIRE(answers.size() > 100);
  for (const CropRule crop : {CropRule::random_resized, CropRule::centre}) {
    const auto prep = prep_of(crop);
    for (SampleId sample = 0; sample < answers.size(); ++sample) {
      const Answer& answer = answers[sample];
      CAPTURE(answer.name);
      CAPTURE(static_cast<int>(crop));
      const std::vector<std::byte>& expected = answer.values[crop == CropRule::centre ? 1 : 0];
      std::vector<std::byte> values(sample_bytes);
      const Status status = prep->prepare({answer.file, sample, 0, 0, values});
      CHECK(status.ok() == !expected.empty());
      if (!status.ok() || expected.empty()) continue;
      REQUIRE(expected.size() == sample_bytes);
      CHECK(largest_difference(values, expected) <= 1);
    }
  }
}

TEST_CASE("verifying refuses what Pillow refuses, and nothing else") {
  ImageChecker images;
  int refused = 0;
  for (const Answer& answer : pillow_answers()) {
    CAPTURE(answer.name);
    std::uint64_t pixels = 0;
    const std::string cause = images.check(answer.file, pixels);
    CHECK(cause.empty() == !answer.values[0].empty());
    CHECK((pixels > 0) == cause.empty());
    refused += cause.empty() ? 0 : 1;
  }
  CHECK(refused > 10);
}
