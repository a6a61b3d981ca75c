#include "attach/outputs.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../base/temporary_folder.hpp"
#include "base/system/files.hpp"

using namespace dsanalyze;

namespace {

void write(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << content;
}

/// A run's journals beside the user's files.
struct Run {
  testing::TemporaryFolder folder;
  int at = 0;
  std::filesystem::path of(const std::string& name) const { return folder.path() / name; }
  void journal(const std::string& done, const std::string& name, const std::string& more = "", const std::string& process = "1") {
    const std::filesystem::path place = std::filesystem::exists(of("output")) ? of("output") : of("early");
    std::filesystem::create_directories(place);
    std::ofstream file(place / ("journal-" + process), std::ios::app);
    for (const std::string& text : {done, std::to_string(++at), of(name).native(), more}) file << text << '\0';
  }
  /// path was renamed to another name, under which it lies now.
  void journal_move(const std::string& from, const std::string& to, const std::string& process) {
    struct stat found {};
    REQUIRE(::lstat(of(to).c_str(), &found) == 0);
    journal("moved", from, std::to_string(found.st_ino) + ":" + of(to).native(), process);
  }
  /// From now on what is made is the run's.
  void begin() const {
    std::filesystem::create_directories(of("output"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a filesystem's clock may step by 10
  }
  /// What was written before begin() are originals, or all of it.
  OutputsUndone undo() const {
    std::filesystem::create_directories(of("output"));
    if (std::filesystem::exists(of("early")))
      for (const auto& journal : std::filesystem::directory_iterator(of("early")))
        std::filesystem::rename(journal, of("output") / journal.path().filename());
    return undo_outputs(of("output"), {of("temporary")});
  }
};

}  // namespace

TEST_CASE("changes are taken back, the latest first, of all processes together") {
  Run run;
  run.journal("place", "kept");
  run.journal("kept", "last.pt", run.of("kept/1"));
  write(run.of("kept/1"), "original");
  write(run.of("older.pt"), "of the run");
  run.journal_move("last.pt", "older.pt", "2");  // not of the original, which had gone aside
  run.journal("new", "last.pt", "", "2");
  write(run.of("last.pt"), "of the run");
  run.journal("made", "runs/new");
  run.journal("new", "runs/new/a.pt");
  write(run.of("runs/new/a.pt"), "of the run");
  run.journal("grown", "log.txt", "4");
  write(run.of("log.txt"), "old new");
  run.journal("gone", "removed", std::to_string(0750));
  const OutputsUndone undone = run.undo();
  CHECK(undone.failures.empty());
  CHECK(read_file(run.of("last.pt")) == "original");
  CHECK(read_file(run.of("log.txt")) == "old ");
  CHECK_FALSE(std::filesystem::exists(run.of("runs/new")));
  CHECK_FALSE(std::filesystem::exists(run.of("older.pt")));
  CHECK_FALSE(std::filesystem::exists(run.of("kept")));
  CHECK(std::filesystem::status(run.of("removed")).permissions() == std::filesystem::perms(0750));
  CHECK(undone.removed == 2);
  CHECK(undone.restored == 3);
}

TEST_CASE("what another process of the run made and the script removed is no original, and stays removed") {
  Run run;
  write(run.of("kept/1"), "the user's");
  run.begin();
  write(run.of("kept/2"), "of a program that the script started");
  write(run.of("kept/3"), "of a program that the script started");
  write(run.of("kept/4"), "of a program that the script started");
  write(run.of("kept/5"), "of another process of the script");
  write(run.of("temporary/c"), "written over it");
  run.journal("place", "kept");
  run.journal("kept", "temporary/a", run.of("kept/1"));
  run.journal("kept", "temporary/b", run.of("kept/2"));
  run.journal("kept", "temporary/c", run.of("kept/3"));
  run.journal("made", "results", "", "2");
  run.journal("kept", "results/part", run.of("kept/4"));
  run.journal("new", "log", "", "2");
  run.journal("kept", "log", run.of("kept/5"));
  const OutputsUndone undone = run.undo();
  CHECK(undone.failures.empty());
  CHECK(read_file(run.of("temporary/a")) == "the user's");
  CHECK_FALSE(std::filesystem::exists(run.of("temporary/b")));
  CHECK(read_file(run.of("temporary/c")) == "of a program that the script started");
  CHECK_FALSE(std::filesystem::exists(run.of("results")));
  CHECK_FALSE(std::filesystem::exists(run.of("log")));
  CHECK_FALSE(std::filesystem::exists(run.of("kept")));
}

TEST_CASE("what a program outside the run put where the script looks, and the script removed, is the user's and comes back") {
  Run run;
  run.begin();
  write(run.of("kept/1"), "a job for the script");
  run.journal("place", "kept");
  run.journal("kept", "spool/job", run.of("kept/1"));
  CHECK(run.undo().restored == 1);
  CHECK(read_file(run.of("spool/job")) == "a job for the script");
}

TEST_CASE("a folder that was renamed, and then removed under its new name, is there again") {
  Run run;
  std::filesystem::create_directories(run.of("latest.old"));
  run.journal_move("latest", "latest.old", "1");
  run.journal("kept", "latest.old/a", run.of("kept/1"));
  write(run.of("kept/1"), "original");
  run.journal("gone", "latest.old", std::to_string(0750));
  std::filesystem::remove(run.of("latest.old"));
  write(run.of("other"), "takes the inode of the removed folder");
  const OutputsUndone undone = run.undo();
  CHECK(undone.failures.empty());
  CHECK(read_file(run.of("latest/a")) == "original");
  CHECK_FALSE(std::filesystem::exists(run.of("latest.old")));
}

TEST_CASE("what was renamed and is nowhere is named") {
  Run run;
  write(run.of("b"), "another file");
  run.journal("moved", "a", "1:" + run.of("b").native());
  CHECK(run.undo().failures.size() == 1);
}

TEST_CASE("a list of changes that is gone is told, with where the originals lie; a list of none is not") {
  Run run;
  run.begin();
  CHECK(run.undo().failures.empty());
  std::filesystem::remove_all(run.of("output"));
  const OutputsUndone undone = undo_outputs(run.of("output"));
  REQUIRE(undone.failures.size() == 1);
  CHECK(undone.failures.front().find(".dsanalyze-kept-") != std::string::npos);
}

TEST_CASE("what was cut off or never happened is passed over, and taking back twice changes nothing more") {
  Run run;
  write(run.of("a"), "as it was");
  write(run.of("b"), "as it was");
  run.journal("kept", "a", run.of("kept/1"));  // the process was killed before it set a aside
  write(run.of("c"), "another file");
  run.journal("moved", "b", "1:" + run.of("c").native());
  run.journal("new", "d");
  std::ofstream(run.of("output/journal-1"), std::ios::app) << "new" << '\0' << "9" << '\0' << run.of("a").native();
  for (int i = 0; i < 2; ++i) {
    const OutputsUndone undone = run.undo();
    CHECK(undone.removed + undone.restored == 0);
    CHECK(undone.failures.empty());
    CHECK(read_file(run.of("a")) == "as it was");
    CHECK(read_file(run.of("b")) == "as it was");
  }
}

TEST_CASE("a file that was removed and made anew is the original again, however often its changes are taken back") {
  Run run;
  run.journal("kept", "a", run.of("kept/1"));
  write(run.of("kept/1"), "original");
  run.journal("new", "a");
  write(run.of("a"), "of the run");
  for (int i = 0; i < 3; ++i) {
    CHECK(run.undo().failures.empty());
    CHECK(read_file(run.of("a")) == "original");
  }
}

TEST_CASE("a copy goes back into the file itself, under all of its names; half a copy is none") {
  Run run;
  run.journal("place", "kept");
  write(run.of("a"), "changed, and longer");
  std::filesystem::create_hard_link(run.of("a"), run.of("b"));
  run.journal("copied", "a", run.of("kept/1"));
  write(run.of("kept/1"), "original");
  run.journal("copied", "c", run.of("kept/2"));
  write(run.of("kept/2.part"), "orig");
  write(run.of("c"), "as it was");
  CHECK(run.undo().failures.empty());
  CHECK(read_file(run.of("b")) == "original");
  CHECK(read_file(run.of("c")) == "as it was");
  CHECK(std::filesystem::hard_link_count(run.of("a")) == 2);
  CHECK_FALSE(std::filesystem::exists(run.of("kept")));
}

TEST_CASE("what was renamed does not replace what has come in its place, and is named") {
  Run run;
  write(run.of("b"), "original");
  run.journal_move("a", "b", "1");
  write(run.of("a"), "of another program");
  CHECK(run.undo().failures.size() == 1);
  CHECK(read_file(run.of("a")) == "of another program");
  CHECK(read_file(run.of("b")) == "original");
}

TEST_CASE("an original that cannot go back stays where it lies, and is named") {
  Run run;
  run.journal("place", "kept");
  run.journal("kept", "a", run.of("kept/1"));
  write(run.of("kept/1"), "original");
  write(run.of("a/in the way"), "of another program");
  const OutputsUndone undone = run.undo();
  REQUIRE(undone.failures.size() == 1);
  CHECK(undone.failures.front().find(run.of("kept/1").native()) != std::string::npos);
  CHECK(read_file(run.of("kept/1")) == "original");
}
