#include "attach/launch.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include "../base/hurried_timing.hpp"
#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using testing::message_of;
using testing::says;

namespace {

/// A process that uses PyTorch, as far as the launcher can see: it has a file of that name in its memory. It speaks where it is asked to, and then
/// ends by itself.
const char* const speaker = R"(
import mmap, os, socket, sys, time
folder = os.path.dirname(os.environ["DSANALYZE_ATTACH"])
if sys.argv[2] == "importing":
    open(os.path.join(folder, "torch-%d" % os.getpid()), "w").close()
with open(sys.argv[1], "rb") as file:
    library = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
time.sleep(0.1)
if sys.argv[2] in ("speaks", "stands"):
    link = socket.socket(socket.AF_UNIX)
    link.connect(os.environ["DSANALYZE_ATTACH"])
    link.sendall(b'{"t":"hello","pid":%d,"rank":0,"world":1}\n' % os.getpid())
time.sleep(60 if sys.argv[2] in ("nothing", "stands") else 1.8)
)";

std::string end_of_a_process_that(const std::string& does, double start_seconds = 600) {
  const testing::TemporaryFolder folder;
  folder.write("speaker.py", speaker);
  folder.write("libtorch_cpu.so", "a library");
  std::filesystem::create_directory(folder.path() / "launch");
  LaunchSettings settings;
  settings.command = {"python3", folder.path() / "speaker.py", folder.path() / "libtorch_cpu.so", does};
  settings.hook = folder.path() / "no-hook";
  settings.folder = folder.path() / "launch";
  settings.start_seconds = start_seconds;
  testing::HurriedTiming hurried(25);
  return message_of<Error>([&] { launch_training(settings, null_events(), {}, hurried.timing()); });
}

/// A real run of a shell script.
LaunchedTraining passive_run_of(const std::string& script, const std::stop_token& stop = {}) {
  const testing::TemporaryFolder folder;
  LaunchSettings settings;
  settings.mode = AttachMode::passive;
  settings.command = {"sh", "-c", script};
  settings.hook = folder.path() / "no-hook";
  settings.folder = folder.path();
  return launch_training(settings, null_events(), stop, system_timing());
}

}  // namespace

TEST_CASE("a process that uses PyTorch without the hook is named, however long it runs") {
  CHECK(says(end_of_a_process_that("nothing"), "without having loaded dsanalyze's hook"));
}

TEST_CASE("a process whose hook has spoken may take its time for the first step") {
  CHECK(says(end_of_a_process_that("speaks"), "before a training step was seen"));
}

TEST_CASE("a training whose first batch never comes is ended once its start has taken too long") {
  const std::string said = end_of_a_process_that("stands", 20);
  CHECK(says(said, "no training step was recognised"));
  CHECK(says(said, "The command has run for 20 s"));
}

TEST_CASE("a process whose hook has seen the import of PyTorch may take its time to import it") {
  CHECK(says(end_of_a_process_that("importing"), "without having used PyTorch's DataLoader"));
}

TEST_CASE("how the command of a real run ended is its exit status or its signal") {
  const LaunchedTraining exited = passive_run_of("exit 7");
  CHECK(exited.exit_status == 7);
  CHECK_FALSE(exited.signal.has_value());
  const LaunchedTraining killed = passive_run_of("kill -9 $$");
  CHECK(killed.signal == SIGKILL);
  CHECK_FALSE(killed.exit_status.has_value());
}

TEST_CASE("a real run that was asked to stop before its command was started does not start it") {
  const testing::TemporaryFolder folder;
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(passive_run_of("touch " + (folder.path() / "started").native(), stop.get_token()), Interrupted);
  CHECK(folder.entries() == 0);
  CHECK_FALSE(SignalRelay::relay(SIGUSR1, false));
}

TEST_CASE("from a command that cannot be started no relay stays") {
  const testing::TemporaryFolder folder;
  LaunchSettings settings;
  settings.mode = AttachMode::passive;
  settings.command = {"/nowhere/program"};
  settings.folder = folder.path();
  CHECK_THROWS_AS(launch_training(settings, null_events(), {}, system_timing()), UsageError);
  CHECK_FALSE(SignalRelay::relay(SIGUSR1, false));
}

TEST_CASE("the hook learns how patient the launch is") {
  const testing::TemporaryFolder folder;
  LaunchSettings settings;
  settings.mode = AttachMode::passive;
  settings.command = {"sh", "-c", "test \"$DSANALYZE_ATTACH_PATIENCE\" = 1.5"};
  settings.plan.hang_seconds = 1.5;
  settings.folder = folder.path();
  CHECK(launch_training(settings, null_events(), {}, system_timing()).exit_status == 0);
}
