#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "../../base/child_process.hpp"
#include "../../base/texts.hpp"
#include "fetch_engines.hpp"
#include "loaders/fetch/uring.hpp"

namespace dsanalyze {
namespace {

using testing::says;

/// From here on a system call of this process fails, as a container's security profile makes it.
bool forbid(unsigned number, unsigned error) {
  std::array<sock_filter, 4> program = {{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                         {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number},
                                         {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
                                         {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog filter{program.size(), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr int no_seccomp = 77;

TEST_CASE("where a security profile forbids io_uring, a person is told so, and the engine refuses with the reason") {
  if (!uring_support().usable) return;
  testing::FileDataset data;
  data.add("a", "a");
  const auto index = data.index();
  const int status = testing::in_child([&] {
    if (!forbid(__NR_io_uring_setup, EPERM)) return no_seccomp;
    const IoSupport support = try_uring();
    if (support.usable || !says(support.reason, "security profile forbids it")) return 1;
    const std::string refusal = testing::error_of([&] { make_uring_engine(index, {}, system_timing()); });
    if (!says(refusal, "io_uring cannot be used: ") || !says(refusal, "security profile")) return 2;
    // Threads read on.
    const auto engine = make_thread_engine(index, testing::fetch_options(4), system_timing());
    return testing::fetch_all(*engine, *index).at(0).bytes == "a" ? 0 : 3;
  });
  if (status != no_seccomp) CHECK(status == 0);
}

TEST_CASE("a kernel without io_uring is named as such") {
  const int status = testing::in_child([] {
    if (!forbid(__NR_io_uring_setup, ENOSYS)) return no_seccomp;
    const IoSupport support = try_uring();
    return !support.usable && says(support.reason, "has no io_uring") ? 0 : 1;
  });
  if (status != no_seccomp) CHECK(status == 0);
}

TEST_CASE("no descriptor for a ring is too many open files, not a forbidden io_uring") {
  const int status = testing::in_child([] {
    if (!forbid(__NR_io_uring_setup, EMFILE)) return no_seccomp;
    const IoSupport support = try_uring();
    return !support.usable && says(support.reason, "too many files are open") ? 0 : 1;
  });
  if (status != no_seccomp) CHECK(status == 0);
}

TEST_CASE("the answer about io_uring has a reason exactly if it is no") {
  const IoSupport support = uring_support();
  CHECK(support.usable == support.reason.empty());
  CHECK(try_uring().usable == support.usable);
}

}  // namespace
}  // namespace dsanalyze
