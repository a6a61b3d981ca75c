#include <doctest/doctest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "../base/sanitizers.hpp"
#include "../base/temporary_folder.hpp"
#include "ports.hpp"
#include "transport/rendezvous/introduction.hpp"

// What is given back to the system's memory during a meeting is kept here, and searched for the key afterwards.

namespace {

constexpr std::size_t most_kept = std::size_t{64} << 20;

struct GivenBack {
  std::atomic<bool> keeps{false};
  std::mutex mutex;
  char* bytes = nullptr;
  std::size_t used = 0;
};
GivenBack given_back;

void keep(void* memory) {
  if (memory == nullptr || !given_back.keeps.load(std::memory_order_relaxed)) return;
  const std::size_t size = ::malloc_usable_size(memory);
  const std::scoped_lock lock(given_back.mutex);
  if (size < sizeof(dsanalyze::JobKey) || given_back.used + size > most_kept) return;
  std::memcpy(given_back.bytes + given_back.used, memory, size);
  given_back.used += size;
}

}  // namespace

// Plain ones would do, but for what they give back.
void* operator new(std::size_t size) {
  if (void* const memory = std::malloc(std::max<std::size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  keep(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  keep(memory);
  std::free(memory);
}

namespace dsanalyze {
namespace {

/// Whether the key, as bytes or as digits, was in memory that was given back while `use` ran, which answers the key.
template <typename Use>
bool leaves_traces(const Use& use) {
  given_back.bytes = static_cast<char*>(std::malloc(most_kept));
  given_back.used = 0;
  given_back.keeps.store(true);
  const SecretKey key = use();
  given_back.keeps.store(false);
  const std::string_view all(given_back.bytes, given_back.used);
  const std::string_view raw(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
  std::string digits;
  for (const std::byte byte : key.bytes()) {
    for (const unsigned half : {std::to_integer<unsigned>(byte) >> 4, std::to_integer<unsigned>(byte) & 15U}) digits += "0123456789abcdef"[half];
  }
  CHECK(given_back.used < most_kept);
  // Parts too: a block's first bytes are the allocator's once it is free, and a shorter text may lie over the begin of a longer one.
  const bool found = all.find(raw.substr(0, 16)) != std::string_view::npos || all.find(raw.substr(16)) != std::string_view::npos ||
                     all.find(std::string_view(digits).substr(0, 32)) != std::string_view::npos ||
                     all.find(std::string_view(digits).substr(32)) != std::string_view::npos;
  std::free(given_back.bytes);
  return found;
}

SecretKey key_of_all(const std::vector<testing::Met>& met) {
  for (const testing::Met& one : met) REQUIRE_MESSAGE(one.roster.has_value(), one.error);
  return met.front().roster->key;
}

// The address sanitizer keeps what is given back, and has an allocator of its own.
TEST_SUITE_BEGIN("traces of keys" * doctest::skip(testing::under_address_sanitizer));

TEST_CASE("what is looked for would be found") {
  CHECK(leaves_traces([] {
    const SecretKey key = make_key();
    const std::string copy(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
    return key;
  }));
}

TEST_CASE("a meeting at a file leaves no key in memory that it gave back") {
  for (const std::uint32_t world : {2U, 5U}) {
    const testing::TemporaryFolder folder;
    CHECK_FALSE(leaves_traces([&] { return key_of_all(testing::meet_together((folder.path() / "meet").native(), testing::all_ranks_of(world))); }));
  }
}

TEST_CASE("a meeting at a port leaves no key in memory that it gave back, made or given") {
  for (const bool given : {false, true}) {
    auto meetings = testing::all_ranks_of(4);
    const SecretKey key = make_key();
    if (given) testing::give_key(meetings, key);
    CHECK_FALSE(leaves_traces([&] { return key_of_all(testing::meet_together(testing::free_place(), meetings)); }));
  }
}

TEST_CASE("an exchange leaves no key in memory that it gave back, whether it succeeds or fails") {
  const auto meetings = testing::all_ranks_of(3);
  for (const bool fails : {false, true}) {
    CHECK_FALSE(leaves_traces([&] {
      std::vector<std::byte> all;
      all.reserve(meetings.size() * exchanged_bytes);
      for (const Meeting& meeting : meetings) {
        std::vector<std::byte> one = exchanged_record(meeting);
        all.insert(all.end(), one.begin(), one.end());
        std::ranges::fill(one, std::byte{});  // its owner's task
      }
      auto copy = all;
      const SecretKey key = roster_of_exchange(copy, meetings[1]).key;
      if (fails) {
        std::ranges::fill(std::span(all).subspan(exchanged_bytes, 8), std::byte{'x'});
        CHECK_THROWS_AS(roster_of_exchange(all, meetings[1]), Error);
      }
      std::ranges::fill(std::span(all).first(fails ? 0 : all.size()), std::byte{});
      return key;
    }));
  }
}

TEST_CASE("a key file leaves no key in memory that reading it gave back, be it whole or too long") {
  const testing::TemporaryFolder folder;
  const std::string digits = "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210";
  const auto of = [&](const std::string& name, const std::string& content) {
    folder.write(name, content);
    const std::filesystem::path path = folder.path() / name;
    ::chmod(path.c_str(), 0600);
    return path;
  };
  const auto whole = of("whole", digits + "\n");
  const auto too_long = of("long", std::string(100, 'z') + digits);
  CHECK_FALSE(leaves_traces([&] { return read_key_file(whole); }));
  const SecretKey key = read_key_file(whole);
  CHECK_FALSE(leaves_traces([&] {
    CHECK_THROWS_AS(read_key_file(too_long), UsageError);
    return key;
  }));
}

TEST_SUITE_END();

}  // namespace
}  // namespace dsanalyze
