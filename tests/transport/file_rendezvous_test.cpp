#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "../base/child_process.hpp"
#include "../base/sanitizers.hpp"
#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "ranks_that_meet.hpp"
#include "transport/rendezvous/file_rendezvous.hpp"
#include "transport/rendezvous/private_file.hpp"

namespace dsanalyze {
namespace {

using testing::all_ranks_of;
using testing::give_key;
using testing::HurriedTiming;
using testing::meet_at;
using testing::meet_together;
using testing::Met;
using testing::rank_of;
using testing::says;

std::string meeting_file(const testing::TemporaryFolder& folder) { return (folder.path() / "meet").native(); }

void require_same_roster(const std::vector<Met>& met) {
  for (const Met& one : met) {
    REQUIRE_MESSAGE(one.roster.has_value(), one.error);
    CHECK(one.roster->addresses == met.front().roster->addresses);
    CHECK(one.roster->key.bytes() == met.front().roster->key.bytes());
    CHECK(one.roster->addresses.size() == met.size());
    CHECK(one.roster->addresses.back() == "127.0.0.1:" + std::to_string(3999 + met.size()));
  }
  CHECK(met.front().roster->key.bytes() != JobKey{});
}

MeetingBoard left_over_board() {
  MeetingBoard board;
  board.run = std::string(32, 'a');
  board.world = 3;
  for (int i = 0; i < 3; ++i) board.members.push_back({std::string(32, 'b'), "10.0.0.1:1"});
  JobKey key;
  key.fill(std::byte{0xcc});
  board.key.emplace(key);
  return board;
}

/// A rank of its own process, killed once `reached` holds, or after a minute.
template <typename Reached>
void killed_rank(const std::string& file, const Meeting& meeting, const Reached& reached) {
  const pid_t child = ::fork();
  if (child == 0) {
    meet_at(file, meeting);
    ::_exit(0);
  }
  const Deadline until = system_timing().clock->after(60);
  while (!reached() && system_timing().clock->now() < until.at) system_timing().waiter->sleep_until(system_timing().clock->now() + 1'000'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("ranks that meet at a file have one list and one key, and leave nothing there") {
  for (const std::uint32_t world : {1U, 2U, 9U}) {
    const testing::TemporaryFolder folder;
    const std::vector<Met> met = meet_together(meeting_file(folder), all_ranks_of(world));
    require_same_roster(met);
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("with a key given, no rank's own key is in the file and all have the given one") {
  const testing::TemporaryFolder folder;
  auto meetings = all_ranks_of(3);
  const SecretKey key = make_key();
  give_key(meetings, key);
  const std::vector<Met> met = meet_together(meeting_file(folder), meetings);
  require_same_roster(met);
  CHECK(met[2].roster->key.bytes() == key.bytes());
}

TEST_CASE("what stands in the folder during a meeting is its owner's alone") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  std::jthread zero([&] { meet_at(file, rank_of(0, 3)); });
  std::jthread one([&] { meet_at(file, rank_of(1, 3)); });
  while (!std::filesystem::exists(file + ".1")) std::this_thread::yield();
  for (const std::string& name : {file, file + ".1"}) {
    struct stat there {};
    REQUIRE(::stat(name.c_str(), &there) == 0);
    CHECK((there.st_mode & 0777) == 0600);
  }
  CHECK(meet_at(file, rank_of(2, 3)).roster.has_value());
}

TEST_CASE("left-overs of earlier runs are not believed, and are replaced") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  create_private_file(file, to_text(left_over_board()).view());
  MeetingAnswer old{std::string(32, 'a'), false, {}};
  old.from.world = 3;
  old.from.rank = 2;
  old.from.address = "10.9.9.9:9";
  old.from.host = "old";
  old.from.nonce = std::string(32, 'd');
  create_private_file(file + ".2", to_text(old));
  old.from.rank = 7;
  old.from.world = 9;
  create_private_file(file + ".7", to_text(old));
  create_private_file(file + ".1.new", "dsanalyze-answer 1\nru");
  HurriedTiming hurried(20);
  require_same_roster(meet_together(file, all_ranks_of(3, 600), hurried.timing()));
  CHECK(folder.entries() == 0);
}

TEST_CASE("an answer to an earlier run that comes to light during a meeting is not believed, and its rank's own takes its place") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  std::vector<Met> met(3);
  HurriedTiming of_zero(1);
  std::jthread zero([&] { met[0] = meet_at(file, rank_of(0, 3), of_zero.timing()); });
  std::jthread one([&] { met[1] = meet_at(file, rank_of(1, 3)); });
  while (!std::filesystem::exists(file + ".1")) std::this_thread::yield();  // rank 0 has cleared the folder
  MeetingAnswer old{std::string(32, 'a'), false, introduce(rank_of(2, 3))};
  old.from.address = "10.9.9.9:9";
  create_private_file(file + ".2", to_text(old));
  const int before = of_zero.sleeps();
  while (of_zero.sleeps() < before + 3) std::this_thread::yield();  // it has looked since
  met[2] = meet_at(file, rank_of(2, 3, 2));
  zero.join();
  one.join();
  require_same_roster(met);
}

TEST_CASE("a file that a full disk or a kill cut short is replaced") {
  for (const std::string& content : {std::string(), std::string("dsanal"), std::string(to_text(left_over_board()).view().substr(0, 60))}) {
    const testing::TemporaryFolder folder;
    create_private_file(meeting_file(folder), content);
    HurriedTiming hurried(20);
    require_same_roster(meet_together(meeting_file(folder), all_ranks_of(2, 600), hurried.timing()));
  }
}

TEST_CASE("after a rank 0 that was killed, the next run with the same file meets" * doctest::timeout(120) * doctest::skip(testing::threads_only)) {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  killed_rank(file, rank_of(0, 3), [&] { return std::filesystem::exists(file); });
  HurriedTiming hurried(20);
  require_same_roster(meet_together(file, all_ranks_of(3, 600), hurried.timing()));
  CHECK(folder.entries() == 0);
}

TEST_CASE("where a rank is killed before all have come, the others are told who lacks, and nothing is left" * doctest::skip(testing::threads_only)) {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  HurriedTiming of_zero(5);
  Met zero;
  std::jthread host([&] { zero = meet_at(file, rank_of(0, 4, 50), of_zero.timing()); });
  HurriedTiming of_one(5);
  Met one;
  std::jthread member([&] { one = meet_at(file, rank_of(1, 4, 100), of_one.timing()); });
  // A process that is forked while a thread holds a lock of a library waits for it for ever: both have begun by now.
  while (!std::filesystem::exists(file + ".1")) std::this_thread::yield();
  // Rank 0 removes what stands there when it begins, and may have removed an answer that came at once.
  std::optional<int> since;
  killed_rank(file, rank_of(3, 4), [&] {
    if (!std::filesystem::exists(file + ".3"))
      since.reset();
    else if (!since)
      since = of_zero.sleeps();
    return since && of_zero.sleeps() >= *since + 3;  // it has looked since
  });
  host.join();
  member.join();
  CAPTURE(zero.error);
  CHECK(says(zero.error, "2 of 4 did not come within 50 s"));
  CHECK(zero.kind == ErrorKind::failed);
  CHECK(one.error == zero.error);
  CHECK(folder.entries() == 0);
}

TEST_CASE("where rank 0 is killed, the others say so and remove its file" * doctest::skip(testing::threads_only)) {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  HurriedTiming hurried(20);
  Met one;
  std::jthread member([&] { one = meet_at(file, rank_of(1, 3, 60), hurried.timing()); });
  killed_rank(file, rank_of(0, 3), [&] { return std::filesystem::exists(file + ".1"); });
  member.join();
  CHECK(says(one.error, "rank 0 of 3 came to"));
  CHECK(says(one.error, "silent"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("a rank 0 that never comes is named") {
  const testing::TemporaryFolder folder;
  HurriedTiming hurried(50);
  const Met one = meet_at(meeting_file(folder), rank_of(1, 2, 5), hurried.timing());
  CHECK(says(one.error, "rank 0 of 2 did not come within 5 s"));
  CHECK(folder.entries() == 0);
}

TEST_CASE("of two jobs that race for one file one meets or none, never ranks of both; the other is told") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  HurriedTiming hurried(10);
  std::jthread first([&] { meet_at(file, rank_of(0, 2, 30), hurried.timing()); });
  while (!std::filesystem::exists(file)) std::this_thread::yield();
  const Met second = meet_at(file, rank_of(0, 2, 30), hurried.timing());
  CHECK(says(second.error, "another job's ranks meet at"));
  CHECK(second.kind == ErrorKind::usage);
  CHECK(meet_at(file, rank_of(1, 2, 30), hurried.timing()).roster.has_value());
}

TEST_CASE("a rank 0 whose file another job replaced gives way and leaves that one alone") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  HurriedTiming hurried(10);
  Met zero;
  std::jthread host([&] { zero = meet_at(file, rank_of(0, 2, 60), hurried.timing()); });
  while (!std::filesystem::exists(file)) std::this_thread::yield();
  replace_private_file(file, to_text(left_over_board()).view());
  host.join();
  // It writes FILE anew at most once, if it looked just before; then it is this test's FILE that is lost, and the host waits on.
  CHECK((says(zero.error, "another job's ranks meet at") || says(zero.error, "did not come")));
}

TEST_CASE("two processes of one rank are found, and all ranks are told") {
  const testing::TemporaryFolder folder;
  HurriedTiming hurried(5);
  auto meetings = all_ranks_of(4, 30);
  meetings[2] = meetings[1];  // rank 2 lacks, rank 1 comes twice
  const auto met = meet_together(meeting_file(folder), meetings, hurried.timing());
  for (const Met& one : met) {
    CHECK(says(one.error, "two processes say that they are rank 1"));
    CHECK(one.kind == ErrorKind::usage);
  }
  CHECK(folder.entries() == 0);
}

TEST_CASE("ranks that contradict rank 0 are told in what, all of them") {
  const SecretKey key = make_key();
  const auto with = [](auto change) {
    auto meetings = all_ranks_of(3);
    change(meetings);
    return meetings;
  };
  const std::vector<std::pair<std::string, std::vector<Meeting>>> cases = {
      {"rank 0 was told that the job has 3 ranks, rank 2 that it has 4", with([](auto& all) { all[2].world = 4; })},
      {"rank 3 that it has 4", with([](auto& all) { all[2].world = 4, all[2].rank = 3; })},
      {"dataset digest differs between ranks: rank 0 has 0f3a, rank 1 has 77cd", with([](auto& all) { all[1].agreed[0].value = "77cd"; })},
      {"rank 0 speaks of batch size 64, rank 1 of nothing", with([](auto& all) { all[1].agreed.pop_back(); })},
      {"rank 2 has another key than rank 0", with([&](auto& all) { give_key(all, key), all[2].key = make_key(); })},
      {"rank 0 was given a key and rank 1 was not", with([&](auto& all) { give_key(all, key), all[1].key.reset(); })},
      {"rank 1 was given a key and rank 0 was not", with([&](auto& all) { all[1].key = key; })},
      {"ranks 0 and 2 say that they listen at one address, 127.0.0.1:4000", with([](auto& all) { all[2].address = all[0].address; })},
  };
  for (const auto& [message, meetings] : cases) {
    const testing::TemporaryFolder folder;
    HurriedTiming hurried(8);
    const auto met = meet_together(meeting_file(folder), meetings, hurried.timing());
    for (const Met& one : met) {
      CHECK_MESSAGE(says(one.error, message), one.error);
      CHECK(one.kind == ErrorKind::usage);
    }
    CHECK(folder.entries() == 0);
  }
}

TEST_CASE("a rendezvous file that is a link, another's, open to others, a folder or someone's text is refused and left alone") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  const auto refused = [&](std::string_view why) {
    for (const std::uint32_t rank : {0U, 1U}) {
      const Met met = meet_at(file, rank_of(rank, 2));
      CHECK_MESSAGE(says(met.error, why), met.error);
      CHECK(met.kind == ErrorKind::usage);
    }
  };
  std::filesystem::create_symlink("elsewhere", file);
  refused("is a symbolic link");
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  refused("is no regular file");
  std::filesystem::remove(file);
  create_private_file(file, to_text(left_over_board()).view());
  ::chmod(file.c_str(), 0644);
  refused("is open to others (mode 644)");
  std::filesystem::remove(file);
  create_private_file(file, "alias ll='ls -l'\n");
  CHECK(says(meet_at(file, rank_of(0, 2)).error, "is no rendezvous file; it is left alone"));
  CHECK(read_file(file) == "alias ll='ls -l'\n");
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), 12345, 0) == 0);
    refused("belongs to another user");
  }
}

TEST_CASE("somebody's file where an answer would stand is left alone") {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  create_private_file(file + ".1", "notes\n");
  HurriedTiming hurried(5);  // rank 1 has to look before rank 0 gives up
  const auto met = meet_together(file, all_ranks_of(2, 5), hurried.timing());
  CHECK(says(met[0].error, "rank 1 of 2 did not come within 5 s"));
  CHECK(says(met[1].error, "is no answer at a rendezvous; it is left alone"));
  CHECK(read_file(file + ".1") == "notes\n");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a folder that is not there or refuses is an error that names it") {
  const testing::TemporaryFolder folder;
  CHECK(says(meet_at((folder.path() / "none/meet").native(), rank_of(0, 2)).error, "none/meet: No such file or directory"));
  CHECK(says(meet_at("/proc/meet", rank_of(0, 2)).error, "/proc/meet"));
}

TEST_CASE("a full disk is named, and nothing is left") {
  const testing::TemporaryFolder folder;
  const std::string place = (folder.path() / "small").native();
  std::filesystem::create_directory(place);
  if (::mount("small", place.c_str(), "tmpfs", 0, "size=4k") != 0) {
    MESSAGE("no tmpfs may be mounted here: not tried");
    return;
  }
  const std::string full = place + "/full";
  create_private_file(full, std::string(4096, 'x'));
  const Met met = meet_at(place + "/meet", rank_of(0, 2));
  const bool left = std::filesystem::exists(place + "/meet");
  ::umount2(place.c_str(), MNT_DETACH);
  CHECK(says(met.error, "meet: No space left on device"));
  CHECK(!left);
}

TEST_CASE("a request to stop ends a rank, and nothing is left") {
  const testing::TemporaryFolder folder;
  std::stop_source stop;
  stop.request_stop();
  for (const std::uint32_t rank : {0U, 1U})
    CHECK(meet_at(meeting_file(folder), rank_of(rank, 2), system_timing(), stop.get_token()).kind == ErrorKind::interrupted);
  CHECK(folder.entries() == 0);
}

TEST_CASE("ranks that are processes meet at a file" * doctest::skip(testing::threads_only)) {
  const testing::TemporaryFolder folder;
  const std::string file = meeting_file(folder);
  std::vector<pid_t> children;
  for (std::uint32_t rank = 1; rank < 4; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(meet_at(file, rank_of(rank, 4)).roster.has_value() ? 0 : 1);
    children.push_back(child);
  }
  CHECK(meet_at(file, rank_of(0, 4)).roster.has_value());
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(folder.entries() == 0);
}

TEST_CASE("boards and answers are read as they were written, and cut or changed ones are not") {
  const std::string text(to_text(left_over_board()).view());
  const auto board = parse_board(text);
  REQUIRE(board.has_value());
  CHECK(to_text(*board).view() == text);
  for (std::size_t length = 0; length < text.size(); ++length) CHECK(!parse_board(text.substr(0, length)));
  CHECK(!parse_board(testing::replaced(text, "world 3", "world 2")));
  CHECK(!parse_board(testing::replaced(text, "member 1", "member 2")));
  CHECK(!parse_board(testing::replaced(text, "run a", "run z")));
  CHECK(!parse_board(testing::replaced(text, "key", "kex")));
}

}  // namespace
}  // namespace dsanalyze
