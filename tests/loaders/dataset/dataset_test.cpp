#include "loaders/dataset/dataset.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "../../base/texts.hpp"
#include "../prep/jpeg_images.hpp"
#include "dataset_folder.hpp"
#include "loaders/dataset/readers/folder_listing.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"
#include "opened_dataset.hpp"

using namespace dsanalyze;
using testing::DatasetFolder;
using testing::error_of;
using testing::KeptEvents;
using testing::open_error;
using testing::open_index;
using testing::says;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> paths_of(const DatasetIndex& index) {
  std::vector<std::string> paths;
  for (const IndexRecord& record : index.records()) paths.emplace_back(index.file_path(record.file));
  return paths;
}

std::string label_of(const DatasetIndex& index, SampleId sample) { return index.labels().at(index[sample].label); }

/// While it lives, files are accessed as a user without rights.
class WithoutRights {
 public:
  WithoutRights() : m_was_root(::geteuid() == 0) {
    if (m_was_root) REQUIRE(::seteuid(65534) == 0);
  }
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;
  WithoutRights(WithoutRights&&) = delete;
  WithoutRights& operator=(WithoutRights&&) = delete;
  ~WithoutRights() {
    if (m_was_root && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool m_was_root;
};

}  // namespace

TEST_CASE("JPEG, PNG and WebP files make one dataset, in any case and mixture") {
  const DatasetFolder folder;
  for (const char* name : {"a/1.jpg", "a/2.PNG", "a/3.webp", "b/4.JPEG", "b/5.WebP", "b/6.png"}) folder.add(name);
  const auto index = open_index(folder);
  CHECK(index->size() == 6);
  CHECK(index->facts().skipped_count == 0);
  CHECK(sample_name(*index, 4) == "b/5.WebP");
  CHECK(sample_name(*index, 99) == "sample 99");
}

TEST_CASE("in a mixture the kind that nine in ten files have is read, with a finding; without such a kind it is an error that counts") {
  const DatasetFolder folder;
  for (int number = 0; number < 18; ++number) folder.add("a/" + std::to_string(number) + ".jpg");
  folder.add("preview.npy");
  folder.add("old.tar");
  KeptEvents events;
  const auto index = open_dataset(folder.root(), {}, events, {});
  CHECK(index->size() == 18);
  CHECK(index->facts().skipped_count == 2);
  REQUIRE(events.findings.size() == 1);
  CHECK(events.findings[0].code == "kinds-left-out");
  CHECK(says(events.findings[0].message, "1 tar shards, 1 NumPy arrays"));
  folder.add("older.tar");
  const std::string error = open_error(folder);
  CHECK(says(error, "18 image files, 2 tar shards, 1 NumPy arrays"));
  CHECK(says(error, "sub-folder"));
}

TEST_CASE("class folders give labels in byte order, and samples come sorted by folder and name") {
  const DatasetFolder folder;
  folder.add("dog/b.jpg", "12345");
  folder.add("dog/a.JPEG", "123");
  folder.add("cat/deep/er/z.jpe", "1");
  folder.add("cat/m.jpeg", "");
  const auto index = open_index(folder);
  CHECK(paths_of(*index) == std::vector<std::string>{"cat/m.jpeg", "cat/deep/er/z.jpe", "dog/a.JPEG", "dog/b.jpg"});
  CHECK(index->labels() == std::vector<std::string>{"cat", "dog"});
  CHECK(label_of(*index, 0) == "cat");
  CHECK(label_of(*index, 1) == "cat");
  CHECK(label_of(*index, 3) == "dog");
  CHECK((*index)[0].length == 0);
  CHECK((*index)[3].length == 5);
  CHECK(index->bytes() == 9);
  CHECK(index->facts().format == "folder");
  CHECK(index->facts().root == fs::canonical(folder.root()).string());
  CHECK_FALSE(index->facts().sizes_sampled);
  CHECK(index->facts().digest == dataset_digest(*index));
}

TEST_CASE("files directly in the root have label 0 where there are no classes, and the label behind them where there are") {
  const DatasetFolder folder;
  folder.add("y.jpg");
  fs::create_directories(folder.root() / "empty");
  CHECK((*open_index(folder))[0].label == 0);
  CHECK(open_index(folder)->labels() == std::vector<std::string>{"."});
  folder.add("!early/x.jpg");
  const auto index = open_index(folder);
  CHECK(paths_of(*index) == std::vector<std::string>{"y.jpg", "!early/x.jpg"});
  CHECK(index->labels() == std::vector<std::string>{"!early", "empty", "."});
  CHECK(label_of(*index, 0) == ".");
  CHECK(label_of(*index, 1) == "!early");
  REQUIRE(index->facts().findings.size() == 2);
  CHECK(index->facts().findings[0].code == "classes-without-samples");
  CHECK(index->facts().findings[1].code == "files-beside-classes");
}

TEST_CASE("classes have the numbers and samples the order of torchvision's ImageFolder, whatever else is in the folders") {
  const DatasetFolder folder;
  for (const char* name : {"a/z.jpg", "a/x/1.jpg", "a-b/1.jpg", "a/x-y/1.jpg", "a/x/y/1.jpg", "c/1.jpg"}) folder.add(name);
  folder.add("b/only.bmp");
  const auto index = open_index(folder);
  CHECK(paths_of(*index) == std::vector<std::string>{"a/z.jpg", "a/x/1.jpg", "a/x-y/1.jpg", "a/x/y/1.jpg", "a-b/1.jpg", "c/1.jpg"});
  CHECK(index->labels() == std::vector<std::string>{"a", "a-b", "b", "c"});
  CHECK((*index)[5].label == 3);
}

TEST_CASE("hidden files, other files and things that are no files are no samples; the last two are counted and named") {
  const DatasetFolder folder;
  folder.add("a/x.jpg");
  folder.add("a/._x.jpg");
  folder.add(".cache/y.jpg");
  folder.add("a/notes.txt");
  REQUIRE(::mkfifo((folder.root() / "a" / "pipe.jpg").c_str(), 0600) == 0);
  const auto index = open_index(folder);
  CHECK(paths_of(*index) == std::vector<std::string>{"a/x.jpg"});
  CHECK(index->facts().skipped_count == 2);
  CHECK(index->facts().skipped == std::vector<std::string>{"a/notes.txt", "a/pipe.jpg"});
}

TEST_CASE("the listing is the same whatever the number of threads") {
  const DatasetFolder folder;
  for (int number = 0; number < 200; ++number)
    folder.add("c" + std::to_string(number % 23) + "/s" + std::to_string(number % 3) + "/" + std::to_string(number) + ".jpg");
  OpenOptions one;
  one.threads = 1;
  OpenOptions many;
  many.threads = 7;
  const auto a = open_index(folder, one);
  const auto b = open_index(folder, many);
  CHECK(a->size() == 200);
  CHECK(paths_of(*a) == paths_of(*b));
  CHECK(a->facts().digest == b->facts().digest);
}

TEST_CASE("links to files and folders are followed, links back up are not") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", "123");
  folder.write("elsewhere/y.jpg", "12345");
  fs::create_directory_symlink(folder.path() / "elsewhere", folder.root() / "b.v2");
  fs::create_symlink(folder.path() / "elsewhere" / "y.jpg", folder.root() / "a" / "linked.jpg");
  fs::create_directory_symlink(folder.root(), folder.root() / "a" / "up");
  fs::create_directory_symlink(".", folder.root() / "a" / "here");
  const auto index = open_index(folder);
  CHECK(paths_of(*index) == std::vector<std::string>{"a/linked.jpg", "a/x.jpg", "b.v2/y.jpg"});
  CHECK((*index)[0].length == 5);
}

TEST_CASE("a link that leads nowhere is a sample that will fail by name") {
  const DatasetFolder folder;
  folder.add("a/x.jpg");
  fs::create_symlink("gone.jpg", folder.root() / "a" / "lost.jpg");
  const auto index = open_index(folder);
  REQUIRE(index->size() == 2);
  CHECK(index->file_path(0) == "a/lost.jpg");
  CHECK((*index)[0].length == 0);
  CHECK(verify_dataset(*index, 1, null_events(), {}).failures.at(0).cause == "No such file or directory");
}

TEST_CASE("folders nest to any depth") {
  const DatasetFolder folder;
  std::string deep = "a";
  for (int level = 0; level < 300; ++level) deep += "/d";
  folder.add(deep + "/x.jpg");
  CHECK(paths_of(*open_index(folder)).at(0) == deep + "/x.jpg");
}

TEST_CASE("what is wrong with a dataset is said by name") {
  const DatasetFolder folder;
  CHECK(says(open_error(folder, "nowhere"), "no such folder"));
  CHECK(says(open_error(folder), "is empty"));
  fs::create_directories(folder.root() / "empty-class");
  CHECK(says(open_error(folder), "is empty"));
  folder.add("photo.jpg", text_of(test::encode_picture({})));
  CHECK(says(open_error(folder, "photo.jpg"), "one image file"));
  CHECK(says(open_error(folder, "photo.jpg/x"), "no such folder"));
}

TEST_CASE("a folder that may not be read is an error that names it") {
  const DatasetFolder folder;
  folder.add("a/x.jpg");
  folder.add("locked/y.jpg");
  fs::permissions(folder.path(), fs::perms{0755});
  fs::permissions(folder.root() / "locked", fs::perms::none);
  std::string error;
  {
    const WithoutRights rights;
    error = open_error(folder);
  }
  fs::permissions(folder.root() / "locked", fs::perms::owner_all);
  INFO(error);
  CHECK(says(error, (folder.root() / "locked").string()));
  CHECK(says(error, "Permission denied"));
}

TEST_CASE("files without extension are samples when their bytes are a JPEG's and no file has its extension") {
  const DatasetFolder folder;
  const std::string jpeg = text_of(test::encode_picture({}));
  folder.add("a/0001", jpeg);
  folder.add("a/0002", jpeg);
  folder.add("a/list.txt", "0001 0002");
  CHECK(paths_of(*open_index(folder)) == std::vector<std::string>{"a/0001", "a/0002"});
  folder.add("a/0003.jpg", jpeg);
  CHECK(paths_of(*open_index(folder)) == std::vector<std::string>{"a/0003.jpg"});
}

TEST_CASE("formats that are not read yet are named, with the way to convert them, and never called empty") {
  struct Case {
    const char* file;
    const char* name;
    const char* command;
  };
  for (const Case& one : {Case{"train-00000-of-01024", "TFRecord", "TFRecordDataset"},
                          Case{"x.tfrecord", "TFRecord", "python3"},
                          Case{"x.tfrecords", "TFRecord", "python3"},
                          Case{"train.rec", "MXNet RecordIO", "MXRecordIO"},
                          Case{"x.parquet", "Parquet", "pyarrow"},
                          Case{"data.mdb", "LMDB", "lmdb.open"},
                          Case{"x.lmdb", "LMDB", "lmdb.open"},
                          Case{"x.h5", "HDF5", "h5py"},
                          Case{"x.hdf5", "HDF5", "h5py"},
                          Case{"x.npz", "NumPy", "numpy"},
                          Case{"s/shard-0001.tar.gz", "compressed tar", "gunzip"},
                          Case{"s/shard-0001.tgz", "compressed tar", "gunzip"},
                          Case{"s/shard-0001.tar.zst", "compressed tar", "zstd -d"},
                          Case{"a/x.GIF", "GIF", "mogrify"},
                          Case{"x.zip", "zip", "unzip -q 'x.zip'"},
                          Case{"x.beton", "FFCV", "folder of images"},
                          Case{"shard.00000.mds", "MosaicML", "streaming"},
                          Case{"x.mp3", "MP3", "sound"},
                          Case{"x.wav", "WAV", "sound"},
                          Case{"x.flac", "FLAC", "sound"}}) {
    const DatasetFolder folder;
    folder.add(one.file);
    const std::string error = open_error(folder);
    INFO(error);
    CHECK(says(error, one.name));
    CHECK(says(error, "not yet"));
    CHECK(says(error, one.command));
    CHECK(says(error, one.file));
    CHECK_FALSE(says(error, "empty"));
    CHECK_FALSE(says(error, "{{"));
    CHECK(says(open_error(folder, one.file), one.name));
  }
}

TEST_CASE("formats are known by their bytes too") {
  using namespace std::string_literals;
  const std::string lmdb = std::string(16, '\0') + "\xde\xc0\xef\xbe"s;
  for (const auto& [bytes, name] : {std::pair{"PK\x03\x04"s, "zip"},
                                    {"PAR1"s, "Parquet"},
                                    {"\x89HDF\r\n\x1a\n"s, "HDF5"},
                                    {"RIFF....WAVE"s, "WAV"},
                                    {"fLaC"s, "FLAC"},
                                    {"\x0a\x23\xd7\xce"s, "MXNet"},
                                    {lmdb, "LMDB"}}) {
    const DatasetFolder folder;
    folder.add("shard", bytes);
    CHECK(says(open_error(folder), name));
  }
  CHECK(unread_format_of_bytes("") == nullptr);
  CHECK(unread_format_of_name("train.jpg") == nullptr);
  CHECK(unread_format_of_name("one-of-us") == nullptr);
}

TEST_CASE("an index beside its records names the records") {
  const DatasetFolder folder;
  folder.add("train.idx");
  folder.add("train.rec");
  CHECK(says(open_error(folder), "'train.rec'"));
}

TEST_CASE("files of no known kind are named and not called an empty dataset") {
  const DatasetFolder folder;
  folder.add("a.dat", "hello");
  const std::string error = open_error(folder);
  CHECK(says(error, "a.dat"));
  CHECK_FALSE(says(error, "empty"));
}

TEST_CASE("a sampled dataset estimates the whole from the subset") {
  const DatasetFolder folder;
  for (int number = 0; number < 400; ++number) folder.add("a/" + std::to_string(number) + ".jpg", std::string(100, 'x'));
  OpenOptions options;
  options.stat_budget_seconds = 0;
  options.sampled_samples = 50;
  const auto index = open_index(folder, options);
  CHECK(index->size() == 50);
  CHECK(index->file_count() == 50);
  CHECK(index->facts().sizes_sampled);
  CHECK(index->facts().total_samples == 400);
  CHECK(index->facts().total_bytes == 40'000);
  CHECK(index->facts().digest.starts_with("sampled:"));
  folder.add("a/more.jpg", std::string(100, 'x'));
  CHECK(open_index(folder, options)->facts().digest != index->facts().digest);
}

TEST_CASE("the index in the user's cache is used as long as no folder changed") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", "123");
  folder.add("b/y.txt");
  write_index_file(*open_index(folder), default_index_file(folder.root()));
  // The file grows, which no folder tells: an index that is used shows the old size.
  folder.add("a/x.jpg", "123456");
  CHECK((*open_index(folder))[0].length == 3);

  folder.add("b/new.jpg", "1");
  CHECK(open_index(folder)->size() == 2);
  CHECK((*open_index(folder))[0].length == 6);
}

TEST_CASE("a damaged index in the user's cache is said and not used") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", "123");
  const fs::path file = default_index_file(folder.root());
  folder.write(fs::relative(file, folder.path()).string(), "rubbish");
  KeptEvents events;
  CHECK(open_dataset(folder.root(), {}, events, {})->size() == 1);
  REQUIRE(events.notes.size() == 1);
  CHECK(says(events.notes[0], file.string()));
}

TEST_CASE("an index file that the user names is used, with a warning when folders changed") {
  const DatasetFolder folder;
  folder.add("a/x.jpg", "123");
  OpenOptions options;
  options.index_file = folder.path() / "mine.dsidx";
  write_index_file(*open_index(folder), *options.index_file);
  KeptEvents events;
  CHECK(open_dataset(folder.root(), options, events, {})->size() == 1);
  CHECK(events.findings.empty());

  folder.add("a/new.jpg");
  CHECK(open_dataset(folder.root(), options, events, {})->size() == 1);
  REQUIRE(events.findings.size() == 1);
  CHECK(events.findings[0].code == "index-outdated");

  folder.write("other/z.jpg", "1");
  CHECK(says(error_of([&] { open_dataset(folder.path() / "other", options, events, {}); }), "belongs to the dataset"));
}

TEST_CASE("opening a dataset stops on request") {
  const DatasetFolder folder;
  folder.add("a/x.jpg");
  std::stop_source source;
  source.request_stop();
  CHECK_THROWS_AS(open_dataset(folder.root(), {}, null_events(), source.get_token()), Interrupted);
}

TEST_CASE("parallel ranges cover every item once and give back the first piece's exception") {
  std::vector<std::atomic<int>> times(1000);
  parallel_ranges(times.size(), 7, 4, {}, [&](std::size_t first, std::size_t last) {
    for (std::size_t item = first; item < last; ++item) ++times[item];
  });
  CHECK(std::all_of(times.begin(), times.end(), [](const auto& count) { return count == 1; }));
  CHECK(error_of([] { parallel_ranges(10, 1, 1, {}, [](std::size_t first, std::size_t) { throw Error(std::to_string(first)); }); }) == "0");
}
