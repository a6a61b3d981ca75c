#define XXH_INLINE_ALL
#include <doctest/doctest.h>
#include <fcntl.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "../../base/texts.hpp"
#include "base/system/files.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::says;

namespace {

// Places in an index file's header, as the reader documents them.
constexpr std::size_t header_bytes = 64;
constexpr std::size_t version_place = 8;
constexpr std::size_t checksum_place = 48;

std::shared_ptr<const DatasetIndex> small_index(const std::string& second_path = "dog/c.jpg") {
  DatasetIndexBuilder builder;
  builder.add_label("cat");
  builder.add_label("dog");
  builder.add_sample({0, 10, builder.add_file("cat/a.jpg"), 0});
  builder.add_sample({5, 30, builder.add_file(second_path), 1});
  DatasetIndex::Facts facts;
  facts.root = "/photos";
  facts.format = "folder";
  facts.total_samples = 7;
  facts.total_bytes = 99;
  facts.sizes_sampled = true;
  facts.digest = "sampled:abc";
  facts.skipped = {"README.md"};
  facts.skipped_count = 3;
  facts.folders = {{"", 5}, {"cat", -6}};
  facts.source = "/photos/x-{0..1}.tar";
  facts.files = {{"x-0.tar", 512, 7, 99}, {"x-1.tar", 1024, -8, UINT64_MAX}};
  facts.absent = {"labels.txt"};
  facts.image_key = "jpg;png";
  facts.label_key = "fine.cls";
  facts.findings = {{"tar-torn", Finding::Severity::warning, "x-1.tar is torn"}};
  return std::move(builder).build(std::move(facts));
}

DatasetSpec hundred_samples() {
  DatasetSpec spec;
  spec.name = "x";
  spec.samples = 100;
  spec.mean_sample_bytes = 1000;
  spec.labels = 3;
  return spec;
}

void put(const std::filesystem::path& file, const std::string& content) { std::ofstream(file, std::ios::binary) << content; }

/// Makes the checksum right again: what a hostile writer would do.
void seal(std::string& content) {
  std::memset(content.data() + checksum_place, 0, header_bytes - checksum_place);
  const std::uint64_t head = XXH3_64bits(content.data(), header_bytes);
  const XXH128_hash_t sum = XXH3_128bits_withSeed(content.data() + header_bytes, content.size() - header_bytes, head);
  std::memcpy(content.data() + checksum_place, &sum.low64, 8);
  std::memcpy(content.data() + checksum_place + 8, &sum.high64, 8);
}

/// Touches everything that an index gives out.
void use(const DatasetIndex& index) {
  std::uint64_t sum = index.bytes();
  for (const IndexRecord& record : index.records()) {
    sum += index.file_path(record.file).size();
    if (!index.labels().empty()) sum += index.labels().at(record.label).size();
  }
  CHECK(sum > 0);
}

}  // namespace

TEST_CASE("an index file gives back the index that was written") {
  const DatasetFolder folder;
  const auto written = small_index();
  const std::filesystem::path file = folder.path() / "deep" / "x.dsidx";
  write_index_file(*written, file);
  const auto read = read_index_file(file);
  REQUIRE(read->size() == 2);
  CHECK(read->file_path(0) == "cat/a.jpg");
  CHECK(read->file_path(1) == "dog/c.jpg");
  CHECK((*read)[1].offset == 5);
  CHECK((*read)[1].length == 30);
  CHECK((*read)[1].label == 1);
  CHECK(read->labels() == written->labels());
  CHECK(read->facts().root == "/photos");
  CHECK(read->facts().format == "folder");
  CHECK(read->facts().total_samples == 7);
  CHECK(read->facts().total_bytes == 99);
  CHECK(read->facts().sizes_sampled);
  CHECK(read->facts().digest == "sampled:abc");
  CHECK(read->facts().skipped == written->facts().skipped);
  CHECK(read->facts().skipped_count == 3);
  REQUIRE(read->facts().folders.size() == 2);
  CHECK(read->facts().folders[1].path == "cat");
  CHECK(read->facts().folders[1].changed_nanoseconds == -6);
  CHECK(read->facts().source == "/photos/x-{0..1}.tar");
  CHECK(read->facts().files == written->facts().files);
  CHECK(read->facts().absent == written->facts().absent);
  CHECK(read->facts().image_key == "jpg;png");
  CHECK(read->facts().label_key == "fine.cls");
  CHECK(read->facts().findings == written->facts().findings);
  CHECK_FALSE(read->facts().array);
  CHECK(dataset_digest(*read) == dataset_digest(*written));
}

TEST_CASE("an index file keeps what the arrays of a dataset are, and refuses rows of another size") {
  const DatasetFolder folder;
  const auto write = [&](std::uint64_t second_length) {
    DatasetIndexBuilder builder;
    const std::uint32_t file = builder.add_file("samples.npy");
    builder.add_sample({128, 24, file, 0});
    builder.add_sample({152, second_length, file, 0});
    DatasetIndex::Facts facts;
    facts.array = ArrayDescription{"<f4", {2, 3}, 24};
    write_index_file(*std::move(builder).build(std::move(facts)), folder.path() / "x");
  };
  write(24);
  CHECK(read_index_file(folder.path() / "x")->facts().array == ArrayDescription{"<f4", {2, 3}, 24});
  write(25);
  CHECK(says(error_of([&] { read_index_file(folder.path() / "x"); }), "size of the array's rows"));
}

TEST_CASE("an index is read from bytes alone, at an address that suits its records") {
  const DatasetFolder folder;
  write_index_file(*small_index(), folder.path() / "x");
  const std::string content = read_file(folder.path() / "x");
  auto words = std::make_shared<std::vector<std::uint64_t>>(content.size() / 8 + 2);
  std::byte* const place = std::as_writable_bytes(std::span(*words)).data();
  std::memcpy(place, content.data(), content.size());
  CHECK(parse_index_bytes({place, content.size()}, words)->size() == 2);
  std::memmove(place + 1, place, content.size());
  CHECK_THROWS_AS(parse_index_bytes({place + 1, content.size()}, words), Error);
}

TEST_CASE("an index crosses to another process in memory that no process can change") {
  MemorySegment shared = share_index(*small_index());
  const auto copy = [](const MemorySegment& segment) { return FileDescriptor(::fcntl(segment.descriptor(), F_DUPFD_CLOEXEC, 0)); };
  CHECK(shared.future_writers_forbidden());
  CHECK(dataset_digest(*attach_index(copy(shared))) == dataset_digest(*small_index()));
  CHECK(attach_index(copy(shared))->facts().findings.size() == 1);
  shared.data()[header_bytes] ^= std::byte{1};
  CHECK(says(error_of([&] { attach_index(copy(shared)); }), "the index that another process shares: its checksum is wrong"));
}

TEST_CASE("an emulated dataset's index survives its file") {
  const DatasetFolder folder;
  const auto index = make_emulated_index(hundred_samples(), 0, 1, 1);
  write_index_file(*index, folder.path() / "x");
  CHECK(dataset_digest(*read_index_file(folder.path() / "x")) == dataset_digest(*index));
}

TEST_CASE("any flipped bit of an index file is noticed") {
  const DatasetFolder folder;
  const std::filesystem::path file = folder.path() / "x.dsidx";
  write_index_file(*small_index(), file);
  const std::string good = read_file(file);
  for (std::size_t place = 0; place < good.size(); ++place) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[place] = static_cast<char>(bad[place] ^ (1 << bit));
      put(file, bad);
      CHECK_THROWS_AS(read_index_file(file), Error);
    }
  }
}

TEST_CASE("an index file cut off anywhere, or longer than it says, is refused") {
  const DatasetFolder folder;
  const std::filesystem::path file = folder.path() / "x.dsidx";
  write_index_file(*small_index(), file);
  const std::string good = read_file(file);
  for (std::size_t length = 0; length < good.size(); ++length) {
    put(file, good.substr(0, length));
    CHECK_THROWS_AS(read_index_file(file), Error);
  }
  put(file, good + "more");
  CHECK_THROWS_AS(read_index_file(file), Error);
}

TEST_CASE("hostile bytes under a right checksum are refused or harmless, never read past") {
  const DatasetFolder folder;
  const std::filesystem::path file = folder.path() / "x.dsidx";
  write_index_file(*small_index(), file);
  const std::string good = read_file(file);
  std::size_t refused = 0;
  for (std::size_t place = 0; place < good.size(); ++place) {
    if (place >= checksum_place && place < header_bytes) continue;
    for (const int value : {0, 1, 0x7f, 0xff}) {
      std::string bad = good;
      bad[place] = static_cast<char>(value);
      seal(bad);
      put(file, bad);
      try {
        use(*read_index_file(file));
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("an index file's errors name the file and the cause") {
  const DatasetFolder folder;
  const std::filesystem::path file = folder.path() / "x.dsidx";
  const auto error = [&] { return error_of([&] { read_index_file(file); }); };
  CHECK(says(error(), "No such file"));

  put(file, "hello, this is a text of more than sixty-four bytes and no index at all, sorry");
  CHECK(says(error(), "no index file"));
  CHECK(says(error(), file.string()));

  write_index_file(*small_index(), file);
  const std::string good = read_file(file);
  std::string other = good;
  other[version_place] = 9;
  put(file, other);
  CHECK(says(error(), "version 9"));

  std::string far_file = good;
  far_file[header_bytes + 16] = 2;
  seal(far_file);
  put(file, far_file);
  CHECK(says(error(), "file 2 of 2"));

  std::string far_label = good;
  far_label[header_bytes + 20] = 5;
  seal(far_label);
  put(file, far_label);
  CHECK(says(error(), "label 5 of 2"));
}

TEST_CASE("an index file whose paths lead out of the dataset is refused") {
  const DatasetFolder folder;
  for (const char* path : {"../secret.jpg", "dog/../../secret.jpg", "/etc/passwd", "dog/.."}) {
    write_index_file(*small_index(path), folder.path() / "x");
    CHECK(says(error_of([&] { read_index_file(folder.path() / "x"); }), "leads out of the dataset"));
  }
  for (const char* path : {"dog/a..b.jpg", "dog/...jpg", "..dog/a.jpg"}) {
    write_index_file(*small_index(path), folder.path() / "x");
    CHECK(read_index_file(folder.path() / "x")->file_path(1) == path);
  }
}

TEST_CASE("a dataset's index has one place in the user's cache, however the path is written") {
  const DatasetFolder folder;
  folder.add("a/x.jpg");
  const std::filesystem::path file = default_index_file(folder.root());
  CHECK(file.parent_path() == folder.path() / "cache" / "dsanalyze" / "index");
  CHECK(file.filename().string().starts_with("data-"));
  CHECK(file.extension() == ".dsidx");
  CHECK(default_index_file(folder.root() / "") == file);
  CHECK(default_index_file(folder.root() / "a" / "..") == file);
  CHECK(default_index_file(folder.path() / "other" / "data") != file);
}
