#include "share/group.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "group_rig.hpp"

namespace dsanalyze {
namespace {

using testing::group_terms;
using testing::host_parts;
using testing::in_time;
using testing::MemberProcess;
using testing::MemberRun;

TEST_CASE("every process of a group gets every batch once and in order, whichever process makes them" * doctest::skip(testing::threads_only)) {
  for (const auto producers : {Producers::jobs, Producers::coordinator}) {
    for (const std::uint32_t jobs : {1U, 2U, 8U}) {
      CAPTURE(jobs);
      GroupHost host(host_parts(group_terms(jobs, 3, producers)));
      std::vector<MemberProcess> members;
      for (std::uint32_t i = 0; i < jobs; ++i) members.emplace_back(host, MemberRun{3});
      std::atomic<bool> over{false};
      std::jthread producer;
      if (producers == Producers::coordinator) producer = std::jthread([&] { testing::produce(host.producer(), over); });
      for (MemberProcess& member : members) CHECK(member.end() == 0);
      CHECK(host.wait_over(in_time()));
      over = true;
      CHECK(host.state().joined == jobs);
      CHECK(host.state().opened_epochs == 3);
    }
  }
}

}  // namespace
}  // namespace dsanalyze
