#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

/// Results as files of the folder.
std::vector<std::filesystem::path> written(const TemporaryFolder& folder, const std::vector<GateRun>& runs) {
  std::vector<std::filesystem::path> files;
  for (const GateRun& run : runs) {
    files.push_back(folder.path() / (run.source + ".json"));
    write_file_atomically(files.back(), to_json(run.profile));
  }
  return files;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("accepted results are the baseline, in the order in which they began, and a second time changes nothing") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(1, {});
  auto files = written(folder, machine.runs({}, 3));
  std::ranges::reverse(files);
  const auto store = folder.path() / "baselines" / "main";
  const auto runs = read_gate_runs(files);
  accept_baselines(store, runs, {}, Replace::no);
  const auto names = names_in(store);
  REQUIRE(names.size() == 3);
  CHECK(names[0].starts_with("20261120T000000Z-"));
  CHECK(names[1].starts_with("20261120T000200Z-"));
  for (const AcceptedResult& each : accept_baselines(store, runs, {}, Replace::no)) CHECK(each.already_there);
  CHECK(names_in(store) == names);
  CHECK(to_json(read_gate_runs({store})[0].profile) == to_json(runs[2].profile));
}

TEST_CASE("other things in a store are passed over, what is no profile is an error that names it") {
  const TemporaryFolder folder;
  folder.write("store/README.md", "baselines of main");
  folder.write("store/.hidden.json", "{");
  CHECK(read_gate_runs({folder.path() / "store"}).empty());
  folder.write("store/x.json", "{\"schema\": \"dsanalyze.profile/1\"");
  CHECK_THROWS_WITH_AS(read_gate_runs({folder.path() / "store"}), doctest::Contains("x.json"), UsageError);
  folder.write("store/x.json", "{\"schema\": \"dsanalyze.profile/2\"}");
  CHECK_THROWS_WITH_AS(read_gate_runs({folder.path() / "store"}), doctest::Contains("dsanalyze.profile/2"), UsageError);
  CHECK_THROWS_WITH_AS(read_gate_runs({folder.path() / "nowhere.json"}), doctest::Contains("nowhere.json"), UsageError);
}

TEST_CASE("the same result under two names is no repetition") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(2, {});
  const auto files = written(folder, machine.runs({}, 1));
  const auto copy = folder.path() / "copy.json";
  std::filesystem::copy_file(files[0], copy);
  CHECK_THROWS_WITH_AS(read_gate_runs({files[0], copy}), doctest::Contains("are the same result"), UsageError);
}

TEST_CASE("what is not trusted, and what differs from the store, is not accepted and nothing is written") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(3, {});
  auto runs = machine.runs({}, 2);
  const auto store = folder.path() / "store";
  runs[0].profile.trusted = false;
  const auto untrusted = read_gate_runs({written(folder, runs)[0]});
  CHECK_THROWS_WITH_AS(accept_baselines(store, untrusted, {}, Replace::no), doctest::Contains("not trusted"), UsageError);
  CHECK_FALSE(std::filesystem::exists(store));
  GateOptions options;
  options.untrusted = Untrusted::accept;
  accept_baselines(store, untrusted, options, Replace::no);
  runs[1].profile.host.cpu_model = "another CPU";
  const auto other = read_gate_runs({written(folder, runs)[1]});
  CHECK_THROWS_WITH_AS(accept_baselines(store, other, {}, Replace::no), doctest::Contains("host.cpu_model"), UsageError);
  CHECK(names_in(store).size() == 1);
  accept_baselines(store, other, {}, Replace::yes);
  const auto held = read_gate_runs({store});
  REQUIRE(held.size() == 1);
  CHECK(held[0].profile.host.cpu_model == "another CPU");
}

TEST_CASE("a result that comes through a pipe is accepted whole") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(5, {});
  const std::string text = to_json(machine.run({}).profile);
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(pipe) << text; });
  const auto runs = read_gate_runs({pipe});
  writer.join();
  const auto accepted = accept_baselines(folder.path() / "store", runs, {}, Replace::no);
  REQUIRE(accepted.size() == 1);
  CHECK(read_file(accepted[0].path) == text);
}

TEST_CASE("a pipe in a store is refused, not waited for") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder.path() / "x.json").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_gate_runs({folder.path()}), doctest::Contains("no regular file"), UsageError);
}

TEST_CASE("what is replaced may be broken") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(6, {});
  const auto runs = read_gate_runs(written(folder, machine.runs({}, 2)));
  const auto store = folder.path() / "store";
  folder.write("store/torn.json", "{");
  CHECK_THROWS_AS(accept_baselines(store, runs, {}, Replace::no), UsageError);
  accept_baselines(store, runs, {}, Replace::yes);
  CHECK(read_gate_runs({store}).size() == 2);
}

TEST_CASE("a file is no store") {
  const TemporaryFolder folder;
  test::SimulatedMachine machine(4, {});
  const auto files = written(folder, machine.runs({}, 1));
  CHECK_THROWS_WITH_AS(accept_baselines(files[0], read_gate_runs(files), {}, Replace::no), doctest::Contains("no folder"), UsageError);
  CHECK_THROWS_AS(accept_baselines(folder.path() / "x", {}, {}, Replace::no), UsageError);
}
