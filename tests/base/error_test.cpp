#include "base/error.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <new>

#include "base/events.hpp"

using namespace dsanalyze;

TEST_CASE("each error class carries its kind") {
  CHECK(Error("x").kind() == ErrorKind::failed);
  CHECK(Interrupted().kind() == ErrorKind::interrupted);
  CHECK(Error(ErrorKind::undecided, "x").kind() == ErrorKind::undecided);
}

TEST_CASE("a system error names the action, the path and the cause") {
  CHECK_THROWS_WITH_AS(throw_errno("cannot open", "/a/b", ENOENT), "cannot open /a/b: No such file or directory", Error);
}

TEST_CASE("memory that is short is told from all else that the system refuses") {
  CHECK_THROWS_AS(throw_errno("cannot map", "/a/b", ENOMEM), NoMemoryError);
  CHECK(says_no_memory(NoMemoryError("x")));
  CHECK(says_no_memory(std::bad_alloc()));
  CHECK_FALSE(says_no_memory(Error("x")));
  CHECK_THROWS_AS(throw_no_thread(std::bad_alloc(), "3 threads", "start fewer"), NoMemoryError);
  try {
    throw_no_thread(std::runtime_error("x"), "3 threads", "start fewer");
  } catch (const Error& error) {
    CHECK_FALSE(says_no_memory(error));
    CHECK(std::string(error.what()) == "cannot start 3 threads: the system or a container limits how many there may be; start fewer");
  }
}

TEST_CASE("every status code has a name of its own") {
  CHECK(status_name(StatusCode::ok) == "ok");
  CHECK(status_name(StatusCode::not_found) == "not_found");
  CHECK(status_name(StatusCode::io) == "io");
  CHECK(Status{}.ok());
  CHECK_FALSE(Status{StatusCode::timeout}.ok());
  for (int a = 0; a <= static_cast<int>(StatusCode::io); ++a) {
    for (int b = 0; b < a; ++b) CHECK(status_name(static_cast<StatusCode>(a)) != status_name(static_cast<StatusCode>(b)));
  }
}

TEST_CASE("the null sink takes every event") {
  CHECK_NOTHROW(null_events().progress({"listing", 0.5, 1}));
  CHECK_NOTHROW(null_events().note("line"));
  CHECK_NOTHROW(null_events().finding({"code", Finding::Severity::info, "message"}));
  CHECK(&null_events() == &null_events());
}
