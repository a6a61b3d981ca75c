#include "base/process/process_tree.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "base/process/spawn.hpp"
#include "sanitizers.hpp"
#include "soon.hpp"
#include "temporary_folder.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::becomes_true;
using testing::TemporaryFolder;

namespace {

void write_process(const TemporaryFolder& folder, int pid, int parent, char state, int ticks, int collected) {
  const std::string number = std::to_string(pid);
  folder.write(number + "/stat", number + " (a (b) c) " + state + " " + std::to_string(parent) + " 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) +
                                     " 0 " + std::to_string(collected) + " 0 20 0 1 0 7 4096 2\n");
  folder.write(number + "/io", "rchar: 1000\nwchar: 5\nread_bytes: 100\n");
}

}  // namespace

TEST_CASE("a tree is all descendants, with what collected ones used, without other processes") {
  const TemporaryFolder folder;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  write_process(folder, 10, 1, 'S', 1000, 50);  // the root: what its collected children used counts, what it used does not
  write_process(folder, 11, 10, 'R', 7, 3);
  write_process(folder, 12, 11, 'S', 20, 0);
  write_process(folder, 13, 12, 'Z', 5, 0);
  write_process(folder, 14, 1, 'R', 500, 0);
  folder.write("pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
  const ProcessTree tree(10, folder.path());
  CHECK(tree.living().size() == 2);
  const TreeUse use = tree.use();
  CHECK(use.processes == 2);
  CHECK(use.cpu_seconds == doctest::Approx(85 * tick));
  CHECK(use.requested_bytes == 4000);  // the root's counters hold those of its collected children
  CHECK(use.storage_bytes == Bytes{400});
  CHECK(use.storage_wait_seconds == doctest::Approx(2.5));
  CHECK(tree.memory().empty());
  folder.write("11/smaps_rollup", "7f00-7f01 ---p 0 0:0 0 [rollup]\nRss: 900 kB\nPss: 300 kB\nPss_Anon: 100 kB\nPss_File: 180 kB\n");
  folder.write("12/smaps_rollup", "7f00-7f01 ---p 0 0:0 0 [rollup]\nRss: 900 kB\nPss: 40 kB\n");  // of a kernel that does not tell files apart
  folder.write("14/smaps_rollup", "Pss: 1000 kB\n");
  CHECK(tree.memory() == std::map<int, Bytes>{{11, 120 * 1024}, {12, 40 * 1024}});
  folder.write("12/maps", "7f00-7f01 r-xp 0 0:0 0 /opt/libtorch_cpu.so\n");
  CHECK(tree.maps(12, "libtorch"));
  CHECK_FALSE(tree.maps(12, "libnothing"));
  CHECK_FALSE(tree.maps(11, "libtorch"));
}

TEST_CASE("what a tree used goes on from an earlier part in all that is counted, and what one of the looks did not count is not known") {
  const auto use_of = [](double all) {
    TreeUse use;
    use.at = to_nanoseconds(all);
    use.cpu_seconds = 2 * all;
    use.requested_bytes = static_cast<Bytes>(3 * all);
    use.storage_bytes = static_cast<Bytes>(4 * all);
    use.traced_bytes = static_cast<Bytes>(5 * all);
    use.network_bytes = static_cast<Bytes>(6 * all);
    use.machine_cpu_seconds = 7 * all;
    use.storage_wait_seconds = 8 * all;
    use.processes = static_cast<std::size_t>(all);
    return use;
  };
  const TreeUse later = moved(use_of(10), use_of(40), use_of(90));
  CHECK(later.at == to_nanoseconds(60));
  CHECK(later.cpu_seconds == doctest::Approx(120));
  CHECK(later.requested_bytes == 180);
  CHECK(later.storage_bytes == Bytes{240});
  CHECK(later.traced_bytes == Bytes{300});
  CHECK(later.network_bytes == Bytes{360});
  CHECK(*later.machine_cpu_seconds == doctest::Approx(420));
  CHECK(*later.storage_wait_seconds == doctest::Approx(480));
  CHECK(later.processes == 90);
  for (const int without : {0, 1, 2}) {
    std::array<TreeUse, 3> uses{use_of(10), use_of(40), use_of(90)};
    uses[static_cast<std::size_t>(without)] = TreeUse{};
    uses[static_cast<std::size_t>(without)].storage_bytes.reset();
    const TreeUse unknown = moved(uses[0], uses[1], uses[2]);
    CHECK_FALSE(unknown.storage_bytes);
    CHECK_FALSE(unknown.traced_bytes);
    CHECK_FALSE(unknown.network_bytes);
    CHECK_FALSE(unknown.machine_cpu_seconds);
    CHECK_FALSE(unknown.storage_wait_seconds);
  }
}

TEST_CASE("a command that is not there is named, and one that is has the added environment" * doctest::skip(testing::fork_may_hang)) {
  CHECK(testing::says(testing::message_of([] { spawn_command({"/nowhere/program"}, {}, {}); }), "/nowhere/program"));
  const pid_t process = spawn_command({"sh", "-c", "test \"$DSANALYZE_TRY\" = 'a b'"}, {"DSANALYZE_TRY=a b"}, {});
  std::optional<int> status;
  CHECK(becomes_true([&] {
    status = collect_children(process);
    return status.has_value();
  }));
  CHECK(status == 0);
}

TEST_CASE("descendants that left their session, ignore SIGTERM or are stopped are ended, too" * doctest::skip(testing::fork_may_hang)) {
  REQUIRE(adopt_orphans());
  spawn_command({"sh", "-c", "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600 & wait' & sleep 600 & kill -STOP $!; wait"}, {}, {});
  const ProcessTree tree(::getpid());
  CHECK(becomes_true([&] { return tree.living().size() >= 4; }));
  CHECK(end_descendants(0.2).empty());
  CHECK(tree.living().empty());
}

TEST_CASE("what cleans up after others has the time to do so once they have ended" * doctest::skip(testing::fork_may_hang)) {
  REQUIRE(adopt_orphans());
  const TemporaryFolder folder;
  const pid_t other = spawn_command({"sh", "-c", "trap '' TERM; sleep 600 & wait; wait"}, {}, {});
  const std::string cleaned = (folder.path() / "cleaned").native();
  const pid_t cleaner = spawn_command({"sh", "-c",
                                       ": multiprocessing.resource_tracker; while kill -0 " + std::to_string(other) +
                                           " 2>/dev/null; do sleep 0.05; done; sleep 0.3; touch " + cleaned},
                                      {}, {});
  CHECK(becomes_true([&] { return cleans_up_after_others(cleaner); }));
  CHECK_FALSE(cleans_up_after_others(other));
  const ProcessTree tree(::getpid());
  CHECK(becomes_true([&] { return tree.living().size() >= 4; }));
  CHECK(end_descendants(0.1).empty());
  CHECK(std::filesystem::exists(cleaned));
}

TEST_CASE("what cleans up after others, and does not end by itself in five seconds, is ended" * doctest::skip(testing::fork_may_hang)) {
  REQUIRE(adopt_orphans());
  const TemporaryFolder folder;
  folder.write("multiprocessing.resource_tracker", "");
  const pid_t cleaner = spawn_command({"tail", "-f", (folder.path() / "multiprocessing.resource_tracker").native()}, {}, {});
  REQUIRE(becomes_true([&] { return cleans_up_after_others(cleaner); }));
  CHECK(end_descendants(0.1).empty());
  CHECK(::kill(cleaner, 0) != 0);
}
