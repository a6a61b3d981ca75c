#include "base/system/shared_memory.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "child_process.hpp"
#include "texts.hpp"

using namespace dsanalyze;
using testing::in_child;
using testing::message_of;

namespace {

FileDescriptor copy_of(const MemorySegment& segment) { return FileDescriptor(::fcntl(segment.descriptor(), F_DUPFD_CLOEXEC, 0)); }

}  // namespace

TEST_CASE("a new segment is zeroed, of the size asked for, and cannot be resized") {
  const MemorySegment segment = MemorySegment::create("test", 10'000);
  REQUIRE(segment.size() == 10'000);
  CHECK(std::ranges::all_of(segment.span(), [](std::byte byte) { return byte == std::byte{0}; }));
  CHECK(::ftruncate(segment.descriptor(), 5000) != 0);
  CHECK(::ftruncate(segment.descriptor(), 20'000) != 0);
  CHECK((::fcntl(segment.descriptor(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a segment without huge pages takes memory as it is touched, a page at a time") {
  const MemorySegment segment = MemorySegment::create("test", std::size_t{8} << 20, HugePages::never);
  CHECK(segment.resident_bytes() == 0);
  segment.data()[0] = std::byte{1};
  segment.data()[5 << 20] = std::byte{1};
  CHECK(segment.resident_bytes() == 2 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

TEST_CASE("more memory than this process may use is refused, with what is needed and what there is") {
  const std::string message = message_of<Error>([] { MemorySegment::create("cache", std::size_t{1} << 60); });
  CHECK(message.find("it needs 1 EiB") != std::string::npos);
  CHECK(message.find("may use") != std::string::npos);
  CHECK_THROWS_AS(MemorySegment::create("cache", std::numeric_limits<std::size_t>::max()), Error);
  CHECK_THROWS_AS(MemorySegment::create("cache", 0), Error);
}

TEST_CASE("what one process writes, another reads, also after the writer was killed") {
  const MemorySegment segment = MemorySegment::create("test", 4096);
  CHECK(in_child([&] {
          const MemorySegment attached = MemorySegment::attach(copy_of(segment), Access::read_write, 4096);
          attached.data()[7] = std::byte{42};
          return ::kill(::getpid(), SIGKILL);
        }) == -1);
  CHECK(segment.data()[7] == std::byte{42});
  CHECK(in_child([&] { return static_cast<int>(MemorySegment::attach(copy_of(segment), Access::read_only, 4096).data()[7]); }) == 42);
}

TEST_CASE("after future writers are forbidden the producer still writes, others only read") {
  MemorySegment segment = MemorySegment::create("test", 4096);
  CHECK_FALSE(segment.future_writers_forbidden());
  segment.forbid_future_writers();
  CHECK(segment.future_writers_forbidden());
  CHECK(MemorySegment::attach(copy_of(segment), Access::read_only, 4096).future_writers_forbidden());
  segment.data()[0] = std::byte{1};
  CHECK(in_child([&] {
          const MemorySegment attached = MemorySegment::attach(copy_of(segment), Access::read_only, 4096);
          return attached.data()[0] == std::byte{1} ? 0 : 1;
        }) == 0);
  CHECK(in_child([&] {
          try {
            MemorySegment::attach(copy_of(segment), Access::read_write, 4096);
          } catch (const Error&) {
            return 0;
          }
          return 1;
        }) == 0);
  CHECK(::pwrite(segment.descriptor(), "x", 1, 0) < 0);
  CHECK_THROWS_AS(segment.forbid_future_writers(), Error);
}

TEST_CASE("only sealed memory of at least the size expected is attached") {
  const MemorySegment segment = MemorySegment::create("test", 4096);
  CHECK(message_of<Error>([&] { MemorySegment::attach(copy_of(segment), Access::read_only, 4097); }).find("4096 bytes, at least 4097") !=
        std::string::npos);
  FileDescriptor unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 4096) == 0);
  CHECK_THROWS_AS(MemorySegment::attach(std::move(unsealed), Access::read_only, 1), Error);
  CHECK_THROWS_AS(MemorySegment::attach(FileDescriptor(::open("/dev/zero", O_RDWR | O_CLOEXEC)), Access::read_only, 1), Error);
  CHECK_THROWS_AS(MemorySegment::attach(FileDescriptor(), Access::read_only, 1), Error);
}

TEST_CASE("populate takes every page of a segment at once") {
  MemorySegment segment = MemorySegment::create("test", std::size_t{4} << 20, HugePages::never);
  CHECK(segment.resident_bytes() == 0);
  segment.populate();
  CHECK((segment.resident_bytes() == segment.size() || segment.resident_bytes() == 0));  // 0: a kernel before 5.14
}

TEST_CASE("populate takes a part of a segment, up to its end at most") {
  constexpr std::size_t piece = std::size_t{1} << 20U;
  MemorySegment segment = MemorySegment::create("test", 3 * piece / 2, HugePages::never);
  segment.populate(piece, piece);
  CHECK((segment.resident_bytes() == piece / 2 || segment.resident_bytes() == 0));  // 0: a kernel before 5.14
}

TEST_CASE("memory that is promised to others is not there for a new segment") {
  CHECK(message_of<NoMemoryError>([] { MemorySegment::create("test", 4096, HugePages::never, std::size_t{1} << 60U); }).find("may use 0 B now") !=
        std::string::npos);
}

TEST_CASE("a segment moves with its mapping and descriptor") {
  MemorySegment first = MemorySegment::create("a", 4096);
  first.data()[0] = std::byte{9};
  const int descriptor = first.descriptor();
  MemorySegment second = std::move(first);
  CHECK(second.data()[0] == std::byte{9});
  MemorySegment third = MemorySegment::create("b", 8192);
  const int replaced = third.descriptor();
  third = std::move(second);
  CHECK(third.descriptor() == descriptor);
  CHECK(third.size() == 4096);
  CHECK(::fcntl(replaced, F_GETFD) < 0);
}
