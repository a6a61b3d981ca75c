#include "loaders/server/protocol.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "../base/moved_clock.hpp"
#include "base/error.hpp"
#include "loaders/cache/directory.hpp"
#include "loaders/cache/slab.hpp"
#include "server_processes.hpp"

namespace dsanalyze {
namespace {

using namespace testing;
using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

Deadline soon() { return system_timing().clock->after(5); }

/// A client that says what the test wants it to say.
class RawClient {
 public:
  explicit RawClient(FileDescriptor socket) : m_socket(std::move(socket)) {}
  explicit RawClient(ServerHolder& holder) {
    auto [mine, theirs] = socket_pair();
    holder.serve(std::move(mine));
    m_socket = std::move(theirs);
  }

  void tell(const Request& request, int attached = -1) const {
    const auto descriptors = attached >= 0 ? std::span<const int>(&attached, 1) : std::span<const int>();
    static_cast<void>(send_message(m_socket.get(), std::as_bytes(std::span(&request, 1)), descriptors, soon()).ok());
  }
  /// nullopt when the holder ended the connection instead.
  std::optional<Reply> ask(const Request& request, int attached = -1) {
    tell(request, attached);
    Reply reply;
    std::size_t size = 0;
    m_received.clear();
    if (!receive_message(m_socket.get(), std::as_writable_bytes(std::span(&reply, 1)), size, m_received, soon()).ok()) return std::nullopt;
    return reply;
  }
  bool hello() { return ask(request_of(Kind::hello, server_protocol::version)).has_value(); }
  bool admitted(std::uint64_t key, float priority = 0) {
    Request request = request_of(Kind::admit, 1);
    request.accesses[0] = {key, sample_bytes, 0, priority};
    const auto reply = ask(request);
    return reply && reply->decisions[0] == static_cast<std::uint8_t>(CacheDecision::admit);
  }
  /// The number of its new slab; nullopt when the holder ended the connection.
  std::optional<std::uint32_t> slab(std::size_t bytes) {
    m_slab = MemorySegment::create("slab", bytes);
    m_slab.forbid_future_writers();
    const auto reply = ask(request_of(Kind::new_slab, 0), m_slab.descriptor());
    return reply ? std::optional(reply->value) : std::nullopt;
  }
  void publish(std::uint64_t key, std::uint32_t slab, std::uint64_t offset, std::uint32_t length) const {
    Request request = request_of(Kind::publish, 0);
    request.key = key;
    request.slab = slab;
    request.offset = offset;
    request.length = length;
    tell(request);
  }
  static Request request_of(Kind kind, std::uint32_t count) {
    Request request;
    request.kind = kind;
    request.count = count;
    return request;
  }
  [[nodiscard]] const std::vector<FileDescriptor>& received() const { return m_received; }

 private:
  FileDescriptor m_socket;
  MemorySegment m_slab;
  std::vector<FileDescriptor> m_received;
};

/// A MinIO holder beside a client that was promised sample 7 and has a slab.
struct Scene {
  ServerHolder holder{minio(all_bytes), system_timing()};
  RawClient client{holder};
  std::uint32_t slab = 0;

  Scene() {
    REQUIRE(client.hello());
    REQUIRE(client.admitted(7));
    slab = client.slab(std::size_t{8} * sample_bytes).value();
    REQUIRE(slab != server_protocol::no_slab);
  }
};

TEST_CASE("a client that keeps to the protocol is served") {
  Scene scene;
  scene.client.publish(7, scene.slab, 0, sample_bytes);
  REQUIRE(scene.client.hello());  // the publish is done when this is answered
  CHECK(look_up(scene.holder.cache(), 7).decision == CacheDecision::hit);
}

TEST_CASE("a client that breaks the protocol is dropped, and what it was promised is free again") {
  struct Breach {
    const char* what;
    std::function<void(Scene&)> act;
  };
  const std::vector<Breach> breaches = {
      {"more bytes than admitted", [](Scene& scene) { scene.client.publish(7, scene.slab, 0, sample_bytes + 1); }},
      {"bytes beyond its slab", [](Scene& scene) { scene.client.publish(7, scene.slab, std::uint64_t{7} * sample_bytes + 1, sample_bytes); }},
      {"an offset that wraps round", [](Scene& scene) { scene.client.publish(7, scene.slab, UINT64_MAX - 10, sample_bytes); }},
      {"the slab of another", [](Scene& scene) { scene.client.publish(7, 0, 0, sample_bytes); }},
      {"a key never promised", [](Scene& scene) { scene.client.publish(8, scene.slab, 0, sample_bytes); }},
      {"a key that is no sample's", [](Scene& scene) { scene.client.publish(UINT64_MAX, scene.slab, 0, sample_bytes); }},
      {"a second slab", [](Scene& scene) { CHECK_FALSE(scene.client.slab(sample_bytes)); }},
      {"abandon of a key never promised",
       [](Scene& scene) {
         Request request = RawClient::request_of(Kind::abandon, 0);
         request.key = 9;
         scene.client.tell(request);
       }},
      {"more accesses than a message has", [](Scene& scene) { scene.client.tell(RawClient::request_of(Kind::admit, server_protocol::group + 1)); }},
      {"an item of more than 4 GiB",
       [](Scene& scene) {
         Request request = RawClient::request_of(Kind::admit, 1);
         request.accesses[0] = {9, std::uint64_t{1} << 32, 0, 0};
         scene.client.tell(request);
       }},
      {"a slab that is not there", [](Scene& scene) { scene.client.tell(RawClient::request_of(Kind::get_slab, 50'000)); }},
      {"another version", [](Scene& scene) { scene.client.tell(RawClient::request_of(Kind::hello, server_protocol::version + 1)); }},
  };
  for (const Breach& breach : breaches) {
    CAPTURE(breach.what);
    Scene scene;
    breach.act(scene);
    CHECK(all_gone(scene.holder));
    CHECK(look_up(scene.holder.cache(), 7).decision == CacheDecision::admit);
    CHECK(scene.holder.cache().totals().items == 0);
  }
}

TEST_CASE("a client's priority that is negative or no number counts as 0") {
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  CacheOptions options = minio(all_bytes);
  ServerHolder first_come(options, system_timing());
  RawClient client(first_come);
  CHECK(client.admitted(1, none));
  CHECK(client.admitted(2, -1));
  options.least_priority = 1e-9F;
  ServerHolder choosy(options, system_timing());
  RawClient other(choosy);
  CHECK_FALSE(other.admitted(1, none));
  CHECK_FALSE(other.admitted(2, -std::numeric_limits<float>::infinity()));
  CHECK_FALSE(other.admitted(3, 0));
  CHECK(other.admitted(4, 1e-9F));
}

TEST_CASE("a slab that others could still write, or larger than the cache, is not taken") {
  ServerHolder holder(minio(all_bytes), system_timing());
  {
    RawClient client(holder);
    const MemorySegment open = MemorySegment::create("slab", sample_bytes);
    CHECK_FALSE(client.ask(RawClient::request_of(Kind::new_slab, 0), open.descriptor()));
    RawClient other(holder);
    CHECK_FALSE(other.slab(2 * all_bytes));
    RawClient third(holder);
    CHECK_FALSE(third.ask(RawClient::request_of(Kind::new_slab, 0), FileDescriptor(::open("/dev/zero", O_RDWR | O_CLOEXEC)).get()));
  }
  CHECK(all_gone(holder));
}

TEST_CASE("directory and slabs can be mapped by clients to read, not to write") {
  Scene scene;
  REQUIRE(scene.client.ask(RawClient::request_of(Kind::hello, server_protocol::version)));
  REQUIRE(scene.client.received().size() == 2);
  const auto copy = [](const FileDescriptor& descriptor) { return FileDescriptor(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0)); };
  CHECK_THROWS_AS(MemorySegment::attach(copy(scene.client.received()[1]), Access::read_write, 1), Error);
  CHECK(MemorySegment::attach(copy(scene.client.received()[1]), Access::read_only, 1).future_writers_forbidden());
  for (const std::uint32_t number : {0U, scene.slab}) {
    REQUIRE(scene.client.ask(RawClient::request_of(Kind::get_slab, number)));
    REQUIRE(scene.client.received().size() == 1);
    CHECK_THROWS_AS(MemorySegment::attach(copy(scene.client.received()[0]), Access::read_write, 1), Error);
    CHECK(MemorySegment::attach(copy(scene.client.received()[0]), Access::read_only, 1).future_writers_forbidden());
  }
}

TEST_CASE("a client of a holder without a MinIO cache that asks for one is dropped") {
  ServerHolder holder({}, system_timing());
  for (const Kind kind : {Kind::admit, Kind::publish, Kind::abandon, Kind::new_slab, Kind::get_slab}) {
    RawClient client(holder);
    REQUIRE(client.hello());
    CHECK(client.received().size() == 1);
    client.tell(RawClient::request_of(kind, 0));
    CHECK(all_gone(holder));
  }
}

TEST_CASE("slabs leave descriptors free: past a share of them a client is told that there is no room, and stays") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  ServerHolder holder(minio(all_bytes), system_timing());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::uint32_t i = 1; i < 18; ++i) {
    clients.push_back(std::make_unique<RawClient>(holder));
    CHECK(clients.back()->slab(sample_bytes) == (i < 16 ? i : server_protocol::no_slab));
  }
  CHECK(clients.back()->hello());
}

/// Answers before it is asked: what a holder's end of the socket would have sent.
void answer(const FileDescriptor& socket, const Reply& reply, const std::vector<int>& descriptors) {
  REQUIRE(send_message(socket.get(), std::as_bytes(std::span(&reply, 1)), descriptors, soon()).ok());
}

MemorySegment directory_of(std::uint64_t said, std::uint64_t there) {
  MemorySegment segment = MemorySegment::create("directory", CacheDirectory::bytes_for(there));
  auto* const header = new (segment.data()) CacheDirectory::Header;
  header->capacity = header->payload_bytes = all_bytes;
  header->samples = said;
  header->free_bytes.store(header->capacity);
  return segment;
}

TEST_CASE("an answer that comes too late is never taken for another question's") {
  auto [mine, theirs] = socket_pair();
  const MemorySegment devices = MemorySegment::create("devices", sizeof(ServerDevices));
  const MemorySegment directory = directory_of(server_samples, server_samples);
  answer(mine, {Kind::hello, 0, {}}, {devices.descriptor(), directory.descriptor()});
  MovedClock clock;
  clock.move(-10);  // every deadline has passed: what is not there at once is too late
  const auto server = attach_server(std::move(theirs), clock.timing());
  CHECK(look_up(server->cache(), 1).decision == CacheDecision::bypass);
  Reply late{Kind::admit, 0, {}};
  late.decisions.fill(static_cast<std::uint8_t>(CacheDecision::admit));
  static_cast<void>(send_message(mine.get(), std::as_bytes(std::span(&late, 1)), {}, soon()).ok());
  CHECK(look_up(server->cache(), 2).decision == CacheDecision::bypass);
}

TEST_CASE("a directory with fewer entries than it says is refused at attaching") {
  auto [mine, theirs] = socket_pair();
  const MemorySegment devices = MemorySegment::create("devices", sizeof(ServerDevices));
  const MemorySegment directory = directory_of(server_samples, server_samples - 1);
  answer(mine, {Kind::hello, 0, {}}, {devices.descriptor(), directory.descriptor()});
  CHECK_THROWS_WITH_AS(attach_server(std::move(theirs), system_timing()), doctest::Contains("cut short"), Error);
}

TEST_CASE("an answer to something else ends the line") {
  auto [mine, theirs] = socket_pair();
  answer(mine, {Kind::admit, 0, {}}, {});
  CHECK_THROWS_AS(attach_server(std::move(theirs), system_timing()), Error);
}

}  // namespace
}  // namespace dsanalyze
