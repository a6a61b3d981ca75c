// One rank as a launcher starts it: meets the others, says what it has of it, and ends as it is told. Driven by launched_test.py.
//
// usage: launched_rank PROGRAM WAY [--rank R --world N] [--rendezvous PLACE] [--key-file FILE] [--listen ADDRESS] [--agreed VALUE]
//        PROGRAM   beside which the module for MPI lies
//        WAY       finish: MPI ends; leave: without a word to MPI, with 0; lose: rank 1 is killed after the meeting, the others leave with 7
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "transport/rendezvous/launch.hpp"
#include "transport/rendezvous/rendezvous.hpp"

namespace dsanalyze {
namespace {

int run(const std::vector<std::string>& words) {
  const std::string& program = words.at(1);
  const std::string& way = words.at(2);
  std::map<std::string, std::string> options;
  for (std::size_t i = 3; i + 1 < words.size(); i += 2) options[words[i]] = words[i + 1];
  const auto number = [&](const std::string& name) {
    return options.contains(name) ? std::optional(static_cast<std::uint32_t>(std::stoul(options[name]))) : std::nullopt;
  };
  const Environment environment = process_environment();
  const Launch launch = find_launch(number("--rank"), number("--world"), environment);
  const std::string host = options.contains("--listen") ? listening_host(options["--listen"]) : "127.0.0.1";
  Meeting meeting{launch.rank, launch.world, fmt::format("{}:{}", host, 4000 + launch.rank), {{"text", options["--agreed"]}}, {}, 20};
  if (options.contains("--key-file")) meeting.key = read_key_file(options["--key-file"]);

  std::optional<MpiModule> mpi;
  const auto through_mpi = [&] {
    mpi.emplace(mpi_module_places(environment, program));
    return mpi->meet(meeting, launch, environment);
  };
  const Roster roster = options.contains("--rendezvous") ? meet(options["--rendezvous"], meeting, system_timing(), {}) : through_mpi();
  std::size_t digest = 0;
  for (const std::byte byte : roster.key.bytes()) digest = digest * 31 + static_cast<std::size_t>(byte);
  std::string text = fmt::format("rank {} of {} by {}: {} addresses, last {}, key {}\n", launch.rank, launch.world, enum_name(launch.launcher),
                                 roster.addresses.size(), roster.addresses.back(), digest);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (way == "lose") {
    if (launch.rank == 1) ::kill(::getpid(), SIGKILL);
    system_timing().waiter->sleep_until(system_timing().clock->now() + nanoseconds_per_second);
    std::fputs("left with 7\n", stdout);
    std::fflush(stdout);
    ::_exit(7);
  }
  if (mpi && way == "finish") mpi->finish();
  return 0;
}

}  // namespace
}  // namespace dsanalyze

int main(int count, char** words) {
  try {
    return dsanalyze::run({words, words + count});
  } catch (const dsanalyze::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.kind() == dsanalyze::ErrorKind::usage ? 2 : 1;
  }
}
