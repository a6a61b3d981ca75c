#include "base/process/processes.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

void write_process(const TemporaryFolder& folder, int pid, const std::string& command, int user, int system, int started) {
  folder.write("proc/" + std::to_string(pid) + "/stat", std::to_string(pid) + " (" + command + ") R 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(user) +
                                                            " " + std::to_string(system) + " 0 0 20 0 1 0 " + std::to_string(started) + " 0 0\n");
}

}  // namespace

TEST_CASE("what processes use between two looks is added up, the busiest first, whatever their names hold") {
  const TemporaryFolder folder;
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  write_process(folder, 10, "quiet", 500, 500, 1);
  write_process(folder, 11, "odd) R (name", 100, 0, 2);
  write_process(folder, ::getpid(), "this one", 0, 0, 3);
  folder.write("proc/12/stat", "12 (cut");
  folder.write("proc/uptime", "1 1\n");
  ProcessWatch watch(folder.path());
  watch.look();
  CHECK(watch.used().empty());
  write_process(folder, 10, "quiet", 501, 500, 1);
  write_process(folder, 11, "odd) R (name", 140, 10, 2);
  write_process(folder, ::getpid(), "this one", 900, 0, 3);
  write_process(folder, 13, "new", 20, 0, 4);
  watch.look();
  const auto used = watch.used();
  REQUIRE(used.size() == 3);
  CHECK(used[0].pid == 11);
  CHECK(used[0].command == "odd) R (name");
  CHECK(used[0].cpu_seconds == doctest::Approx(50 * tick));
  CHECK(used[1].command == "new");
  CHECK(used[1].cpu_seconds == doctest::Approx(20 * tick));
  CHECK(used[2].cpu_seconds == doctest::Approx(tick));
}

TEST_CASE("a number that is used again is another process") {
  const TemporaryFolder folder;
  write_process(folder, 10, "first", 500, 0, 1);
  ProcessWatch watch(folder.path());
  watch.look();
  write_process(folder, 10, "second", 7, 0, 2);
  watch.look();
  REQUIRE(watch.used().size() == 1);
  CHECK(watch.used()[0].command == "second");
}
