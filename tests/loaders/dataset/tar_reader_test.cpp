#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/npy_header.hpp"
#include "loaders/dataset/readers/tar_shard.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "opened_dataset.hpp"
#include "tar_files.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::file_member;
using testing::KeptEvents;
using testing::member;
using testing::open_error;
using testing::pax;
using testing::says;
using testing::tar_end;

namespace {

namespace fs = std::filesystem;

/// A dataset of tar shards, as it is opened, and what was said.
struct Opened {
  KeptEvents events;
  std::shared_ptr<const DatasetIndex> index;

  explicit Opened(const fs::path& path, const OpenOptions& options = {}) : index(open_dataset(path, options, events, {})) {}
  [[nodiscard]] std::string content(SampleId sample) const {
    std::vector<std::byte> bytes;
    const std::string cause = read_sample_bytes(*index, sample, bytes);
    return cause.empty() ? testing::text_of(bytes) : "cannot: " + cause;
  }
  [[nodiscard]] std::string finding(const std::string& code) const {
    for (const Finding& one : index->facts().findings) {
      if (one.code == code) return one.message;
    }
    return {};
  }
};

/// Three samples of several blocks and sizes, each with a label.
std::string three_samples() {
  return file_member("a.jpg", std::string(700, 'a')) + file_member("a.cls", "3") + file_member("b.jpg", std::string(512, 'b')) +
         file_member("b.cls", "1\n") + file_member("c.cls", " 2 ") + file_member("c.PNG", "ccc") + tar_end();
}

}  // namespace

TEST_CASE("a tar shard's samples are its keys, with the data member's bytes and the label of .cls") {
  const DatasetFolder folder;
  folder.add("x.tar", three_samples());
  const Opened opened(folder.root());
  const DatasetIndex& index = *opened.index;
  REQUIRE(index.size() == 3);
  CHECK(index.facts().format == "tar");
  CHECK(index.facts().findings.empty());
  CHECK(opened.content(0) == std::string(700, 'a'));
  CHECK(opened.content(1) == std::string(512, 'b'));
  CHECK(opened.content(2) == "ccc");
  CHECK(index[0].label == 3);
  CHECK(index[1].label == 1);
  CHECK(index[2].label == 2);
  CHECK(index.labels() == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(sample_name(index, 1) == "x.tar: b.jpg (offset 3072)");
  CHECK(sample_name(index, 2) == "x.tar: c.PNG (offset 6144)");
}

TEST_CASE("one file, a folder with sub-folders and a brace range open; shards come in byte order of their paths") {
  const DatasetFolder folder;
  folder.add("b/1.tar", file_member("s.jpg", "b1") + tar_end());
  folder.add("a-0.tar", file_member("s.jpg", "a0") + tar_end());
  folder.add("c.tar", file_member("s.jpg", "c") + tar_end());
  const auto contents = [](const Opened& opened) {
    std::vector<std::string> all;
    for (SampleId sample = 0; sample < opened.index->size(); ++sample) all.push_back(opened.content(sample));
    return all;
  };
  using Contents = std::vector<std::string>;
  CHECK(contents(Opened(folder.root())) == Contents{"a0", "b1", "c"});
  CHECK(contents(Opened(folder.root() / "c.tar")) == Contents{"c"});
  CHECK(contents(Opened(folder.root() / "{c,b/1}.tar")) == Contents{"b1", "c"});
  CHECK(contents(Opened(folder.root() / "b" / "{1..1}.tar")) == Contents{"b1"});
  CHECK(Opened(folder.root() / "c.tar").index->facts().source == fs::canonical(folder.root() / "c.tar").string());
  const std::string missing = open_error(folder.root() / "a-{0..3}.tar");
  CHECK(says(missing, "3 are missing"));
  CHECK(says(missing, "a-1.tar"));
  CHECK(says(open_error(folder.root() / "nowhere" / "{0..3}.tar"), "no such folder"));
}

TEST_CASE("names are found in ustar, GNU, pax and V7 headers, and named in full") {
  const DatasetFolder folder;
  const std::string long_name = std::string(200, 'd') + "/" + std::string(180, 'n') + ".jpg";
  const std::string record = " path=p" + long_name + "\n";
  const std::string long_record = std::to_string(record.size() + 3) + record;
  folder.add("x.tar", member({.name = "b.jpg", .data = "ustar", .prefix = "deep"}) +
                          member({.name = "././@LongLink", .data = long_name + '\0', .kind = 'L', .magic = std::string("ustar  \0", 8)}) +
                          member({.name = "cut.jpg", .data = "gnu", .magic = std::string("ustar  \0", 8)}) + pax(long_record) +
                          file_member("cut.json", "pax") + member({.name = "v7.jpg", .data = "v7", .kind = '\0', .magic = ""}) + tar_end());
  const Opened opened(folder.root());
  REQUIRE(opened.index->size() == 4);
  CHECK(opened.content(1) == "gnu");
  CHECK(opened.content(2) == "pax");
  CHECK(opened.content(3) == "v7");
  CHECK(says(sample_name(*opened.index, 0), "x.tar: deep/b.jpg"));
  CHECK(says(sample_name(*opened.index, 1), "x.tar: " + long_name));
  CHECK(says(sample_name(*opened.index, 2), "x.tar: p" + long_name));
}

TEST_CASE("a pax size wins over the header's, a local record over a global one") {
  const DatasetFolder folder;
  folder.add("x.tar", pax("16 path=ALL.jpg\n", 'g') + pax("9 size=4\n") + member({.name = "a.jpg", .data = "1234", .size = "00000000000"}) +
                          pax("14 path=b.jpg\n") + file_member("whatever", "b") + tar_end());
  const Opened opened(folder.root());
  REQUIRE(opened.index->size() == 2);
  CHECK(opened.content(0) == "1234");
  CHECK(says(sample_name(*opened.index, 1), "b.jpg"));
}

TEST_CASE("members of one key that are not side by side are an error that names shard, key and both places") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "1") + file_member("b.jpg", "2") + file_member("a.cls", "3") + tar_end());
  const std::string error = open_error(folder.root());
  INFO(error);
  CHECK(says(error, "x.tar"));
  CHECK(says(error, "'a'"));
  CHECK(says(error, "offset 0 "));
  CHECK(says(error, "offset 2048"));
}

TEST_CASE("folders, links, devices, names without a dot and keys without data are no samples; links and keys are named") {
  const DatasetFolder folder;
  folder.add("x.tar", member({.name = "f/", .kind = '5', .size = "00000001000"}) + member({.name = "hard.jpg", .kind = '1', .link = "a.jpg"}) +
                          member({.name = "soft.jpg", .kind = '2', .link = "a.jpg"}) + member({.name = "fifo.jpg", .kind = '6'}) +
                          file_member("README", "hello") + file_member("._a.jpg", "mac") + file_member("no.json", "{}") + file_member("no.cls", "1") +
                          file_member("a.jpg", "a") + file_member("a.right.png", "second") + tar_end());
  const Opened opened(folder.root());
  REQUIRE(opened.index->size() == 1);
  CHECK(opened.content(0) == "a");
  CHECK(says(opened.finding("tar-links"), "2 members"));
  CHECK(says(opened.finding("tar-links"), "hard.jpg -> a.jpg"));
  CHECK(says(opened.finding("tar-keys-without-data"), "x.tar: no"));
  CHECK(opened.index->facts().skipped_count == 6);
  CHECK(opened.index->facts().skipped.size() == 5);
}

TEST_CASE("samples without a label among others that have one have none, with a finding") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "a") + file_member("a.cls", "5") + file_member("b.jpg", "b") + file_member("c.jpg", "c") +
                          file_member("c.cls", "cat") + tar_end());
  const Opened opened(folder.root());
  CHECK((*opened.index)[0].label == 5);
  CHECK_FALSE((*opened.index)[1].has_label());
  CHECK_FALSE((*opened.index)[2].has_label());
  CHECK(says(opened.finding("labels-missing"), "1 of 3"));
  CHECK(says(opened.finding("tar-labels-unreadable"), "x.tar: c.cls"));
}

TEST_CASE("labels that would need a huge table are counted through, and names come from labels.txt") {
  const DatasetFolder folder;
  const auto shard = [](const std::string& first, const std::string& second) {
    return file_member("a.jpg", "a") + file_member("a.cls", first) + file_member("b.jpg", "b") + file_member("b.cls", second) + tar_end();
  };
  folder.add("x.tar", shard("2147483647", "7"));
  {
    const Opened opened(folder.root());
    CHECK(opened.index->labels() == std::vector<std::string>{"7", "2147483647"});
    CHECK((*opened.index)[0].label == 1);
    CHECK_FALSE(opened.finding("labels-renumbered").empty());
  }
  folder.add("x.tar", shard("1", "0"));
  folder.add("labels.txt", "cat\ndog\r\n");
  const Opened named(folder.root());
  CHECK(named.index->labels() == std::vector<std::string>{"cat", "dog"});
  CHECK(named.index->facts().skipped_count == 0);
}

TEST_CASE("a tar cut anywhere keeps its whole samples; the torn one fails when it is read, and the shard is named") {
  const DatasetFolder folder;
  const std::string whole = three_samples();
  struct Member {
    std::size_t begin;
    std::size_t data_end;
    std::size_t end;
  };
  // In file order: data and label of a, data and label of b, label and data of c.
  const std::vector<Member> members{{0, 1212, 1536},    {1536, 2049, 2560}, {2560, 3584, 3584},
                                    {3584, 4098, 4608}, {4608, 5123, 5632}, {5632, 6147, 6656}};
  REQUIRE(whole.size() == members.back().end + 1024);
  const std::vector<std::string> contents{std::string(700, 'a'), std::string(512, 'b'), "ccc"};
  for (std::size_t length = 512; length <= members.back().end; length += 128) {
    CAPTURE(length);
    folder.add("x.tar", whole.substr(0, length));
    const Opened opened(folder.root());
    const auto is_whole = [&](std::size_t number) { return length >= members[number].data_end; };
    for (std::size_t sample = 0; sample < opened.index->size(); ++sample) {
      CAPTURE(sample);
      const std::size_t data = sample == 2 ? 5 : 2 * sample;
      const std::size_t label = sample == 2 ? 4 : 2 * sample + 1;
      const bool label_is_torn = length >= members[label].begin + 512 && !is_whole(label);
      const bool label_is_lost = sample == 1 && length <= members[label].begin + 511;  // of a alone, nothing says that it has a label
      const bool is_good = is_whole(data) && !label_is_torn && !label_is_lost;
      CHECK((opened.content(static_cast<SampleId>(sample)) == contents[sample]) == is_good);
      CHECK((*opened.index)[static_cast<SampleId>(sample)].length <= 4096);
    }
    // A sample is there as soon as the header of its data is.
    std::size_t expected = 0;
    for (const std::size_t data : {0, 2, 5}) expected += length >= members[data].begin + 512 ? 1 : 0;
    CHECK(opened.index->size() == expected);
    bool ends_within_a_member = false;
    for (const Member& one : members) ends_within_a_member |= length > one.begin && length < one.data_end;
    const bool lacks_a_member = length == members[3].begin || (length >= members[4].data_end && length <= members[5].begin);
    CHECK(opened.finding("tar-torn").empty() == !(ends_within_a_member || lacks_a_member));
    const std::string how = ends_within_a_member ? "x.tar is cut off at byte " : "x.tar ends without an end marker at byte ";
    if (ends_within_a_member || lacks_a_member) CHECK(says(opened.finding("tar-torn"), how + std::to_string(length)));
    CHECK(opened.finding("labels-missing").empty());
  }
}

TEST_CASE("garbage in the middle of a tar keeps what is before it and names shard and place") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "a") + std::string(512, 'x') + file_member("b.jpg", "b") + tar_end());
  const Opened opened(folder.root());
  CHECK(opened.index->size() == 1);
  CHECK(says(opened.finding("tar-damaged"), "x.tar has no valid header at offset 1024"));
  REQUIRE(opened.events.findings.size() == 1);
  CHECK(opened.events.findings[0].severity == Finding::Severity::warning);
}

TEST_CASE("hostile lengths in headers end the shard with a finding and take no memory") {
  const DatasetFolder folder;
  for (const std::string& bad : {member({.name = "x", .kind = 'L', .size = "77777777777"}), member({.name = "x", .kind = 'x', .size = "00010000000"}),
                                 pax("99999999999999999999 path=x\n"), pax("5 path=x\n")}) {
    folder.add("x.tar", file_member("a.jpg", "a") + bad + file_member("b.jpg", "b") + tar_end());
    const Opened opened(folder.root());
    CHECK(opened.index->size() == 1);
    CHECK_FALSE(opened.finding("tar-damaged").empty());
  }
  std::string huge(12, '\xff');
  huge[0] = '\x80';
  huge[1] = huge[2] = huge[3] = '\0';
  huge[4] = '\x7f';
  folder.add("x.tar", file_member("a.jpg", "a") + member({.name = "b.jpg", .data = "b", .size = huge}) + tar_end());
  const Opened opened(folder.root());
  REQUIRE(opened.index->size() == 2);
  CHECK((*opened.index)[1].length < 10'000);
  CHECK(says(opened.content(1), "cannot"));
  CHECK(says(opened.finding("tar-torn"), "b.jpg"));
}

TEST_CASE("a member of more than 8 GiB is indexed at its size") {
  const DatasetFolder folder;
  std::string size(12, '\0');
  size[0] = '\x80';
  size[7] = '\x02';  // 2 << 32
  const std::string head = testing::header_block({.name = "huge.jpg", .size = size});
  folder.add("x.tar", head);
  const fs::path file = folder.root() / "x.tar";
  fs::resize_file(file, 512 + (std::uint64_t{2} << 32) + 1024);  // a hole: takes no room
  const Opened opened(file);
  REQUIRE(opened.index->size() == 1);
  CHECK((*opened.index)[0].length == std::uint64_t{2} << 32);
  CHECK(opened.index->facts().findings.empty());
}

TEST_CASE("what is no tar, compressed or sparse is refused with what to do") {
  const DatasetFolder folder;
  const auto error_of_bytes = [&](const std::string& bytes) {
    folder.add("x.tar", bytes);
    return open_error(folder.root());
  };
  CHECK(says(error_of_bytes("hello, this is text"), "no tar archive"));
  CHECK(says(error_of_bytes(std::string(2000, 'x')), "no tar archive"));
  CHECK(says(error_of_bytes("\x1f\x8b" + std::string(600, 'x')), "gunzip -k 'x.tar'"));
  CHECK(says(error_of_bytes("\x28\xb5\x2f\xfd" + std::string(600, 'x')), "zstd -d"));
  CHECK(says(error_of_bytes(member({.name = "a.jpg", .kind = 'S'}) + tar_end()), "sparse"));
  CHECK(says(error_of_bytes(pax("22 GNU.sparse.major=1\n") + file_member("a.jpg", "a") + tar_end()), "sparse"));
  CHECK(says(error_of_bytes(file_member("a.txt", "a") + tar_end()), "no image or array"));
  CHECK(says(error_of_bytes(tar_end()), "no image or array"));
}

TEST_CASE("another archive behind the end of the first is named") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "a") + tar_end() + file_member("b.jpg", "b") + tar_end());
  const Opened opened(folder.root());
  CHECK(opened.index->size() == 1);
  CHECK(says(opened.finding("tar-joined"), "offset 2048"));
}

TEST_CASE("arrays in a tar are samples without their headers; other shapes are refused") {
  const DatasetFolder folder;
  const std::vector<std::uint64_t> shape{2, 3};
  const std::vector<std::uint64_t> other{3, 2};
  folder.add("x.tar", file_member("a.npy", make_npy_header("|u1", shape) + "123456") + file_member("a.cls", "1") +
                          file_member("b.npy", make_npy_header("|u1", shape) + "abcdef") + file_member("b.cls", "0") + tar_end());
  {
    const Opened opened(folder.root());
    REQUIRE(opened.index->facts().array);
    CHECK(*opened.index->facts().array == ArrayDescription{"|u1", {2, 3}, 6});
    CHECK(opened.content(1) == "abcdef");
    CHECK(says(sample_name(*opened.index, 1), "x.tar: b.npy"));
  }
  folder.add("y.tar", file_member("a.npy", make_npy_header("|u1", other) + "123456") + tar_end());
  CHECK(says(open_error(folder.root()), "y.tar"));
  folder.add("y.tar", file_member("a.npy", make_npy_header("|u1", shape) + "12345") + tar_end());
  CHECK(says(open_error(folder.root()), "a.npy"));
  folder.add("y.tar", (file_member("a.npy", make_npy_header("|u1", shape) + "123456")).substr(0, 600));
  const Opened torn(folder.root());
  REQUIRE(torn.index->size() == 3);
  CHECK((*torn.index)[2].length == 6);
  CHECK(says(torn.content(2), "cannot"));
}

TEST_CASE("the index of shards is used as long as they are as they were") {
  const DatasetFolder folder;
  for (const fs::path& path : {folder.root(), folder.root() / "x.tar", folder.root() / "{x,y}.tar"}) {
    folder.add("x.tar", file_member("a.jpg", "a") + tar_end());
    folder.add("y.tar", file_member("a.jpg", "a") + tar_end());
    CAPTURE(path.string());
    write_index_file(*Opened(path).index, default_index_file(path));
    KeptEvents events;
    const auto first = open_dataset(path, {}, events, {});
    CHECK(events.activities.empty());  // nothing was listed or scanned
    folder.add("x.tar", file_member("a.jpg", "a") + file_member("b.jpg", "b") + tar_end());
    CHECK(open_dataset(path, {}, events, {})->size() == first->size() + 1);
    CHECK_FALSE(events.activities.empty());
  }
}

TEST_CASE("verify looks at shards anew and names a damaged one") {
  const DatasetFolder folder;
  folder.add("x.tar", file_member("a.jpg", "a") + file_member("b.jpg", "b") + tar_end());
  const Opened opened(folder.root());
  folder.add("x.tar", file_member("a.jpg", "a") + std::string(512, 'x') + file_member("b.jpg", "b"));
  const VerifyReport report = verify_dataset(*opened.index, 2, null_events(), {});
  CHECK(report.failed == 2);
  CHECK(report.failures.at(0).path == "x.tar: a.jpg (offset 512)");
  REQUIRE(report.damaged_files.size() == 1);
  CHECK(report.damaged_files[0].path == "x.tar");
  CHECK(says(report.damaged_files[0].cause, "offset 1024"));
}
