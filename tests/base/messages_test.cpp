#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "base/system/shared_memory.hpp"
#include "child_process.hpp"
#include "soon.hpp"

using namespace dsanalyze;
using testing::in_child;
using testing::soon;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

struct Received {
  Status status;
  std::string text;
  std::vector<FileDescriptor> descriptors;
};

Received receive(const FileDescriptor& socket, Deadline deadline, std::size_t room = 100) {
  Received result;
  std::vector<std::byte> buffer(room);
  std::size_t size = 0;
  result.status = receive_message(socket.get(), buffer, size, result.descriptors, deadline);
  result.text.assign(reinterpret_cast<const char*>(buffer.data()), size);
  return result;
}

}  // namespace

TEST_CASE("messages arrive whole, in order, with their boundaries") {
  const auto [left, right] = socket_pair();
  CHECK(send_message(left.get(), bytes_of("one"), {}, soon()).ok());
  CHECK(send_message(left.get(), bytes_of("second"), {}, soon()).ok());
  CHECK(receive(right, soon()).text == "one");
  CHECK(receive(right, soon()).text == "second");
}

TEST_CASE("descriptors cross between processes and are close-on-exec") {
  const auto [left, right] = socket_pair();
  const pid_t child = ::fork();
  if (child == 0) {
    const MemorySegment segment = MemorySegment::create("crossing", 4096);
    segment.data()[5] = std::byte{77};
    const std::array descriptors = {segment.descriptor()};
    ::_exit(send_message(left.get(), bytes_of("segment"), descriptors, soon()).ok() ? 0 : 1);
  }
  Received received = receive(right, soon());
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  REQUIRE(received.status.ok());
  REQUIRE(received.descriptors.size() == 1);
  CHECK((::fcntl(received.descriptors[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  const MemorySegment segment = MemorySegment::attach(std::move(received.descriptors[0]), Access::read_only, 4096);
  CHECK(segment.data()[5] == std::byte{77});
}

TEST_CASE("the sender is named by the process that sends, not by the one that made the socket") {
  const auto [left, right] = socket_pair();
  name_senders(right.get());
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<int> descriptors(16, left.get());
    ::_exit(send_message(left.get(), bytes_of("x"), descriptors, soon()).ok() ? 0 : 1);
  }
  std::array<std::byte, 10> buffer{};
  std::size_t size = 0;
  std::vector<FileDescriptor> descriptors;
  MessageSender sender;
  CHECK(receive_message(right.get(), buffer, size, descriptors, sender, soon()).ok());
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(size == 1);
  CHECK(descriptors.size() == 16);
  CHECK(sender.process == child);
}

TEST_CASE("sixteen descriptors cross, seventeen are refused") {
  const auto [left, right] = socket_pair();
  const std::vector<int> descriptors(17, left.get());
  const auto most = std::span(descriptors).first(16);
  CHECK(send_message(left.get(), bytes_of("x"), most, soon()).ok());
  CHECK(receive(right, soon()).descriptors.size() == 16);
  const Status status = send_message(left.get(), bytes_of("x"), descriptors, soon());
  CHECK(status.code == StatusCode::io);
  CHECK(status.detail == EINVAL);
}

TEST_CASE("a message larger than the buffer is corrupt and leaks none of its descriptors") {
  const auto [left, right] = socket_pair();
  const std::size_t before = open_descriptors();
  const std::array descriptors = {left.get(), right.get()};
  REQUIRE(send_message(left.get(), bytes_of("too long"), descriptors, soon()).ok());
  const Received received = receive(right, soon(), 4);
  CHECK(received.status.code == StatusCode::corrupt);
  CHECK(received.descriptors.empty());
  CHECK(received.text.empty());
  CHECK(open_descriptors() == before);
}

TEST_CASE("more descriptors than a message may have are corrupt and none leaks") {
  const auto [left, right] = socket_pair();
  const std::size_t before = open_descriptors();
  char letter = 'x';
  iovec content{&letter, 1};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(20 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(20 * sizeof(int));
  std::array<int, 20> descriptors{};
  descriptors.fill(left.get());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
  REQUIRE(::sendmsg(left.get(), &header, 0) == 1);
  CHECK(receive(right, soon()).status.code == StatusCode::corrupt);
  CHECK(open_descriptors() == before);
}

TEST_CASE("a peer that closed is the end for the receiver and an error for the sender, never a signal") {
  auto [left, right] = socket_pair();
  REQUIRE(send_message(left.get(), bytes_of("last"), {}, soon()).ok());
  left.reset();
  CHECK(receive(right, soon()).text == "last");
  CHECK(receive(right, soon()).status.code == StatusCode::end);
  const Status status = send_message(right.get(), bytes_of("x"), {}, soon());
  CHECK(status.code == StatusCode::io);
  CHECK(status.detail == EPIPE);
}

TEST_CASE("a peer that closed with our message unread is the end too") {
  auto [left, right] = socket_pair();
  REQUIRE(send_message(right.get(), bytes_of("unread"), {}, soon()).ok());
  left.reset();
  CHECK(receive(right, soon()).status.code == StatusCode::end);
}

TEST_CASE("waiting for a message or for room ends at the deadline") {
  const auto [left, right] = socket_pair();
  CHECK(receive(right, {0}).status.code == StatusCode::timeout);
  CHECK(receive(right, {system_timing().clock->now() + 2'000'000}).status.code == StatusCode::timeout);
  Status status;
  while (status.ok()) status = send_message(left.get(), bytes_of("fill"), {}, {0});
  CHECK(status.code == StatusCode::timeout);
}

TEST_CASE("a receiver that waits gets the message when it comes") {
  const auto [left, right] = socket_pair();
  std::thread sender([&left = left] { CHECK(send_message(left.get(), bytes_of("late"), {}, soon()).ok()); });
  CHECK(receive(right, soon()).text == "late");
  sender.join();
}

TEST_CASE("an empty message, which a receiver would take for the end, is refused") {
  const auto [left, right] = socket_pair();
  CHECK(send_message(left.get(), {}, {}, soon()).detail == EINVAL);
  CHECK(receive(right, {0}).status.code == StatusCode::timeout);
}

TEST_CASE("a sender of another user is refused") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  CHECK(in_child([] {
          const auto [left, right] = socket_pair();
          if (!send_message(left.get(), bytes_of("x"), {}, soon()).ok()) return 1;
          if (::seteuid(65534) != 0) return 2;
          const Received received = receive(right, soon());
          return received.status.code == StatusCode::io && received.status.detail == EPERM ? 0 : 3;
        }) == 0);
}

TEST_CASE("a line of this user's that another one sends on is refused") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  const auto [left, right] = socket_pair();
  name_senders(right.get());
  CHECK(in_child([&left = left] {
          return ::setresuid(65534, 65534, 65534) == 0 && send_message(left.get(), bytes_of("x"), {}, soon()).ok() ? 0 : 1;
        }) == 0);
  std::array<std::byte, 10> buffer{};
  std::size_t size = 0;
  std::vector<FileDescriptor> descriptors;
  MessageSender sender;
  const Status status = receive_message(right.get(), buffer, size, descriptors, sender, soon());
  CHECK(status.code == StatusCode::io);
  CHECK(status.detail == EPERM);
}
