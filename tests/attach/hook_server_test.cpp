#include "attach/hook_server.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "../base/temporary_folder.hpp"

using namespace dsanalyze;

namespace {

int connected(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return descriptor;
}

void say(int descriptor, const std::string& text) { REQUIRE(::send(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())); }

struct Heard {
  std::vector<std::string> lines;
  int closed = 0;
  int member = 0;
  HookServer::Handlers handlers{[this](int who, std::string_view line) {
                                  member = who;
                                  lines.emplace_back(line);
                                },
                                [this](int /*who*/) { ++closed; }};
};

/// A server with one process that has connected.
struct Connected {
  testing::TemporaryFolder folder;
  HookServer server{folder.path() / "attach"};
  Heard heard;
  int other = connected(folder.path() / "attach");
  Connected() { server.serve(1000, heard.handlers); }
};

}  // namespace

TEST_CASE("lines come whole and in order, however they were cut on their way, and are answered") {
  Connected pair;
  auto& [folder, server, heard, other] = pair;
  say(other, "one\ntw");
  server.serve(1000, heard.handlers);
  say(other, "o\nthree\n");
  server.serve(1000, heard.handlers);
  CHECK(heard.lines == std::vector<std::string>{"one", "two", "three"});
  server.send(heard.member, "answer\n");
  char answer[16]{};
  CHECK(::recv(other, answer, sizeof answer, 0) == 7);
  ::close(other);
  server.serve(1000, heard.handlers);
  CHECK(heard.closed == 1);
  server.send(heard.member, "to no process\n");
}

TEST_CASE("a process that never reads does not keep the launcher waiting for ever") {
  Connected pair;
  auto& [folder, server, heard, other] = pair;
  say(other, "hello\n");
  server.serve(1000, heard.handlers);
  ::close(other);
  server.send(heard.member, std::string(std::size_t{4} << 20, 'x'));
  server.serve(1000, heard.handlers);
  CHECK(heard.closed == 1);
}
