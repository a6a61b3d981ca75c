#include "transport/rendezvous/launch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "ranks_that_meet.hpp"
#include "transport/rendezvous/introduction.hpp"

namespace dsanalyze {
namespace {

using testing::message_of;
using testing::rank_of;
using testing::says;
using Variables = std::map<std::string, std::string>;

Environment of(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Launch launch_of(const Variables& variables, std::optional<std::uint32_t> rank = {}, std::optional<std::uint32_t> world = {}) {
  return find_launch(rank, world, of(variables));
}

const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Variables slurm = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "3"}};
const Variables pmi = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};

TEST_CASE("rank and world are those of the launcher's environment") {
  CHECK(launch_of({}).launcher == Launcher::none);
  CHECK(launch_of({}).world == 1);
  CHECK(launch_of(open_mpi).launcher == Launcher::open_mpi);
  CHECK(launch_of(open_mpi).rank == 2);
  CHECK(launch_of(open_mpi).world == 4);
  CHECK(launch_of(slurm).launcher == Launcher::slurm);
  CHECK(launch_of(slurm).world == 3);  // of the step, not of the allocation
  CHECK(launch_of({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}}).world == 8);
  CHECK(launch_of(pmi).launcher == Launcher::pmi);
}

TEST_CASE("mpirun within a job of Slurm counts, and a batch script is no rank") {
  Variables both = slurm;
  both.insert(open_mpi.begin(), open_mpi.end());
  CHECK(launch_of(both).launcher == Launcher::open_mpi);
  CHECK(launch_of({{"SLURM_JOB_ID", "5"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher == Launcher::none);
}

TEST_CASE("--rank and --world are a rank by hand, and may say what the launcher says, but nothing else") {
  CHECK(launch_of({}, 1, 3).launcher == Launcher::by_hand);
  CHECK(launch_of({}, 1, 3).rank == 1);
  CHECK(launch_of(open_mpi, 2, 4).launcher == Launcher::open_mpi);
  CHECK(says(message_of([] { launch_of(open_mpi, 1, 4); }), "--rank 1 --world 4 contradict mpirun (Open MPI), which says rank 2 of 4"));
  CHECK(says(message_of([] { launch_of(slurm, 1, 8); }), "contradict srun"));
  CHECK(launch_of({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, 1, 3).launcher ==
        Launcher::by_hand);  // in a shell of srun's
  CHECK(says(message_of([] { launch_of({}, 1, {}); }), "--rank is given and --world is not"));
  CHECK(says(message_of([] { launch_of({}, {}, 4); }), "--world is given and --rank is not"));
  for (const auto& [rank, world] : std::map<std::uint32_t, std::uint32_t>{{3, 3}, {0, 0}, {1, 4097}}) {
    CHECK(says(message_of([rank = rank, world = world] { launch_of({}, rank, world); }), "cannot be"));
  }
}

TEST_CASE("an environment that makes no sense is named, and shown") {
  CHECK(says(message_of([] {
               launch_of({{"OMPI_COMM_WORLD_RANK", "\x1b[1m"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
             }),
             "OMPI_COMM_WORLD_RANK is \"\\x1b[1m\""));
  CHECK(says(message_of([] { launch_of({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}); }), "PMI_RANK is \"-1\""));
  CHECK(says(message_of([] { launch_of({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}); }), "rank 4 of 4 cannot be"));
}

TEST_CASE("who does not know where to meet is told what to pass") {
  Variables step = slurm;
  step["SLURM_JOB_ID"] = "77";
  step["SLURM_STEP_NODELIST"] = "node[1-3]";
  const std::string text = how_to_meet(launch_of(step), of(step));
  CHECK(says(text, "--rendezvous ~/.dsanalyze-77-0"));
  CHECK(says(text, "first of node[1-3]"));
  CHECK(says(how_to_meet(launch_of(pmi), of(pmi)),
             "rank 0 of 2 (started by mpiexec (PMI)) does not know where to meet the others; pass --rendezvous FILE"));
}

TEST_CASE("the module for MPI is looked for where it is named, else beside the program and where it is installed") {
  CHECK(mpi_module_places(of({{"DSANALYZE_MPI_MODULE", "/x/y.so"}}), "/usr/bin/dsanalyze") == std::vector<std::filesystem::path>{"/x/y.so"});
  const auto places = mpi_module_places(of({}), "/opt/tree/bin/dsanalyze");
  CHECK(places.front() == "/opt/tree/bin/src/transport/mpi/dsanalyze-mpi.so");
  CHECK(says(places[1].native(), "/opt/tree/lib"));
  CHECK(says(places[2].native(), "dsanalyze/dsanalyze-mpi.so"));
}

TEST_CASE("no module, one that does not load and one of another program are told apart, and all name --rendezvous") {
  const testing::TemporaryFolder folder;
  folder.write("broken.so", "no library");
  const auto message = [](const std::filesystem::path& path) {
    const std::vector<std::filesystem::path> places = {path};
    return message_of([&] { const MpiModule module(places); });
  };
  CHECK(says(message(folder.path() / "none.so"), "there is no module for MPI (looked for: "));
  CHECK(says(message(folder.path() / "broken.so"), "the module for MPI does not load"));
  CHECK(says(message("libm.so.6").substr(0, 30), "there is no module for MPI"));  // no search of the system's libraries
  for (const char* path : {"none.so", "broken.so"}) CHECK(says(message(folder.path() / path), "--rendezvous FILE or HOST:PORT, which needs no MPI"));
}

/// What MPI does with the ranks' records.
std::vector<std::byte> exchanged(const std::vector<Meeting>& meetings) {
  std::vector<std::byte> all;
  for (const Meeting& meeting : meetings) {
    const std::vector<std::byte> one = exchanged_record(meeting);
    REQUIRE(one.size() == exchanged_bytes);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST_CASE("an exchange gives all ranks one list and the key that rank 0 made, and wipes it") {
  const auto meetings = testing::all_ranks_of(3);
  const std::vector<std::byte> records = exchanged(meetings);
  std::optional<Roster> first;
  for (const Meeting& meeting : meetings) {
    std::vector<std::byte> all = records;
    const Roster roster = roster_of_exchange(all, meeting);
    if (!first) first = roster;
    CHECK(roster.addresses == first->addresses);
    CHECK(roster.key.bytes() == first->key.bytes());
    CHECK(roster.key.bytes() != JobKey{});
    CHECK(all == std::vector<std::byte>(all.size()));
  }
}

TEST_CASE("a key that was given is not in what is exchanged, and must be the same in all ranks") {
  auto meetings = testing::all_ranks_of(3);
  const SecretKey key = make_key();
  testing::give_key(meetings, key);
  auto all = exchanged(meetings);
  const std::string_view text(reinterpret_cast<const char*>(all.data()), all.size());
  CHECK(!says(text, "key "));
  CHECK(!says(text, std::string_view(reinterpret_cast<const char*>(key.bytes().data()), 32)));
  CHECK(roster_of_exchange(all, meetings[1]).key.bytes() == key.bytes());
  meetings[2].key = make_key();
  for (const Meeting& meeting : meetings) {
    all = exchanged(meetings);
    CHECK(says(message_of([&] { roster_of_exchange(all, meeting); }), "another key"));
  }
}

TEST_CASE("what was exchanged is not believed where it makes no sense") {
  const auto meetings = testing::all_ranks_of(3);
  const auto message = [&](auto change) {
    auto all = exchanged(meetings);
    change(all);
    return message_of<Error>([&] { roster_of_exchange(all, meetings[0]); });
  };
  CHECK(says(message([](auto& all) { all.resize(2 * exchanged_bytes); }), "exchanged what 2 ranks say, and the job has 3"));
  CHECK(says(message([](auto& all) { std::memset(all.data() + exchanged_bytes, 0, exchanged_bytes); }), "for rank 1 is not what a rank says"));
  CHECK(says(message([](auto& all) { std::memset(all.data() + exchanged_bytes, 'x', exchanged_bytes); }), "for rank 1 is not what a rank says"));
  CHECK(says(message([](auto& all) { std::memcpy(all.data() + exchanged_bytes, all.data() + 2 * exchanged_bytes, exchanged_bytes); }),
             "started as another rank"));
}

TEST_CASE("an exchange whose first record has no whole key is refused, wherever it was cut or changed") {
  const auto meetings = testing::all_ranks_of(2);
  const auto records = exchanged(meetings);
  const std::string_view text(reinterpret_cast<const char*>(records.data()), records.size());
  const std::size_t line = text.find('\n');
  REQUIRE(text.starts_with("key "));
  const auto refused = [&](std::size_t at, char by) {
    auto all = records;
    all[at] = std::byte(static_cast<unsigned char>(by));
    const std::string why = message_of<Error>([&] { roster_of_exchange(all, meetings[1]); });
    return says(why, "for rank 0 is not what a rank says") && all == std::vector<std::byte>(all.size());  // the others' are wiped all the same
  };
  for (std::size_t at = 0; at <= line; ++at) {
    CHECK_MESSAGE(refused(at, '\0'), at);
    CHECK_MESSAGE(refused(at, 'x'), at);
  }
  auto no_line = records;
  std::ranges::fill(std::span(no_line).subspan(line, exchanged_bytes - line), std::byte{'f'});
  CHECK(says(message_of<Error>([&] { roster_of_exchange(no_line, meetings[1]); }), "for rank 0 is not what a rank says"));
  auto without = records;
  const auto second_line = without.begin() + static_cast<std::ptrdiff_t>(line) + 1;
  const auto end = without.begin() + static_cast<std::ptrdiff_t>(exchanged_bytes);
  std::fill(std::copy(second_line, end, without.begin()), end, std::byte{});
  CHECK(says(message_of<Error>([&] { roster_of_exchange(without, meetings[1]); }), "rank 0 gave no key"));
}

TEST_CASE("ranks on several machines that listen on loopback are told to pass --listen") {
  Introduction one = introduce(rank_of(0, 2));
  Introduction other = introduce(rank_of(1, 2));
  CHECK(unreachable(std::vector{one, other}).empty());
  other.host = "elsewhere";
  CHECK(says(unreachable(std::vector{one, other}), "pass --listen ADDRESS"));
  one.address = "10.0.0.1:4000";
  CHECK(says(unreachable(std::vector{one, other}), "rank 1 listens at 127.0.0.1:4001, which only its own machine reaches"));
  other.address = "10.0.0.2:4000";
  CHECK(unreachable(std::vector{one, other}).empty());
}

TEST_CASE("introductions are read as they were written, and cut, changed or hostile ones are not") {
  Meeting meeting = rank_of(1, 2);
  meeting.key = make_key();
  const std::string text = to_text(introduce(meeting));
  const auto back = parse_introduction(text);
  REQUIRE(back.has_value());
  CHECK(to_text(*back) == text);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto cut = parse_introduction(std::string_view(text).substr(0, length));
    CHECK(!cut);
  }
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\nrank 1\n", "\nrank 2\n"},
      {"\nrank 1\n", "\nrank 4096\n"},
      {"world 2", "world x"},
      {"address 127", "address  127"},
      {"agreed batch size=64", "agreed batch size"},
      {"end\n", "end\nrank 0\n"},
      {"host ", "host \x1b"},
  };
  for (const auto& [what, by] : changes) {
    CHECK(!parse_introduction(testing::replaced(text, what, by)));
  }
  CHECK(!parse_introduction(testing::replaced(text, "end\n", "agreed x=" + std::string(most_agreed, 'x') + "\nend\n")));
  CHECK(parse_introduction("dsanalyze-rank 7\nwhatever")->protocol == 7);
  CHECK(says(contradiction(*back, *parse_introduction("dsanalyze-rank 7\n"), {}), "rank 0 speaks protocol 2, another rank 7"));
}

TEST_CASE("a meeting that cannot be is refused before anything is said") {
  CHECK(says(message_of([] { introduce(rank_of(2, 2)); }), "rank 2 of 2 cannot be"));
  Meeting meeting = rank_of(0, 1);
  for (const std::string address : {"", "127.0.0.1", ":4000", "a b:4000", "a:0", "a:70000", "a\n:1"}) {
    meeting.address = address;
    CHECK(says(message_of([&] { introduce(meeting); }), "is no address at which a rank listens"));
  }
  meeting = rank_of(0, 1);
  meeting.agreed = {{"name", "two\nlines"}};
  CHECK(says(message_of<Error>([&] { introduce(meeting); }), "control characters"));
  meeting.agreed = {{"name", std::string(most_agreed, 'x')}};
  CHECK(says(message_of<Error>([&] { introduce(meeting); }), "longer than 3200 bytes"));
}

TEST_CASE("lists of ranks read as people write them") {
  CHECK(rank_names(std::vector<std::uint32_t>{3}) == "rank 3");
  CHECK(rank_names(std::vector<std::uint32_t>{2, 5}) == "ranks 2 and 5");
  CHECK(rank_names(std::vector<std::uint32_t>{1, 2, 3}) == "ranks 1, 2 and 3");
  CHECK(rank_names(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}) == "ranks 1, 2, 3, 4, 5, 6, 7 and 2 others");
}

TEST_CASE("where to listen is an address as it is, or this machine's in a network or on an interface") {
  CHECK(listening_host("10.1.2.3") == "10.1.2.3");
  CHECK(listening_host("node7.example") == "node7.example");
  CHECK(listening_host("127.0.0.1/32") == "127.0.0.1");
  CHECK(listening_host("lo") == "127.0.0.1");
  CHECK(says(message_of([] { listening_host("203.0.113.0/24"); }), "this machine has no such address; it has 127.0.0.1 (lo)"));
  for (const char* bad : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "/24", "x/24"}) {
    CHECK(says(message_of([&] { listening_host(bad); }), "expected an address, an interface's name, or a network"));
  }
}

}  // namespace
}  // namespace dsanalyze
