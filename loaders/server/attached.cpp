#include <array>
#include <cerrno>
#include <map>
#include <mutex>

#include "../cache/directory.hpp"
#include "../cache/slab.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/loaders/server_scope.hpp"
#include "protocol.hpp"

namespace dsanalyze {
namespace {

using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

constexpr double answer_seconds = 5;

/// The socket to the holder: one question at a time.
class HolderLine {
 public:
  HolderLine(FileDescriptor socket, Timing timing) : m_socket(std::move(socket)), m_timing(timing), m_request(std::make_unique<Request>()) {}

  /// Sends `fill`ed request and, unless it has none, waits for the answer.
  template <typename Fill>
  Status ask(Fill fill, int attached, Reply* reply, std::vector<FileDescriptor>* received) {
    const std::scoped_lock lock(m_mutex);
    fill(*m_request);
    const Deadline deadline = m_timing.clock->after(answer_seconds);
    const Status sent = send_message(m_socket.get(), std::as_bytes(std::span(m_request.get(), 1)),
                                     attached >= 0 ? std::span<const int>(&attached, 1) : std::span<const int>(), deadline);
    if (!sent.ok() || reply == nullptr) return sent;
    std::size_t size = 0;
    std::vector<FileDescriptor> descriptors;
    const Status status = receive_message(m_socket.get(), std::as_writable_bytes(std::span(reply, 1)), size, descriptors, deadline);
    if (!status.ok()) return status.code == StatusCode::end ? Status{StatusCode::io, EPIPE} : status;
    if (size != sizeof(Reply) || reply->kind != m_request->kind) return {StatusCode::corrupt, 0};
    if (received != nullptr) *received = std::move(descriptors);
    return {};
  }

 private:
  std::mutex m_mutex;
  FileDescriptor m_socket;
  Timing m_timing;
  std::unique_ptr<Request> m_request;
};

class AttachedCache final : public RawCache {
 public:
  AttachedCache(HolderLine& line, MemorySegment directory) : m_line(line), m_directory(std::move(directory)) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<std::size_t, server_protocol::group> asked{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      lookups[i] = {CacheDecision::bypass, accesses[i].key, nullptr, 0, 0};
      if (const auto place = m_directory.find(accesses[i].key)) {
        lookups[i].contiguous = address(*place);
        lookups[i].length = place->length;
        if (lookups[i].contiguous != nullptr) lookups[i].decision = CacheDecision::hit;
      } else if (accesses[i].bytes <= m_directory.header().free_bytes.load(std::memory_order_relaxed)) {
        asked[count++] = i;
        if (count == asked.size()) decide(accesses, lookups, asked, count);
      }
    }
    decide(accesses, lookups, asked, count);
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> /*scratch*/) const override { return {hit.contiguous, hit.length}; }

  Status store(std::uint64_t key, std::span<const std::byte> bytes) override {
    const Status there = make_slab();
    if (!there.ok()) return there;
    const auto offset = m_own->append(bytes);
    if (!offset) {
      abandon(key);
      return {StatusCode::busy, 0};
    }
    return m_line.ask(
        [&](Request& request) {
          request.kind = Kind::publish;
          request.key = key;
          request.slab = m_own_number;
          request.offset = *offset;
          request.length = static_cast<std::uint32_t>(bytes.size());
        },
        -1, nullptr, nullptr);
  }
  void abandon(std::uint64_t key) override {
    static_cast<void>(m_line
                          .ask(
                              [&](Request& request) {
                                request.kind = Kind::abandon;
                                request.key = key;
                              },
                              -1, nullptr, nullptr)
                          .ok());
  }
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override {
    const auto& header = m_directory.header();
    return {header.items.load(), header.bytes.load(), header.capacity};
  }

 private:
  void decide(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups, std::span<const std::size_t> asked, std::size_t& count) {
    if (count == 0) return;
    Reply reply;
    const Status status = m_line.ask(
        [&](Request& request) {
          request.kind = Kind::admit;
          request.count = static_cast<std::uint32_t>(count);
          for (std::size_t i = 0; i < count; ++i) request.accesses[i] = {accesses[asked[i]].key, accesses[asked[i]].bytes};
        },
        -1, &reply, nullptr);
    for (std::size_t i = 0; status.ok() && i < count; ++i) {
      if (reply.decisions[i] == static_cast<std::uint8_t>(CacheDecision::admit)) lookups[asked[i]].decision = CacheDecision::admit;
    }
    count = 0;
  }

  Status make_slab() {
    const std::scoped_lock lock(m_slabs_mutex);
    if (m_own) return {};
    auto own = std::make_unique<Slab>(MemorySegment::create("cache slab", m_directory.header().slab_bytes));
    Reply reply;
    const Status status = m_line.ask([](Request& request) { request.kind = Kind::new_slab; }, own->segment().descriptor(), &reply, nullptr);
    if (!status.ok()) return status;
    m_own = std::move(own);
    m_own_number = reply.value;
    return {};
  }

  /// Where a place is mapped here; the slab is fetched from the holder when it is seen first. nullptr when the holder is gone.
  const std::byte* address(const CacheDirectory::Place& place) {
    const std::scoped_lock lock(m_slabs_mutex);
    if (m_own && place.slab == m_own_number) return m_own->segment().data() + place.offset;
    auto slab = m_slabs.find(place.slab);
    if (slab == m_slabs.end()) {
      Reply reply;
      std::vector<FileDescriptor> descriptors;
      const Status status = m_line.ask(
          [&](Request& request) {
            request.kind = Kind::get_slab;
            request.count = place.slab;
          },
          -1, &reply, &descriptors);
      if (!status.ok() || descriptors.size() != 1) return nullptr;
      slab = m_slabs.emplace(place.slab, MemorySegment::attach(std::move(descriptors.front()), Access::read_only, m_directory.header().slab_bytes))
                 .first;
    }
    return slab->second.data() + place.offset;
  }

  HolderLine& m_line;
  CacheDirectory m_directory;
  std::mutex m_slabs_mutex;
  std::unique_ptr<Slab> m_own;
  std::uint32_t m_own_number = 0;
  std::map<std::uint16_t, MemorySegment> m_slabs;
};

class AttachedServer final : public ServerScope {
 public:
  AttachedServer(FileDescriptor holder, Timing timing) : m_line(std::move(holder), timing) {
    Reply reply;
    std::vector<FileDescriptor> descriptors;
    const Status status = m_line.ask(
        [](Request& request) {
          request.kind = Kind::hello;
          request.count = server_protocol::version;
        },
        -1, &reply, &descriptors);
    if (!status.ok() || descriptors.size() != 2) {
      throw Error("cannot attach to the server's holder: it is gone, holds no MinIO cache, or speaks another protocol version; start the run again");
    }
    m_devices = MemorySegment::attach(std::move(descriptors[0]), Access::read_write, sizeof(ServerDevices));
    m_cache =
        std::make_unique<AttachedCache>(m_line, MemorySegment::attach(std::move(descriptors[1]), Access::read_only, CacheDirectory::bytes_for(0)));
  }
  ServerDevices& devices() override { return *reinterpret_cast<ServerDevices*>(m_devices.data()); }
  RawCache& cache() override { return *m_cache; }

 private:
  HolderLine m_line;
  MemorySegment m_devices;
  std::unique_ptr<AttachedCache> m_cache;
};

}  // namespace

std::unique_ptr<ServerScope> attach_server(FileDescriptor holder, Timing timing) {
  return std::make_unique<AttachedServer>(std::move(holder), timing);
}

}  // namespace dsanalyze
