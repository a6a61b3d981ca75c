#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "../cache/lru_cache.hpp"
#include "../cache/no_cache.hpp"
#include "../cache/slab.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/loaders/server_scope.hpp"
#include "minio_ledger.hpp"
#include "protocol.hpp"

namespace dsanalyze {
namespace {

using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

constexpr double look_up_seconds = 0.25;

/// Each slab takes a descriptor here; most are left to sockets and files.
std::size_t slab_bound() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 2, SlabTable::most_slabs);
}

/// The holder's own view of its MinIO cache: it fills slab 0.
class HeldMinioCache final : public RawCache {
 public:
  HeldMinioCache(MinioLedger& ledger, const SlabTable& slabs) : m_ledger(ledger), m_slabs(slabs), m_own(*slabs.find(0)) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<CacheDecision, server_protocol::group> decisions{};
    while (!accesses.empty()) {
      const std::size_t count = std::min(accesses.size(), decisions.size());
      m_ledger.decide(accesses.first(count), std::span(decisions).first(count));
      for (std::size_t i = 0; i < count; ++i) lookups[i] = found(accesses[i].key, decisions[i]);
      accesses = accesses.subspan(count);
      lookups = lookups.subspan(count);
    }
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> /*scratch*/) const override { return {hit.contiguous, hit.length}; }
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override {
    const Status status = place(key, bytes);
    if (!status.ok()) abandon(key);
    return status;
  }
  void abandon(std::uint64_t key) override { m_ledger.forget(key); }
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override {
    const auto& header = m_ledger.directory().header();
    return {header.items.load(), header.bytes.load(), header.capacity};
  }

 private:
  [[nodiscard]] CacheLookup found(std::uint64_t key, CacheDecision decision) const {
    if (decision != CacheDecision::hit) return {decision, key, nullptr, 0, 0};
    const auto there = m_ledger.directory().find(key);
    return {decision, key, m_slabs.address(there->slab, there->offset, there->length), 0, there->length};
  }
  Status place(std::uint64_t key, std::span<const std::byte> bytes) {
    const CacheDirectory& directory = m_ledger.directory();
    if (key >= directory.header().samples || bytes.size() > directory.promised(key)) return {StatusCode::corrupt, 0};
    const auto offset = m_own.append(bytes);
    if (!offset) return {StatusCode::busy, 0};
    if (!m_ledger.publish(key, {0, *offset, static_cast<std::uint32_t>(bytes.size())})) return {StatusCode::corrupt, 0};
    return {};
  }

  MinioLedger& m_ledger;
  const SlabTable& m_slabs;
  Slab& m_own;
};

}  // namespace

struct ServerHolder::State {
  State(const CacheOptions& options, Timing given_timing)
      : timing(given_timing), device_segment(MemorySegment::create("emulated devices", sizeof(ServerDevices))) {
    devices = new (device_segment.data()) ServerDevices;
    if (options.kind == CacheKind::minio && options.capacity > 0) {
      ledger = std::make_unique<MinioLedger>(options);
      whole_slab_bytes = ledger->directory().slab_bytes(Slab::alignment);
      auto segment = MemorySegment::create("cache slab", whole_slab_bytes);
      segment.forbid_future_writers();
      slabs.keep(0, std::make_unique<Slab>(std::move(segment)));
      cache = std::make_unique<HeldMinioCache>(*ledger, slabs);
    } else if (options.kind == CacheKind::lru && options.capacity > 0) {
      cache = std::make_unique<LruCache>(options);
    } else {
      cache = std::make_unique<NoCache>();
    }
  }

  ~State() {
    stopping.store(true);
    threads.clear();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// One client: what it was promised and has not stored yet goes back to the policy when it is gone. In the order of promising, which is about that
  /// of storing: what is stored is found near the front. At most one entry a sample.
  struct Client {
    std::vector<std::uint64_t> promised;
    std::uint32_t slab = server_protocol::no_slab;

    /// Takes a key out; false when it was not promised.
    bool settle(std::uint64_t key) {
      const auto there = std::ranges::find(promised, key);
      if (there == promised.end()) return false;
      promised.erase(there);
      return true;
    }
  };

  void serve(FileDescriptor socket) {
    Client client;
    try {
      converse(socket, client);
    } catch (const std::exception&) {
      client.slab = server_protocol::no_slab;  // out of memory or descriptors: the client goes, the server stays
    }
    ::shutdown(socket.get(), SHUT_RDWR);  // the client learns of it even if a forked process has a copy of this descriptor
    socket.reset();
    for (const std::uint64_t key : client.promised) ledger->forget(key);
    client_count.fetch_sub(1);
  }

  void converse(const FileDescriptor& socket, Client& client) {
    const auto request = std::make_unique<Request>();
    std::vector<FileDescriptor> descriptors;
    while (!stopping.load()) {
      std::size_t size = 0;
      const Status status =
          receive_message(socket.get(), std::as_writable_bytes(std::span(request.get(), 1)), size, descriptors, timing.clock->after(look_up_seconds));
      if (status.code == StatusCode::timeout) continue;
      if (!status.ok() || size != sizeof(Request) || !answer(socket, client, *request, descriptors)) return;
      descriptors.clear();
    }
  }

  /// False ends the connection.
  bool answer(const FileDescriptor& socket, Client& client, const Request& request, std::vector<FileDescriptor>& descriptors) {
    Reply reply{request.kind, 0, {}};
    std::vector<int> send;
    if (request.kind != Kind::hello && ledger == nullptr) return false;
    switch (request.kind) {
      case Kind::hello:
        if (request.count != server_protocol::version) return false;
        send.push_back(device_segment.descriptor());
        if (ledger != nullptr) send.push_back(ledger->directory().segment().descriptor());
        break;
      case Kind::admit:
        if (!admit(client, request, reply)) return false;
        break;
      case Kind::publish:
        return publish(client, request);
      case Kind::abandon:
        if (!client.settle(request.key)) return false;
        ledger->forget(request.key);
        return true;
      case Kind::new_slab:
        if (!take_slab(client, descriptors, reply)) return false;
        break;
      case Kind::get_slab: {
        const Slab* const slab = slabs.find(request.count);
        if (slab == nullptr) return false;
        send.push_back(slab->segment().descriptor());
        break;
      }
      default:
        return false;
    }
    return send_message(socket.get(), std::as_bytes(std::span(&reply, 1)), send, timing.clock->after(1)).ok();
  }

  bool admit(Client& client, const Request& request, Reply& reply) {
    if (request.count > server_protocol::group) return false;
    std::array<CacheAccess, server_protocol::group> accesses{};
    std::array<CacheDecision, server_protocol::group> decisions{};
    for (std::uint32_t i = 0; i < request.count; ++i) {
      const auto& [key, bytes] = request.accesses[i];
      if (key >= ledger->directory().header().samples || bytes > server_protocol::most_item_bytes) return false;
      accesses[i] = {key, bytes, 0, 0};
    }
    // Room first: a promise that is made must be noted, whatever memory there is. Doubled, so that it is not taken anew with every group.
    const std::size_t needed = client.promised.size() + request.count;
    if (needed > client.promised.capacity()) client.promised.reserve(2 * needed);
    ledger->decide(std::span(accesses).first(request.count), std::span(decisions).first(request.count));
    for (std::uint32_t i = 0; i < request.count; ++i) {
      reply.decisions[i] = static_cast<std::uint8_t>(decisions[i]);
      if (decisions[i] == CacheDecision::admit) client.promised.push_back(accesses[i].key);
    }
    return true;
  }

  bool publish(Client& client, const Request& request) {
    if (client.slab == server_protocol::no_slab || request.slab != client.slab) return false;
    if (slabs.address(request.slab, request.offset, request.length) == nullptr) return false;
    // Last: a key that was promised and is not published is forgotten with the client.
    if (std::ranges::find(client.promised, request.key) == client.promised.end()) return false;
    if (!ledger->publish(request.key, {static_cast<std::uint16_t>(request.slab), request.offset, request.length})) return false;
    return client.settle(request.key);
  }

  bool take_slab(Client& client, std::vector<FileDescriptor>& descriptors, Reply& reply) {
    if (descriptors.size() != 1 || client.slab != server_protocol::no_slab) return false;
    MemorySegment segment = MemorySegment::attach(std::move(descriptors.front()), Access::read_only, 1);
    if (!segment.future_writers_forbidden() || segment.size() > whole_slab_bytes) return false;
    client.slab = slabs.add(std::make_unique<Slab>(std::move(segment)), most_slabs).value_or(server_protocol::no_slab);
    reply.value = client.slab;
    return true;
  }

  void start(FileDescriptor client) {
    std::erase_if(threads, [](const Thread& thread) { return thread.ended.load(); });
    Thread& mine = threads.emplace_back();
    client_count.fetch_add(1);
    try {
      mine.thread = std::jthread([this, &mine, socket = std::move(client)]() mutable {
        serve(std::move(socket));
        mine.ended.store(true);
      });
    } catch (const std::system_error& error) {
      threads.pop_back();
      client_count.fetch_sub(1);
      throw Error(std::string("cannot start a thread to serve a process: ") + error.what() + "; raise the limit of threads, or run fewer jobs");
    }
  }

  struct Thread {
    std::atomic<bool> ended{false};
    std::jthread thread;
  };

  Timing timing;
  MemorySegment device_segment;
  ServerDevices* devices = nullptr;
  std::unique_ptr<MinioLedger> ledger;
  std::size_t whole_slab_bytes = 0;
  std::size_t most_slabs = slab_bound();
  SlabTable slabs;
  std::unique_ptr<RawCache> cache;
  std::atomic<bool> stopping{false};
  std::atomic<int> client_count{0};
  std::list<Thread> threads;
};

ServerHolder::ServerHolder(const CacheOptions& options, Timing timing) : m_state(std::make_unique<State>(options, timing)) {}
ServerHolder::~ServerHolder() = default;
ServerDevices& ServerHolder::devices() { return *m_state->devices; }
RawCache& ServerHolder::cache() { return *m_state->cache; }
int ServerHolder::clients() const { return m_state->client_count.load(); }
void ServerHolder::serve(FileDescriptor client) { m_state->start(std::move(client)); }

}  // namespace dsanalyze
