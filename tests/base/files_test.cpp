#include "base/system/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "base/error.hpp"
#include "child_process.hpp"
#include "temporary_folder.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::in_child;
using testing::TemporaryFolder;

namespace {

mode_t mode_of(const std::filesystem::path& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

std::string failure(const std::filesystem::path& path) {
  try {
    write_file_atomically(path, "x");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a descriptor is closed by its last owner and no other") {
  const int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    FileDescriptor first(raw);
    FileDescriptor second(std::move(first));
    CHECK(is_open(raw));
    CHECK(second.get() == raw);
    FileDescriptor third;
    third = std::move(second);
    CHECK(third.valid());
    CHECK(is_open(raw));
  }
  CHECK_FALSE(is_open(raw));
}

TEST_CASE("a file is read whole, of unknown size too, and refused past its limit") {
  const TemporaryFolder folder;
  const std::string content(200'000, 'x');
  folder.write("a", content);
  CHECK(read_file(folder.path() / "a") == content);
  CHECK(read_file(folder.path() / "a", content.size()) == content);
  CHECK_THROWS_AS(read_file(folder.path() / "a", content.size() - 1), Error);
  CHECK(read_file("/proc/self/status").starts_with("Name:"));
}

TEST_CASE("errors name the file and the cause") {
  CHECK_THROWS_WITH_AS(read_file("/nowhere/x"), "cannot open /nowhere/x: No such file or directory", Error);
  CHECK_THROWS_WITH_AS(MappedFile("/nowhere/x"), "cannot open /nowhere/x: No such file or directory", Error);
  CHECK_THROWS_WITH_AS(read_file("/proc"), "cannot read /proc: Is a directory", Error);
  CHECK_THROWS_WITH_AS(MappedFile("/dev/null"), "cannot map /dev/null: it is not a regular file", Error);
}

TEST_CASE("a mapped file shows its content, also after it moved; an empty one an empty view") {
  const TemporaryFolder folder;
  folder.write("a", "content");
  folder.write("empty", "");
  MappedFile first(folder.path() / "a");
  MappedFile second(std::move(first));
  CHECK(second.view() == "content");
  MappedFile third(folder.path() / "empty");
  CHECK(third.view().empty());
  third = std::move(second);
  CHECK(third.view() == "content");
}

TEST_CASE("an atomic write makes and replaces a file and leaves nothing else") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "result.json";
  for (const TemporaryKind kind : {TemporaryKind::unnamed, TemporaryKind::named}) {
    write_file_atomically(path, "one", kind);
    CHECK(read_file(path) == "one");
    write_file_atomically(path, "second", kind);
    CHECK(read_file(path) == "second");
    CHECK(folder.entries() == 1);
    std::filesystem::remove(path);
  }
}

TEST_CASE("a new file has the mode that the umask leaves, a replaced one keeps its own") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a";
  for (const TemporaryKind kind : {TemporaryKind::unnamed, TemporaryKind::named}) {
    const mode_t before = ::umask(027);
    write_file_atomically(path, "one", kind);
    ::umask(before);
    CHECK(mode_of(path) == 0640);
    ::chmod(path.c_str(), 0604);
    write_file_atomically(path, "two", kind);
    CHECK(mode_of(path) == 0604);
    std::filesystem::remove(path);
  }
}

TEST_CASE("an atomic write through a symbolic link replaces the file, not the link") {
  const TemporaryFolder folder;
  folder.write("real", "old");
  std::filesystem::create_symlink("real", folder.path() / "link");
  write_file_atomically(folder.path() / "link", "new");
  CHECK(std::filesystem::is_symlink(folder.path() / "link"));
  CHECK(read_file(folder.path() / "real") == "new");
}

TEST_CASE("special files are written in place") {
  write_file_atomically("/dev/null", "gone");
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("whether a file can be written is known before there is anything to write") {
  const TemporaryFolder folder;
  folder.write("there", "old");
  CHECK_NOTHROW(require_writable(folder.path() / "new"));
  CHECK_NOTHROW(require_writable(folder.path() / "there"));
  CHECK_NOTHROW(require_writable("/dev/null"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
  CHECK(read_file(folder.path() / "there") == "old");
  CHECK_THROWS_WITH_AS(require_writable(folder.path() / "no" / "a"), doctest::Contains("does not exist; make it first"), Error);
  CHECK_THROWS_WITH_AS(require_writable(folder.path()), doctest::Contains("it is a folder"), Error);
  CHECK_THROWS_WITH_AS(require_writable(""), doctest::Contains("does not name a file"), Error);
}

TEST_CASE("a reader that holds the old file keeps it whole") {
  const TemporaryFolder folder;
  folder.write("a", "old content");
  const MappedFile old(folder.path() / "a");
  write_file_atomically(folder.path() / "a", "new");
  CHECK(old.view() == "old content");
}

TEST_CASE("a missing folder, a folder as target and a name of nothing are said plainly") {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "no" / "a").native();
  CHECK(failure(missing) == "cannot write " + missing + ": the folder " + (folder.path() / "no").native() + " does not exist; make it first");
  CHECK(failure(folder.path()) == "cannot write " + folder.path().native() + ": it is a folder; name a file in it");
  CHECK(failure("") == "cannot write \"\": it does not name a file");
}

TEST_CASE("where a filesystem has no unnamed files a named one is tried, and its error is the one that is told") {
  const std::string told = failure("/sys/nothing");
  CHECK(told.starts_with("cannot write /sys/nothing: "));
  CHECK_FALSE(testing::says(told, "not supported"));
}

TEST_CASE("a write that runs out of space leaves the old file and nothing else") {
  const TemporaryFolder folder;
  folder.write("a", "old");
  for (const TemporaryKind kind : {TemporaryKind::unnamed, TemporaryKind::named}) {
    const int status = in_child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{65'536, 65'536};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      try {
        write_file_atomically(folder.path() / "a", std::string(1'048'576, 'x'), kind);
      } catch (const Error& error) {
        return std::string(error.what()).find("File too large") == std::string::npos ? 2 : 0;
      }
      return 1;
    });
    CHECK(status == 0);
    CHECK(read_file(folder.path() / "a") == "old");
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("a file that is written in pieces appears with commit, and without it never") {
  const TemporaryFolder folder;
  folder.write("a", "old");
  {
    AtomicFile file(folder.path() / "a");
    CHECK(file.write("new "));
    CHECK(file.write("content"));
    CHECK(read_file(folder.path() / "a") == "old");
  }
  CHECK(read_file(folder.path() / "a") == "old");
  CHECK(folder.entries() == 1);
  AtomicFile file(folder.path() / "a");
  CHECK(file.write("new "));
  CHECK(file.write("content"));
  file.commit();
  CHECK(read_file(folder.path() / "a") == "new content");
  CHECK(folder.entries() == 1);
}

TEST_CASE("pieces that cannot be written are said by commit, and nothing appears") {
  if (access("/dev/full", W_OK) != 0) return;
  AtomicFile file("/dev/full");
  CHECK_FALSE(file.write("x"));
  CHECK_FALSE(file.write("y"));
  CHECK_THROWS_WITH_AS(file.commit(), "cannot write /dev/full: No space left on device", Error);
  CHECK_THROWS_WITH_AS(AtomicFile("/no/such/folder/a"), doctest::Contains("does not exist"), Error);
}

TEST_CASE("the user's folders follow the XDG variables and fall back to HOME") {
  CHECK(in_child([] {
          ::setenv("HOME", "/home/u", 1);
          ::setenv("XDG_STATE_HOME", "/state", 1);
          ::unsetenv("XDG_CACHE_HOME");
          return user_state_directory() == "/state/dsanalyze" && user_cache_directory() == "/home/u/.cache/dsanalyze" ? 0 : 1;
        }) == 0);
  CHECK(in_child([] {
          ::setenv("HOME", "/home/u", 1);
          ::setenv("XDG_STATE_HOME", "relative", 1);
          return user_state_directory() == "/home/u/.local/state/dsanalyze" ? 0 : 1;
        }) == 0);
  CHECK(in_child([] {
          ::unsetenv("HOME");
          ::unsetenv("XDG_STATE_HOME");
          try {
            user_state_directory();
          } catch (const Error&) {
            return 0;
          }
          return 1;
        }) == 0);
}
