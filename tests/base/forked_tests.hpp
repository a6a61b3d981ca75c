#pragma once

namespace dsanalyze::testing {

/// Tests that fork beside threads are left out there: the thread sanitizer lets no such process start threads, and the address sanitizer of clang 14
/// may hold its allocator's lock in another thread at the fork, which the child then waits for. Both see the same code in tests of threads alone.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool threads_only = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool threads_only = true;
#else
constexpr bool threads_only = false;
#endif
#else
constexpr bool threads_only = false;
#endif

}  // namespace dsanalyze::testing
