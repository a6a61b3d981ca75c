#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <new>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "core/depths.hpp"
#include "held_minio_cache.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/cache/replacing_cache.hpp"
#include "loaders/cache/slab.hpp"
#include "protocol.hpp"
#include "server_scope.hpp"

namespace dsanalyze {
namespace {

using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

/// Each slab takes a descriptor here; most are left to sockets and files.
std::size_t slab_bound() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 2, SlabTable::most_slabs);
}

}  // namespace

struct ServerHolder::State {
  State(const CacheOptions& options, Timing given_timing)
      : timing(given_timing), device_segment(MemorySegment::create("emulated devices", sizeof(ServerDevices), HugePages::never)) {
    devices = new (device_segment.data()) ServerDevices;
    if (options.kind == CacheKind::minio && options.capacity > 0) {
      ledger = std::make_unique<MinioLedger>(options);
      whole_slab_bytes = ledger->directory().slab_bytes(Slab::alignment);
      slabs.keep(0, std::make_unique<Slab>(make_slab_segment(whole_slab_bytes)));
      cache = std::make_unique<HeldMinioCache>(*ledger, slabs);
    } else if (replaces(options.kind) && options.capacity > 0) {
      cache = std::make_unique<ReplacingCache>(options);
    } else {
      cache = std::make_unique<NoCache>();
    }
    held = std::make_unique<MinioHeldSamples>(ledger.get(), slabs);
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
      const auto& [key, bytes, job, priority] = request.accesses[i];
      if (key >= ledger->directory().header().samples || bytes > server_protocol::most_item_bytes) return false;
      accesses[i] = {key, bytes, job, priority};
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
    } catch (const std::exception& error) {
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
  std::unique_ptr<MinioHeldSamples> held;
  std::atomic<bool> stopping{false};
  std::atomic<int> client_count{0};
  std::list<Thread> threads;
};

ServerHolder::ServerHolder(const CacheOptions& options, Timing timing) : m_state(std::make_unique<State>(options, timing)) {}
ServerHolder::~ServerHolder() = default;
ServerDevices& ServerHolder::devices() { return *m_state->devices; }
RawCache& ServerHolder::cache() { return *m_state->cache; }
const HeldSamples& ServerHolder::held() const { return *m_state->held; }
int ServerHolder::clients() const { return m_state->client_count.load(); }
void ServerHolder::serve(FileDescriptor client) { m_state->start(std::move(client)); }

}  // namespace dsanalyze
