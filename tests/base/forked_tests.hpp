#pragma once

// Which tests that fork beside threads the suites under sanitizers leave out: `TEST_CASE("..." * doctest::skip(testing::threads_only))`. Both
// sanitizers see the same code in tests of threads alone.

#if defined(__has_feature)
#define DSANALYZE_SANITIZED_BY(sanitizer) __has_feature(sanitizer)
#else
#define DSANALYZE_SANITIZED_BY(sanitizer) 0
#endif

namespace dsanalyze::testing {

/// At the fork another thread may hold the lock of the address sanitizer's allocator (clang 14), for which the child then waits for ever.
#if defined(__SANITIZE_ADDRESS__) || DSANALYZE_SANITIZED_BY(address_sanitizer)
constexpr bool fork_may_hang = true;
#else
constexpr bool fork_may_hang = false;
#endif

/// Tests whose children start threads: the thread sanitizer lets no such process do so.
#if defined(__SANITIZE_THREAD__) || DSANALYZE_SANITIZED_BY(thread_sanitizer)
constexpr bool threads_only = true;
#else
constexpr bool threads_only = fork_may_hang;
#endif

}  // namespace dsanalyze::testing
