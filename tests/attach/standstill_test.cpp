#include "attach/standstill.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "../base/temporary_folder.hpp"
#include "base/clock.hpp"

using namespace dsanalyze;

namespace {

const std::string waiting = R"(Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py", line 1182 in _get_data
  File "/job/train "of", line 3 in it.py", line 44 in <module>
)";

const std::string working = R"(Current thread 0x00007f02 (most recent call first):
  <no Python frame>
  File "/opt/lib/python3.9/site-packages/PIL/Image.py", line 3218 in open
  File "/job/data.py", line 12 in __getitem__
  File "/opt/lib/python3.9/site-packages/torch/utils/data/_utils/fetch.py", line 51 in <listcomp>
  File "/opt/lib/python3.9/site-packages/torch/utils/data/_utils/worker.py", line 308 in _worker_loop
  File "/job/train.py", line 44 in <module>
)";

const std::string idle = R"(Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py", line 275 in _worker_loop
  File "/job/train.py", line 44 in <module>
)";

}  // namespace

TEST_CASE("of what faulthandler writes the script's own line comes first") {
  CHECK(main_stack(waiting).size() == 3);
  CHECK(main_stack(waiting).back().file == "/job/train \"of\", line 3 in it.py");
  CHECK(main_stack(waiting).back().line == 44);
  CHECK(place_of(main_stack(working)) == "data.py:12 in __getitem__, PIL/Image.py:3218 in open");
  CHECK(role_of(main_stack(waiting)) == ProcessRole::waiting);
  CHECK(role_of(main_stack(working)) == ProcessRole::working);
  CHECK(role_of(main_stack(idle)) == ProcessRole::idle);
  CHECK(role_of({{"/job/train.py", 3, "<module>"}}) == ProcessRole::training);
  CHECK(role_of({{"/opt/torch/distributed/c10d.py", 3, "all_reduce"}, {"/job/train.py", 3, "<module>"}}) == ProcessRole::with_ranks);
  CHECK(role_of({{"/opt/torch/nn/parallel/distributed.py", 3, "_sync_buffers"}, {"/job/train.py", 3, "<module>"}}) == ProcessRole::with_ranks);
  CHECK(role_of({{"/usr/share/dsanalyze/python/dsanalyze/_attach/link.py", 3, "ask"}, {"/job/train.py", 3, "train"}}) == ProcessRole::with_ranks);
  CHECK(role_of({{"/opt/torch/distributed/elastic/agent/server/api.py", 3, "_invoke_run"}, {"/opt/torch/distributed/run.py", 3, "main"}}) ==
        ProcessRole::training);
  // What a worker was forked from is not where it is.
  CHECK(place_of(main_stack(idle)) == "selectors.py:415 in select");
}

TEST_CASE("what is no stack, or was cut off, gives what can be read of it and no more") {
  CHECK(main_stack("").empty());
  CHECK(main_stack("Current thread 0x1 (most recent call first):").empty());
  CHECK(main_stack("Current thread 0x1 (most recent call first):\n  File \"a.py\", line x in f\n  File \"b.py\", line 3\n  File \"c.py\", line "
                   "99999999999 in f\n")
            .empty());
  CHECK(main_stack("Current thread 0x1 (most recent call first):\n  File \", line 3 in f\n  File \"a.py\", line 7 in g").size() == 1);
  CHECK(place_of({}).empty());
}

TEST_CASE("a process that does not catch the signal is not asked: it would end") {
  const testing::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  folder.write(fmt::format("stacks-{}-50", child), "");
  folder.write("stacks-x-50", "");
  const Standstill found = explain_standstill({{child, ::getpid(), "child"}}, {}, folder.path(), *system_timing().clock);
  CHECK(::kill(child, 0) == 0);
  CHECK(found.cause.empty());
  REQUIRE(found.lines.size() == 2);
  CHECK(found.lines[0].find("does not say where it is") != std::string::npos);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WTERMSIG(status) == SIGKILL);
}
