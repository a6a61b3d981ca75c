#include "attach/memory_watch.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("where the kernel has ended processes for want of memory, the peak of all and those that have grown are told") {
  const TemporaryFolder folder;
  const auto write = [&folder](int process, int parent, int megabytes) {
    const std::string number = std::to_string(process);
    folder.write(number + "/stat", number + " (worker) S " + std::to_string(parent) + " 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 7 4096 2\n");
    folder.write(number + "/smaps_rollup", "7f00-7f01 ---p 0 0:0 0 [rollup]\nPss: " + std::to_string(megabytes * 1024) + " kB\n");
  };
  folder.write("vmstat", "nr_free_pages 12\noom_kill 3\npgfault 9\n");
  write(10, 1, 1);
  write(11, 10, 100);
  write(12, 10, 40);
  MemoryWatch watch(folder.path());
  const ProcessTree tree(10, folder.path());
  watch.look(tree);
  write(11, 10, 900);
  watch.look(tree);
  write(11, 10, 500);
  watch.look(tree);
  CHECK(watch.kills_text().empty());
  folder.write("vmstat", "nr_free_pages 12\noom_kill 4\npgfault 9\n");
  const std::string text = watch.kills_text();
  CHECK(says(text, "the kernel ended 1 process of this machine"));
  CHECK(says(text, "used 940 MiB at the most, PID 11 (worker) grew from 100 MiB to 500 MiB"));
  CHECK_FALSE(says(text, "PID 12"));
}
