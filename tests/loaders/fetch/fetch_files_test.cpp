#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../../base/child_process.hpp"
#include "base/system/files.hpp"
#include "fetch_engines.hpp"

// What becomes of requests when the files are not what the index says.

namespace dsanalyze {
namespace {

using testing::fetch_all;
using testing::fetch_options;
using testing::FileDataset;
using testing::real_engines;

bool is(Status status, Corruption what) { return status.code == StatusCode::corrupt && status.detail == static_cast<int>(what); }

/// Runs `check` with what each engine, buffered and direct, made of the index.
template <typename Check>
void with_each(const std::shared_ptr<const DatasetIndex>& index, const Check& check) {
  for (const auto& make : real_engines()) {
    for (const ReadMode mode : {ReadMode::buffered, ReadMode::direct}) {
      CAPTURE(make.name);
      CAPTURE(mode == ReadMode::direct);
      FetchOptions options = fetch_options(8);
      options.read_mode = mode;
      const auto engine = make(index, options);
      auto fetched = fetch_all(*engine, *index);
      if (mode == ReadMode::direct && fetched.at(0).status.code == StatusCode::io) continue;  // a filesystem without direct I/O
      check(fetched);
    }
  }
}

TEST_CASE("a file that is gone and a file that is too short each end in one completion that says so") {
  FileDataset data;
  data.add("good.jpg", "abc");
  data.add("short.jpg", std::string(5000, 'x'));
  data.add("block.jpg", std::string(5000, 'x'));
  data.add("empty.jpg", "not for long");
  data.add_record("gone.jpg", 0, 100);
  data.add_record("good.jpg/nonsense", 0, 100);
  const auto index = data.index();
  data.folder().add("short.jpg", std::string(4999, 'x'));
  data.folder().add("block.jpg", std::string(4096, 'x'));
  data.folder().add("empty.jpg", "");
  with_each(index, [](auto& fetched) {
    CHECK(fetched[0].status.ok());
    for (const SampleId i : {1U, 2U, 3U}) CHECK(is(fetched[i].status, Corruption::shorter));
    for (const SampleId i : {1U, 2U, 3U}) CHECK(fetched[i].bytes.empty());
    for (const SampleId i : {4U, 5U}) CHECK(fetched[i].status.code == StatusCode::not_found);
  });
}

TEST_CASE("a file that has grown since it was indexed is noticed, at a block's edge too") {
  FileDataset data;
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{4095}, std::size_t{4096}, std::size_t{8192}, std::size_t{100'000}}) {
    data.add(std::to_string(bytes), testing::content_of(bytes, 0));
  }
  const auto index = data.index();
  with_each(index, [](auto& fetched) {
    for (SampleId i = 0; i < 5; ++i) CHECK(fetched[i].status.ok());
  });
  for (const std::size_t bytes : {std::size_t{10}, std::size_t{4095}, std::size_t{4096}, std::size_t{8192}, std::size_t{100'000}}) {
    data.folder().add(std::to_string(bytes), testing::content_of(bytes + 1, 0));
  }
  with_each(index, [](auto& fetched) {
    for (SampleId i = 0; i < 5; ++i) CHECK(is(fetched[i].status, Corruption::longer));
  });
}

TEST_CASE("the first sample of a file that goes on is no file that has grown") {
  FileDataset data;
  data.add_shard("shard", {"first", "second"});
  const auto index = data.index();
  with_each(index, [](auto& fetched) {
    CHECK(fetched[0].bytes == "first");
    CHECK(fetched[1].bytes == "second");
  });
  DatasetIndexBuilder builder;
  builder.add_sample({0, 5, builder.add_file("shard"), 0});
  DatasetIndex::Facts facts = index->facts();
  facts.format = "tar";
  with_each(std::move(builder).build(facts), [](auto& fetched) { CHECK(fetched[0].bytes == "first"); });
}

TEST_CASE("a shard that is cut off fails the samples behind the cut alone") {
  FileDataset data;
  data.add_shard("shard", {testing::content_of(6000, 1), testing::content_of(6000, 2), testing::content_of(6000, 3)});
  const auto index = data.index();
  std::filesystem::resize_file(data.folder().root() / "shard", 11'999);
  with_each(index, [](auto& fetched) {
    CHECK(fetched[0].bytes == testing::content_of(6000, 1));
    CHECK(is(fetched[1].status, Corruption::shorter));
    CHECK(is(fetched[2].status, Corruption::shorter));
  });
}

TEST_CASE("samples of a shard that is gone each end in not found, also those that waited for it to be opened") {
  FileDataset data;
  data.add_shard("here", {"a", "b"});
  data.add_shard("gone", std::vector<std::string>(20, "x"));
  const auto index = data.index();
  std::filesystem::remove(data.folder().root() / "gone");
  with_each(index, [](auto& fetched) {
    CHECK(fetched[1].status.ok());
    for (SampleId i = 2; i < 22; ++i) CHECK(fetched[i].status.code == StatusCode::not_found);
  });
}

TEST_CASE("a sample without bytes is ok and empty, in a file of its own and in a shard") {
  FileDataset data;
  data.add_shard("shard", {"a", "", "b"});
  data.add("empty", "");
  const auto index = data.index();
  with_each(index, [](auto& fetched) {
    for (SampleId i = 0; i < 4; ++i) CHECK(fetched[i].status.ok());
    CHECK(fetched[1].bytes.empty());
    CHECK(fetched[3].bytes.empty());
  });
  data.folder().add("empty", "no more");
  with_each(index, [](auto& fetched) { CHECK(is(fetched[3].status, Corruption::longer)); });
}

TEST_CASE("a folder or a pipe in a file's place ends in an error of the system") {
  FileDataset data;
  data.add("a", "a");
  data.add_record("folder", 0, 10);
  data.add_record("pipe", 10, 10);
  const auto index = data.index();
  std::filesystem::create_directories(data.folder().root() / "folder");
  REQUIRE(::mkfifo((data.folder().root() / "pipe").c_str(), 0600) == 0);
  // Held open, so that a thread that opens it for reading need not wait for a writer.
  const FileDescriptor writer(::open((data.folder().root() / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  with_each(index, [](auto& fetched) {
    CHECK(fetched[0].status.ok());
    CHECK(fetched[1].status.code == StatusCode::io);
    CHECK(fetched[2].status.code == StatusCode::io);
  });
}

TEST_CASE("a file that may not be read ends in EACCES") {
  if (::geteuid() == 0) return;  // root may
  FileDataset data;
  data.add("a", "a");
  data.add("secret", "b");
  const auto index = data.index();
  std::filesystem::permissions(data.folder().root() / "secret", std::filesystem::perms::none);
  with_each(index, [](auto& fetched) {
    CHECK(fetched[0].status.ok());
    CHECK(fetched[1].status.code == StatusCode::io);
    CHECK(fetched[1].status.detail == EACCES);
  });
}

/// Descriptors that this process may still open.
void leave_descriptors(rlim_t count) {
  const int lowest = ::dup(0);
  ::close(lowest);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(lowest) + count;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("when the process runs out of descriptors, an engine closes files that it keeps and goes on") {
  FileDataset data;
  std::vector<std::string> contents;
  for (std::size_t shard = 0; shard < 40; ++shard) {
    contents.push_back(testing::content_of(500, 2 * shard));
    contents.push_back(testing::content_of(600, 2 * shard + 1));
    data.add_shard("shard" + std::to_string(shard), {contents[2 * shard], contents[2 * shard + 1]});
  }
  const auto index = data.index();
  for (const auto& make : real_engines()) {
    CAPTURE(make.name);
    const int status = testing::in_child([&] {
      const auto engine = make(index, fetch_options(4));  // the limit of open files that it saw was the usual one
      leave_descriptors(6);
      for (int round = 0; round < 2; ++round) {
        for (const auto& [sample, what] : fetch_all(*engine, *index)) {
          if (!what.status.ok()) return what.status.detail;
          if (what.bytes != contents[sample]) return 250;
        }
      }
      return 0;
    });
    CHECK(status == 0);
  }
}

TEST_CASE("when there is no descriptor at all, requests end in EMFILE, and nothing hangs") {
  FileDataset data;
  data.add("a", "a");
  data.add_shard("shard", {"b", "c"});
  const auto index = data.index();
  const int status = testing::in_child([&] {
    const auto engine = make_thread_engine(index, fetch_options(4), system_timing());
    leave_descriptors(0);
    for (const auto& [sample, what] : fetch_all(*engine, *index)) {
      if (what.status.code != StatusCode::io || what.status.detail != EMFILE) return 1;
    }
    return 0;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace dsanalyze
