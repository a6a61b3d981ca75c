#include "loaders/fetch/storage_meter.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "../../base/temporary_folder.hpp"
#include "../../base/texts.hpp"
#include "../dataset/dataset_folder.hpp"
#include "../dataset/opened_dataset.hpp"

namespace dsanalyze {
namespace {

using testing::DatasetFolder;
using testing::says;

/// A folder with a sample in memory, gone at its end.
struct MemoryFolder {
  explicit MemoryFolder(const std::string& name) : path(std::filesystem::path("/dev/shm") / name) {
    std::filesystem::create_directories(path);
    std::ofstream(path / "1.jpg") << "x";
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  MemoryFolder(MemoryFolder&&) = delete;
  MemoryFolder& operator=(MemoryFolder&&) = delete;
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

/// A dataset of classes a, b and c, where b lies on a synthetic filesystem of its own.
class TwoFilesystems : public DatasetFolder {
 public:
  explicit TwoFilesystems(const std::string& filesystem) {
    for (const char* name : {"a/1.jpg", "b/1.jpg", "b/2.jpg", "c/1.jpg"}) add(name);
    const std::string place = std::filesystem::canonical(root()).string();
    write("fake/proc/self/mountinfo", "20 1 254:0 / / rw - ext4 /dev/vda rw\n30 20 0:50 / " + place + "/b rw - " + filesystem + " rw\n");
    write("fake/proc/self/io", "read_bytes: 4096\n");
    write("fake/proc/self/mountstats",
          "device filer:/export mounted on " + place + "/b with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 987654 6 7 8\n");
    index = testing::open_index(root());
    system = {[](const std::filesystem::path& path) { return std::optional<std::uint64_t>(path.parent_path().filename() == "b" ? 2 : 1); },
              path() / "fake"};
    places = storage_places(*index, system, {});
  }
  [[nodiscard]] std::string uncounted() const { return uncounted_place(StorageMeter(root(), system.root), *index, places); }

  std::shared_ptr<const DatasetIndex> index;
  SystemStorage system;
  std::vector<StoragePlace> places;
};

TEST_CASE("every filesystem that holds files of a dataset is found, with its files") {
  const TwoFilesystems data("xfs /dev/vdb");
  REQUIRE(data.places.size() == 2);
  CHECK(data.places[0].meter.filesystem() == "ext4");
  CHECK(data.places[0].files == std::vector<std::uint32_t>{0, 3});
  CHECK(data.places[1].meter.filesystem() == "xfs");
  CHECK(data.places[1].files == std::vector<std::uint32_t>{1, 2});
}

TEST_CASE("a part of a dataset on a filesystem that the counter does not count is named; one on another disk is counted") {
  CHECK(TwoFilesystems("xfs /dev/vdb").uncounted().empty());
  for (const char* filesystem : {"fuse.sshfs sshfs", "tmpfs tmpfs", "virtiofs share", "nfs4 filer:/export"}) {
    const TwoFilesystems data(filesystem);
    const std::string why = data.uncounted();
    INFO(why);
    CHECK(says(why, (data.root() / "b/1.jpg").string()));
    CHECK(says(why, data.places[1].meter.filesystem()));
  }
}

TEST_CASE("a dataset on one filesystem is left to what its meter says") {
  const DatasetFolder folder;
  folder.add("a/1.jpg");
  folder.add("b/1.jpg");
  const auto index = testing::open_index(folder.root());
  const auto places = storage_places(*index, system_storage(), {});
  REQUIRE(places.size() == 1);
  CHECK(places[0].files.size() == 2);
  CHECK(uncounted_place(StorageMeter(folder.root()), *index, places).empty());
}

TEST_CASE("a dataset on a loop device is uncounted, and the file behind the device is named") {
  const TwoFilesystems data("ext4 /dev/loop0");
  data.write("fake/sys/block/loop0/loop/backing_file", "/srv/data.img\n");
  std::filesystem::create_directories(data.path() / "fake/sys/dev/block");
  std::filesystem::create_directory_symlink(data.path() / "fake/sys/block/loop0", data.path() / "fake/sys/dev/block/0:50");
  const auto places = storage_places(*data.index, data.system, {});
  REQUIRE(places.size() == 2);
  CHECK(says(uncounted_place(places[0].meter, *data.index, places), "b/1.jpg lies on loop0; loop0 reads from the file /srv/data.img"));
  CHECK(says(uncounted_place(places[1].meter, *data.index, std::span(places).last(1)), "loop0 reads from the file"));
}

TEST_CASE("a class folder that is a link into memory is found where it leads") {
  const DatasetFolder folder;
  if (StorageMeter("/dev/shm").filesystem() != "tmpfs" || StorageMeter(folder.root()).filesystem() == "tmpfs") return;
  const MemoryFolder linked(folder.path().filename().string());
  folder.add("a/1.jpg");
  std::filesystem::create_directory_symlink(linked.path, folder.root() / "b");
  const auto index = testing::open_index(folder.root());
  REQUIRE(index->size() == 2);
  const auto places = storage_places(*index, system_storage(), {});
  CHECK(places.size() == 2);
  CHECK(says(uncounted_place(StorageMeter(folder.root()), *index, places), "b/1.jpg lies on tmpfs"));
}

}  // namespace
}  // namespace dsanalyze
