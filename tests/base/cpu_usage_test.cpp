#include <doctest/doctest.h>
#include <unistd.h>

#include "base/host/host.hpp"
#include "temporary_folder.hpp"

using namespace dsanalyze;
using testing::TemporaryFolder;

namespace {

HostFacts host_with(std::vector<int> cpus, double cores_usable) {
  HostFacts host;
  host.cpus_allowed = std::move(cpus);
  host.cores_usable = cores_usable;
  return host;
}

double tick() { return 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)); }

}  // namespace

TEST_CASE("busy time is user, nice, system and stolen time of the CPUs allowed, without interrupts, I/O wait and guests") {
  const TemporaryFolder folder;
  folder.write("proc/stat",
               "cpu  999 999 999 999 999 999 999 999 999 999\n"
               "cpu0 1 2 4 1000 1000 1000 1000 8 1000 1000\n"
               "cpu1 500 0 0 0 0 0 0 0 0 0\n"
               "cpu10 16 0 0 0 0 0 0 0 0 0\n"
               "intr 5\n");
  CHECK(sample_cpu(host_with({0, 10}, 2), folder.path()).busy_seconds == doctest::Approx(31 * tick()));
  CHECK(sample_cpu(host_with({0}, 1), folder.path() / "nowhere").wall_seconds == 0);
}

TEST_CASE("this process's samples grow") {
  const HostFacts host = read_host_facts();
  const CpuSample before = sample_cpu(host);
  CpuSample after = before;
  while (after.own_seconds <= before.own_seconds) after = sample_cpu(host);
  CHECK(after.wall_seconds > before.wall_seconds);
  CHECK(after.busy_seconds >= before.busy_seconds);
}

TEST_CASE("what others took is busy time that is not ours, over the time we may use, less one tick a CPU") {
  const HostFacts host = host_with({0, 1}, 2);
  const CpuSample before{10, 100, 1000};
  CHECK(others_cpu_share(before, {14, 106, 1010}, host) == doctest::Approx((2 - 2 * tick()) / 20));
  CHECK(others_cpu_share(before, {14, 104, 1010}, host) == 0);
  CHECK(others_cpu_share(before, {14, 103, 1010}, host) == 0);
  CHECK(others_cpu_share(before, {14, 104 + 2 * tick(), 1010}, host) == doctest::Approx(0));
  CHECK(others_cpu_share(before, {10, 200, 1010}, host) == 1);
  CHECK(others_cpu_share(before, before, host) == 0);
}

TEST_CASE("under a quota others take nothing from us while CPUs are spare") {
  const HostFacts host = host_with({0, 1, 2, 3}, 1);
  const CpuSample before{0, 0, 0};
  CHECK(others_cpu_share(before, {10, 30, 10}, host) == 0);
  CHECK(others_cpu_share(before, {5, 40 + 4 * tick(), 10}, host) == doctest::Approx(0.5));
}
