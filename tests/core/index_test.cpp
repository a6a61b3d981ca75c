#include "core/index.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"

using namespace dsanalyze;

namespace {

struct Sample {
  std::string path;
  std::uint64_t bytes;
  std::uint32_t label;
};

std::shared_ptr<const DatasetIndex> index_of(const std::vector<Sample>& samples, DatasetIndex::Facts facts = {}) {
  DatasetIndexBuilder builder;
  builder.add_label("cat");
  builder.add_label("dog");
  for (const Sample& sample : samples) builder.add_sample({0, sample.bytes, builder.add_file(sample.path), sample.label});
  return std::move(builder).build(std::move(facts));
}

const std::vector<Sample> three{{"cat/a.jpg", 10, 0}, {"cat/b.jpg", 20, 0}, {"dog/c.jpg", 30, 1}};

}  // namespace

TEST_CASE("a built index gives back files, records and labels") {
  const auto index = index_of(three);
  REQUIRE(index->size() == 3);
  CHECK(index->file_count() == 3);
  CHECK(index->file_path(0) == "cat/a.jpg");
  CHECK(index->file_path(2) == "dog/c.jpg");
  CHECK(index->file_path(3).empty());
  CHECK((*index)[1].length == 20);
  CHECK((*index)[2].label == 1);
  CHECK(index->labels() == std::vector<std::string>{"cat", "dog"});
  CHECK(index->bytes() == 60);
}

TEST_CASE("facts that follow from the records are filled in, and given ones are kept") {
  const auto filled = index_of(three);
  CHECK(filled->facts().total_samples == 3);
  CHECK(filled->facts().total_bytes == 60);
  CHECK(filled->facts().digest == dataset_digest(*filled));
  CHECK(filled->facts().digest.size() == 32);

  DatasetIndex::Facts facts;
  facts.total_samples = 1000;
  facts.total_bytes = 5000;
  facts.digest = "sampled:1";
  const auto given = index_of(three, facts);
  CHECK(given->facts().total_samples == 1000);
  CHECK(given->facts().total_bytes == 5000);
  CHECK(given->facts().digest == "sampled:1");
}

TEST_CASE("an index without samples has no bytes and no files") {
  const auto index = index_of({});
  CHECK(index->size() == 0);
  CHECK(index->bytes() == 0);
  CHECK(index->file_count() == 0);
}

TEST_CASE("the dataset digest depends on path, size, label and order, and on nothing else") {
  const std::string digest = dataset_digest(*index_of(three));
  auto with = [](std::size_t sample, const Sample& other) {
    std::vector<Sample> samples = three;
    samples[sample] = other;
    return dataset_digest(*index_of(samples));
  };
  CHECK(with(0, {"cat/A.jpg", 10, 0}) != digest);
  CHECK(with(0, {"cat/a.jpg", 11, 0}) != digest);
  CHECK(with(0, {"cat/a.jpg", 10, 1}) != digest);
  CHECK(dataset_digest(*index_of({three[1], three[0], three[2]})) != digest);
  DatasetIndex::Facts elsewhere;
  elsewhere.root = "/elsewhere";
  CHECK(dataset_digest(*index_of(three, elsewhere)) == digest);
}

TEST_CASE("the dataset digest stays what it was when profiles were saved") {
  CHECK(dataset_digest(*index_of(three)) == "efb8997adc35068769a6801513101267");
}

TEST_CASE("the dataset digest tells samples of one file apart by their place") {
  const auto digest_of = [](std::uint64_t offset) {
    DatasetIndexBuilder builder;
    builder.add_sample({offset, 10, builder.add_file("shard.tar"), 0});
    return dataset_digest(*std::move(builder).build({}));
  };
  CHECK(digest_of(512) != digest_of(1024));
}

TEST_CASE("the dataset digest of many samples does not depend on how they are hashed in pieces") {
  std::vector<Sample> many;
  for (std::uint64_t number = 0; number < 5000; ++number) many.push_back({"cat/" + std::to_string(number) + ".jpg", number, 0});
  const std::string digest = dataset_digest(*index_of(many));
  many.back().bytes += 1;
  CHECK(dataset_digest(*index_of(many)) != digest);
  many.back().bytes -= 1;
  many[1].bytes += 1;
  CHECK(dataset_digest(*index_of(many)) != digest);
}

TEST_CASE("a subset has the chosen samples in their order, files renumbered, and the whole's totals") {
  const auto whole = index_of(three);
  const std::array<SampleId, 2> chosen{2, 0};
  const auto subset = subset_index(*whole, chosen);
  REQUIRE(subset->size() == 2);
  CHECK(subset->file_count() == 2);
  CHECK((*subset)[0].length == 30);
  CHECK(subset->file_path((*subset)[0].file) == "dog/c.jpg");
  CHECK(subset->file_path((*subset)[1].file) == "cat/a.jpg");
  CHECK(subset->labels() == whole->labels());
  CHECK(subset->bytes() == 40);
  CHECK(subset->facts().total_samples == 3);
  CHECK(subset->facts().total_bytes == 60);
  CHECK(subset->facts().digest == "sampled:" + dataset_digest(*subset));
}

TEST_CASE("samples that share a file share it in a subset too") {
  DatasetIndexBuilder builder;
  const std::uint32_t unused = builder.add_file("unused.bin");
  const std::uint32_t file = builder.add_file("shard.bin");
  builder.add_sample({0, 5, unused, 0});
  builder.add_sample({0, 10, file, 0});
  builder.add_sample({10, 10, file, 0});
  const auto whole = std::move(builder).build({});
  const std::array<SampleId, 2> chosen{2, 1};
  const auto subset = subset_index(*whole, chosen);
  CHECK(subset->file_count() == 1);
  CHECK((*subset)[0].offset == 10);
  CHECK((*subset)[1].offset == 0);
}

TEST_CASE("two epochs that used the same samples in another order have one digest, and a repeated sample shows") {
  auto digest_of = [](std::initializer_list<SampleId> samples) {
    SampleSetDigest digest;
    for (const SampleId sample : samples) digest.add(sample);
    return digest;
  };
  CHECK(digest_of({0, 1, 2}) == digest_of({2, 0, 1}));
  CHECK(digest_of({0, 1, 2}).text() == digest_of({1, 2, 0}).text());
  CHECK(digest_of({0, 1, 2}) != digest_of({0, 1, 1}));
  CHECK(digest_of({0, 1, 2}) != digest_of({0, 1}));
  CHECK(digest_of({0, 3}) != digest_of({1, 2}));
  CHECK(digest_of({0, 1}).text().starts_with("2-"));
  SampleSetDigest joined = digest_of({0, 2});
  joined.add(digest_of({1}));
  CHECK(joined == digest_of({0, 1, 2}));
}

TEST_CASE("a digest reads back from its text, to be added to others, and nothing else does") {
  SampleSetDigest digest;
  for (const SampleId sample : {5U, 9U, 70'000U}) digest.add(sample);
  SampleSetDigest read = SampleSetDigest::parse(digest.text());
  CHECK(read == digest);
  read.add(1);
  digest.add(1);
  CHECK(read == digest);
  CHECK(SampleSetDigest::parse("0-0000000000000000") == SampleSetDigest());
  for (const char* wrong :
       {"", "-", "3", "3-", "-ff", "3-ff", "3-00000000000000FF", "03-00000000000000ff", "3-00000000000000ff ", "-3-00000000000000ff", "x-y"})
    CHECK_THROWS_AS(SampleSetDigest::parse(wrong), UsageError);
}
