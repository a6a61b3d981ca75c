#include "transport/rendezvous/job_key.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"

namespace dsanalyze {
namespace {

using testing::message_of;
using testing::says;

/// A file that only its owner reads.
std::filesystem::path key_file(const testing::TemporaryFolder& folder, const std::string& content, unsigned mode = 0600) {
  folder.write("key", content);
  REQUIRE(::chmod((folder.path() / "key").c_str(), mode) == 0);
  return folder.path() / "key";
}

const std::string raw_key = "0123456789abcdef0123456789abcdef";

TEST_CASE("a key file is 32 bytes as they are, or 64 hexadecimal digits") {
  const testing::TemporaryFolder folder;
  const SecretKey raw = read_key_file(key_file(folder, raw_key));
  CHECK(std::memcmp(raw.bytes().data(), raw_key.data(), 32) == 0);
  const std::string digits = "30313233343536373839616263646566303132333435363738396142634465" + std::string("66");
  for (const std::string end : {"", "\n", "\r\n"}) CHECK(read_key_file(key_file(folder, digits + end)).bytes().front() == std::byte{0x30});
  CHECK(read_key_file(key_file(folder, std::string(32, '\n'))).bytes().back() == std::byte{'\n'});  // any 32 bytes are a key
}

TEST_CASE("a file that holds no key is refused, with what to do and without a byte of it") {
  const testing::TemporaryFolder folder;
  for (const std::string& content : {std::string(), raw_key.substr(1), raw_key + "\n", std::string(64, 'g'), std::string(63, 'a'),
                                     std::string(64, 'a') + "\n\n", std::string(100'000, 'a'), std::string(64, '\0')}) {
    const std::string message = message_of([&] { read_key_file(key_file(folder, content)); });
    CHECK(says(message, "does not hold a key"));
    CHECK(says(message, "head -c 32 /dev/urandom > "));
    CHECK(!says(message, "aaaa"));
    CHECK(!says(message, "456789"));
  }
}

TEST_CASE("a key file that others may read or write, that is no file, or is not there is refused") {
  const testing::TemporaryFolder folder;
  for (const unsigned mode : {0640U, 0604U, 0660U, 0601U, 0620U}) {
    CHECK(says(message_of([&] { read_key_file(key_file(folder, raw_key, mode)); }), "is open to others (mode 6"));
  }
  CHECK(says(message_of([&] { read_key_file(folder.path() / "none"); }), "there is no key file"));
  CHECK(says(message_of([&] { read_key_file(folder.path()); }), "is no regular file"));
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(says(message_of([&] { read_key_file(folder.path() / "pipe"); }), "is no regular file"));
  CHECK(says(message_of([&] { read_key_file("/dev/null"); }), "is no regular file"));
}

TEST_CASE("another user's key file is refused" * doctest::skip(::geteuid() != 0)) {
  const testing::TemporaryFolder folder;
  const auto path = key_file(folder, raw_key);
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  CHECK(says(message_of([&] { read_key_file(path); }), "belongs to another user (number 12345"));
}

TEST_CASE("a key file may be a link to one, as secrets are mounted") {
  const testing::TemporaryFolder folder;
  key_file(folder, raw_key);
  std::filesystem::create_symlink("key", folder.path() / "link");
  CHECK(read_key_file(folder.path() / "link").bytes().front() == std::byte{'0'});
  CHECK(::chmod((folder.path() / "key").c_str(), 0644) == 0);
  CHECK(says(message_of([&] { read_key_file(folder.path() / "link"); }), "is open to others"));
}

TEST_CASE("a hostile name of a key file is shown, not obeyed") {
  const std::string message = message_of([&] { read_key_file("/none/\x1b[2J"); });
  CHECK(says(message, "\\x1b[2J"));
  CHECK(!says(message, "\x1b"));
}

TEST_CASE("keys that are made differ") { CHECK(make_key().bytes() != make_key().bytes()); }

TEST_CASE("a key is wiped from memory when it goes") {
  alignas(SecretKey) std::byte place[sizeof(SecretKey)];
  JobKey bytes;
  bytes.fill(std::byte{0xab});
  auto* key = new (place) SecretKey(bytes);
  CHECK(std::ranges::count(place, std::byte{0xab}) == 32);
  key->~SecretKey();
  CHECK(std::ranges::count(place, std::byte{0xab}) == 0);
}

}  // namespace
}  // namespace dsanalyze
