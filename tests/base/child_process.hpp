#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

namespace dsanalyze::testing {

/// Runs `body` in a forked child and returns the exit status that it returned; -1 if it was killed, 99 if it threw.
template <typename Body>
int in_child(const Body& body) {
  std::fflush(stdout);  // or the child might print it a second time
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (const std::exception&) {
      status = 99;
    }
    ::_exit(status);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace dsanalyze::testing
