#include "attach/sandbox/sandbox.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "../base/child_process.hpp"
#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "base/process/spawn.hpp"
#include "base/system/files.hpp"

using namespace dsanalyze;
using testing::says;
namespace fs = std::filesystem;

namespace {

constexpr uid_t ordinary_user = 65534;

MountEntry mount_at(const std::string& point, const std::string& options = "rw,relatime") {
  return {1, "8:1", "/", point, options, "ext4", "/dev/x", "rw"};
}

/// Kinds and paths of steps, in order.
std::vector<std::string> texts_of(const std::vector<MountStep>& steps) {
  constexpr std::array names{"overlay", "bind", "read_only"};
  std::vector<std::string> texts;
  for (const MountStep& step : steps)
    texts.push_back(fmt::format("{} {}{}", names.at(static_cast<std::size_t>(step.kind)), step.path.native(), step.required ? " required" : ""));
  return texts;
}

bool has(const std::vector<std::string>& texts, const std::string& text) { return std::ranges::find(texts, text) != texts.end(); }

/// What a user sees of a tree: a line for each entry, with content, mode, owner, time and number of links.
std::map<std::string, std::string> tree(const fs::path& root) {
  std::map<std::string, std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    struct stat facts {};
    ::lstat(entry.path().c_str(), &facts);
    const std::string content = S_ISREG(facts.st_mode)   ? read_file(entry.path())
                                : S_ISLNK(facts.st_mode) ? fs::read_symlink(entry.path()).native()
                                                         : "";
    lines[entry.path().lexically_relative(root)] = fmt::format("{:o} {} {} {} {}.{} {}", facts.st_mode, facts.st_uid, facts.st_gid, facts.st_nlink,
                                                               facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec, content);
  }
  return lines;
}

/// A user's folder, its layers beside it, and a launch's folder.
struct Home {
  testing::TemporaryFolder folder;
  fs::path work = folder.path() / "work";

  Home() {
    folder.write("work/log.csv", "a,b\n");
    folder.write("work/best.pt", "best");
    folder.write("work/linked", "one file");
    fs::create_hard_link(work / "linked", work / "other name");
    folder.write("work/out/old/1", "1");
    fs::create_symlink("best.pt", work / "latest");
    folder.write("launch/link", "");
  }

  [[nodiscard]] SandboxSettings settings() const {
    return {.layers = folder.path() / "layers", .layers_chosen = false, .working_directory = work, .words = {}, .shared = {}};
  }
  [[nodiscard]] SandboxPlan plan() const { return plan_sandbox(settings()); }
  [[nodiscard]] fs::path launch() const { return folder.path() / "launch"; }
};

/// The exit status of a shell script in the sandbox.
int run_in(const Sandbox& sandbox, const std::string& script) {
  SpawnWay way;
  way.enter = [&sandbox] { return sandbox.enter(); };
  const int process = spawn_command({"/bin/sh", "-ec", script}, {}, way);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Changes of all kinds that an ordinary user's sandbox allows, each seen by the script itself.
const char* const changes = R"(
echo 1,2 >> log.csv; [ $(wc -l < log.csv) = 2 ]
echo new > best.tmp; mv best.tmp best.pt; [ $(cat latest) = new ]
echo changed > linked; chmod 600 linked; touch -d 2001-02-03 log.csv
rm -r out; mkdir -p out/sub; echo 2 > out/sub/2; [ ! -e out/old ]
ln -sf log.csv latest; mkdir made; echo x > made/x; mv made renamed; (echo y > child-of-a-child) &
wait; [ -e renamed/x ]
)";

/// Whether the script runs, and leaves the user's folder as it was.
bool leaves_all_as_it_was(const std::string& script) {
  const Home home;
  const auto before = tree(home.work);
  const SandboxPlan plan = home.plan();
  if (!plan.refusal.empty()) return false;
  const Sandbox sandbox(plan, home.launch());
  return run_in(sandbox, script) == 0 && tree(home.work) == before;
}

/// In a child that is no root any more, where this process is.
int as_ordinary_user(const std::function<bool()>& holds) {
  return testing::in_child([&] {
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(ordinary_user) != 0 || ::setuid(ordinary_user) != 0)) return 1;
    ::prctl(PR_SET_DUMPABLE, 1);  // as after the exec of a login
    ::setenv("HOME", "/nonexistent", 1);
    return holds() ? 0 : 1;
  });
}

bool mounts_are_permitted() {
  const Home home;
  return home.plan().refusal.empty();
}

}  // namespace

TEST_CASE("with rights of its own, each writable mount is an overlay, and what belongs to the system stays") {
  const SandboxSettings settings{.layers = "/var/layers", .layers_chosen = false, .working_directory = "/tmp", .words = {}, .shared = {"/etc"}};
  const auto texts = texts_of(plan_mounts(
      settings, SandboxRights::own, {"/tmp"},
      {mount_at("/"), mount_at("/proc"), mount_at("/usr", "ro,nosuid"), mount_at("/etc/hostname"), mount_at("/var"), mount_at("/dev/shm")}));
  CHECK(texts.front() == "overlay / required");
  CHECK(has(texts, "overlay /var"));
  CHECK(has(texts, "bind /usr"));
  CHECK_FALSE(has(texts, "overlay /dev/shm"));
  for (const char* const folder : {"/dev", "/proc", "/sys"}) CHECK(has(texts, std::string("bind ") + folder));
  CHECK(has(texts, "bind /etc"));
}

TEST_CASE("in a user namespace, overlays begin at writable folders without mounts below, and all else is read-only") {
  const Home home;
  const auto texts = texts_of(plan_mounts(home.settings(), SandboxRights::user_namespace, {home.work}, {mount_at("/")}));
  CHECK(texts.front() == "read_only /");
  CHECK(std::ranges::count_if(texts, [](const std::string& text) { return text.starts_with("overlay") && text.ends_with("required"); }) == 1);
  const std::vector<MountEntry> below{mount_at("/"), mount_at((home.work / "out").native())};
  const auto why = testing::message_of<Error>([&] { plan_mounts(home.settings(), SandboxRights::user_namespace, {home.work}, below); });
  CHECK(says(why, home.work.native()));
  CHECK(says(why, "mounts below"));
}

TEST_CASE("a path lies in a folder by its parts, not by its letters") {
  CHECK(lies_in("/a/b", "/a"));
  CHECK(lies_in("/a", "/a"));
  CHECK(lies_in("/a", "/"));
  CHECK_FALSE(lies_in("/ab", "/a"));
}

TEST_CASE("nothing that a command and its children do reaches the user's files, for root and for an ordinary user") {
  if (!mounts_are_permitted()) return;
  CHECK(leaves_all_as_it_was(changes));
  if (::geteuid() != 0) return;
  CHECK(leaves_all_as_it_was("mv out moved; [ -e moved/old/1 ]; chown 1:1 log.csv"));  // of folders that were there before: for root alone
  CHECK(as_ordinary_user([] { return leaves_all_as_it_was(changes); }) == 0);
}

TEST_CASE("what others do beside a command stays, and the command's folder for its launcher is the launcher's own") {
  const Home home;
  if (!mounts_are_permitted()) return;
  const Sandbox sandbox(home.plan(), home.launch());
  home.folder.write("work/of another", "program");
  CHECK(run_in(sandbox, "[ -e 'of another' ]; echo mine > 'of another'; echo mine > mine; echo heard > ../launch/link") == 0);
  CHECK(read_file(home.work / "of another") == "program");
  CHECK_FALSE(fs::exists(home.work / "mine"));
  CHECK(read_file(home.launch() / "link") == "heard\n");
}

TEST_CASE("a sandbox tells what was written in it, and where it lies until it is gone") {
  const Home home;
  if (!mounts_are_permitted()) return;
  fs::path layer;
  {
    const Sandbox sandbox(home.plan(), home.launch());
    layer = sandbox.layer();
    CHECK(run_in(sandbox,
                 "echo 1 >> log.csv; echo made > made; mv made best.pt; echo made > made; rm linked; mkdir -p __pycache__; echo x > __pycache__/x") ==
          0);
    const SandboxContents contents = sandbox.contents();
    CHECK(contents.files == 4);
    CHECK(std::ranges::is_permutation(
        contents.named, std::vector<std::string>{(home.work / "log.csv").native(), (home.work / "made").native(), (home.work / "best.pt").native()}));
    CHECK(read_file(sandbox.outside(home.work / "made")) == "made\n");
    CHECK(sandbox.outside(home.work / "latest") == home.work / "latest");
    CHECK(run_in(sandbox, "[ -z \"$(ls -A ../layers)\" ]") == 0);  // not to be found by a command that walks the tree
  }
  CHECK_FALSE(fs::exists(layer));
  CHECK_FALSE(fs::exists(layer.parent_path()));
}

TEST_CASE("an inherited descriptor of a folder does not lead out of the sandbox") {
  const Home home;
  if (!mounts_are_permitted()) return;
  const FileDescriptor folder(::open(home.work.c_str(), O_RDONLY | O_DIRECTORY));
  const Sandbox sandbox(home.plan(), home.launch());
  CHECK(run_in(sandbox, fmt::format("[ ! -e /proc/self/fd/{} ]; cd ..; echo lost > work/log.csv", folder.get())) == 0);
  CHECK(read_file(home.work / "log.csv") == "a,b\n");
}

TEST_CASE("the next start removes the layers of an owner that was killed, and leaves those of one that lives") {
  const Home home;
  const SandboxPlan plan = home.plan();
  const Sandbox living(plan, home.launch());
  CHECK(testing::in_child([&] {
          const Sandbox dying(plan, home.launch());
          fs::create_directories(dying.layer() / "0.upper" / "closed");
          fs::permissions(dying.layer() / "0.upper" / "closed", fs::perms::none);
          ::raise(SIGKILL);
          return 0;
        }) == -1);
  const auto layers = [&] { return std::distance(fs::directory_iterator(plan.settings.layers), fs::directory_iterator()); };
  CHECK(layers() == 2);
  {
    const Sandbox next(plan, home.launch());
    CHECK(layers() == 2);
    CHECK(fs::exists(living.layer()));
  }
  CHECK(layers() == 1);
}

TEST_CASE("only layers are swept, and a folder for layers that others may use is refused") {
  const Home home;
  const fs::path layers = home.folder.path() / "layers";
  const auto start = [&] { return testing::message_of<Error>([&] { const Sandbox sandbox(SandboxPlan{home.settings()}, home.launch()); }); };
  home.folder.write("layers/src/main.py", "of the user");
  fs::permissions(layers, fs::perms::owner_all);
  CHECK(start() == "accepted");
  CHECK(read_file(layers / "src/main.py") == "of the user");
  fs::permissions(layers, fs::perms::all);
  CHECK(says(start(), "not this user's alone"));
  fs::rename(layers, home.folder.path() / "others");
  fs::create_symlink("others", layers);
  CHECK(start() != "accepted");
}

TEST_CASE("a command whose folder is not isolated gets no sandbox") {
  SandboxSettings settings{.layers = "/none", .layers_chosen = false, .working_directory = "/dev/shm", .words = {}, .shared = {}};
  CHECK(says(testing::message_of<Error>([&] { written_folders(settings); }), "/dev/shm is not isolated"));
  const Home home;
  settings = home.settings();
  CHECK(written_folders(settings) == std::vector<fs::path>{fs::canonical(home.work)});
  settings.words = {"train.py", "--epochs", "3", "/dev/null", "--log=new/run/log.csv", std::string(10'000, 'x')};
  CHECK(written_folders(settings) == std::vector<fs::path>{fs::canonical(home.work)});
  settings.words = {"--data=/dev/shm/new"};
  CHECK(written_folders(settings) == std::vector<fs::path>{fs::canonical(home.work)});
  settings.words = {};
  settings.shared = {home.work};
  CHECK(says(testing::message_of<Error>([&] { written_folders(settings); }), "is not isolated"));
}

TEST_CASE("an ordinary user gets no sandbox where a folder of another user lies above the working directory") {
  const Home home;
  if (::geteuid() != 0 || !mounts_are_permitted()) return;
  const fs::path place = home.folder.path() / "place", own = place / "of another/own";
  fs::create_directories(own);
  fs::permissions(home.folder.path(), fs::perms::all);
  fs::permissions(place, fs::perms::all);
  CHECK(::chown(own.c_str(), ordinary_user, ordinary_user) == 0);
  CHECK(as_ordinary_user([&] {
          SandboxSettings settings{.layers = place / "layers", .layers_chosen = false, .working_directory = own, .words = {}, .shared = {}};
          return says(plan_sandbox(settings).refusal, "writing where the command may write");
        }) == 0);
}

TEST_CASE("a command that failed in a sandbox is told of it") {
  const Home home;
  const Sandbox sandbox(SandboxPlan{home.settings()}, home.launch());
  CHECK(says(sandbox.way_out(), "--keep-output"));
}
