#pragma once

// What the suites under sanitizers leave out: `TEST_CASE("..." * doctest::skip(testing::threads_only))`.

#if defined(__has_feature)
#define DSANALYZE_SANITIZED_BY(sanitizer) __has_feature(sanitizer)
#else
#define DSANALYZE_SANITIZED_BY(sanitizer) 0
#endif

namespace dsanalyze::testing {

#if defined(__SANITIZE_ADDRESS__) || DSANALYZE_SANITIZED_BY(address_sanitizer)
constexpr bool under_address_sanitizer = true;
#else
constexpr bool under_address_sanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || DSANALYZE_SANITIZED_BY(thread_sanitizer)
constexpr bool under_thread_sanitizer = true;
#else
constexpr bool under_thread_sanitizer = false;
#endif

/// Tests that fork beside threads: at the fork another thread may hold the lock of the address sanitizer's allocator (clang 14), for which the child
/// then waits for ever. It sees the same code in tests of threads alone.
constexpr bool fork_may_hang = under_address_sanitizer;

/// Such tests whose children start threads, too: the thread sanitizer lets no such process do so.
constexpr bool threads_only = fork_may_hang || under_thread_sanitizer;

/// Tests that repeat what others do until a share is sure: a sanitizer finds nothing more in the thousandth time, and takes minutes.
constexpr bool too_often = under_address_sanitizer || under_thread_sanitizer;

/// Tests whose threads do what those of another test do, which the thread sanitizer watches.
constexpr bool races_are_found_elsewhere = under_thread_sanitizer;

/// What a time budget is multiplied with where something has to be measured within it.
constexpr double time_factor = under_address_sanitizer || under_thread_sanitizer ? 6 : 1;

}  // namespace dsanalyze::testing
