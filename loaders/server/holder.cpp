#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "../cache/directory.hpp"
#include "../cache/lru_cache.hpp"
#include "../cache/no_cache.hpp"
#include "../cache/slab.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/loaders/server_scope.hpp"
#include "protocol.hpp"

namespace dsanalyze {
namespace {

using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

constexpr double look_up_seconds = 0.25;
constexpr std::size_t most_slabs = 4096;

/// The decisions and the directory of a MinIO cache. Threads: any.
class MinioLedger {
 public:
  explicit MinioLedger(const CacheOptions& options)
      : m_directory(MemorySegment::create("cache directory", CacheDirectory::bytes_for(options.samples))),
        m_policy_state(cache_policy_state_bytes(CacheKind::minio, options.samples) + 64) {
    void* state = m_policy_state.data();
    std::size_t room = m_policy_state.size();
    std::align(64, room - 64, state, room);
    m_policy = make_cache_policy(CacheKind::minio, options.capacity, options.samples, {static_cast<std::byte*>(state), room});
    auto& header = m_directory.header();
    header.capacity = options.capacity;
    header.samples = options.samples;
    const Bytes payload = std::min(options.capacity, options.dataset_bytes);
    header.slab_bytes = std::max<Bytes>(payload + Bytes{options.samples} * Slab::alignment, Slab::alignment);
    header.free_bytes.store(options.capacity);
  }

  /// Decides accesses in order; an item that is admitted but not published yet is a bypass.
  void decide(std::span<const CacheAccess> accesses, std::span<CacheDecision> decisions) {
    const std::scoped_lock lock(m_mutex);
    m_policy->access(accesses, decisions, m_evicted);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      if (decisions[i] == CacheDecision::hit && !m_directory.find(accesses[i].key)) decisions[i] = CacheDecision::bypass;
    }
    m_directory.header().free_bytes.store(m_policy->capacity() - m_policy->bytes_held(), std::memory_order_relaxed);
  }
  void forget(std::uint64_t key) {
    const std::scoped_lock lock(m_mutex);
    m_policy->forget(key);
    m_directory.header().free_bytes.store(m_policy->capacity() - m_policy->bytes_held(), std::memory_order_relaxed);
  }
  void publish(std::uint64_t key, const CacheDirectory::Place& place) {
    const std::scoped_lock lock(m_mutex);
    m_directory.publish(key, place);
  }
  [[nodiscard]] const CacheDirectory& directory() const { return m_directory; }

 private:
  std::mutex m_mutex;
  CacheDirectory m_directory;
  std::vector<std::byte> m_policy_state;
  std::unique_ptr<CachePolicy> m_policy;
  std::vector<std::uint64_t> m_evicted;
};

/// The holder's own view of its MinIO cache: it fills slab 0.
class HeldMinioCache final : public RawCache {
 public:
  HeldMinioCache(MinioLedger& ledger, Slab& own, const std::deque<Slab>& slabs, std::mutex& slabs_mutex)
      : m_ledger(ledger), m_own(own), m_slabs(slabs), m_slabs_mutex(slabs_mutex) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    m_decisions.resize(accesses.size());
    m_ledger.decide(accesses, m_decisions);
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      lookups[i] = {m_decisions[i], accesses[i].key, nullptr, 0, 0};
      if (m_decisions[i] != CacheDecision::hit) continue;
      const auto place = m_ledger.directory().find(accesses[i].key);
      lookups[i].contiguous = address(*place);
      lookups[i].length = place->length;
    }
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> /*scratch*/) const override { return {hit.contiguous, hit.length}; }
  Status store(std::uint64_t key, std::span<const std::byte> bytes) override {
    const auto offset = m_own.append(bytes);
    if (!offset) {
      m_ledger.forget(key);
      return {StatusCode::busy, 0};
    }
    m_ledger.publish(key, {0, *offset, static_cast<std::uint32_t>(bytes.size())});
    return {};
  }
  void abandon(std::uint64_t key) override { m_ledger.forget(key); }
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override {
    const auto& header = m_ledger.directory().header();
    return {header.items.load(), header.bytes.load(), header.capacity};
  }

 private:
  [[nodiscard]] const std::byte* address(const CacheDirectory::Place& place) const {
    if (place.slab == 0) return m_own.segment().data() + place.offset;
    const std::scoped_lock lock(m_slabs_mutex);
    return m_slabs[place.slab].segment().data() + place.offset;
  }

  MinioLedger& m_ledger;
  Slab& m_own;
  const std::deque<Slab>& m_slabs;
  std::mutex& m_slabs_mutex;
  std::vector<CacheDecision> m_decisions;
};

}  // namespace

struct ServerHolder::State {
  State(const CacheOptions& options, Timing given_timing)
      : timing(given_timing), kind(options.kind), device_segment(MemorySegment::create("emulated devices", sizeof(ServerDevices))) {
    devices = new (device_segment.data()) ServerDevices;
    if (kind == CacheKind::minio && options.capacity > 0) {
      ledger = std::make_unique<MinioLedger>(options);
      slabs.emplace_back(MemorySegment::create("cache slab", ledger->directory().header().slab_bytes));
      cache = std::make_unique<HeldMinioCache>(*ledger, slabs.front(), slabs, slabs_mutex);
    } else if (kind == CacheKind::lru && options.capacity > 0) {
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

  /// One client: what it was promised and has not stored yet goes back to the policy when it is gone.
  struct Client {
    std::set<std::uint64_t> promised;
    std::set<std::uint32_t> own_slabs;
  };

  void serve(const FileDescriptor& socket) {
    Client client;
    const auto request = std::make_unique<Request>();
    std::vector<FileDescriptor> descriptors;
    while (!stopping.load()) {
      std::size_t size = 0;
      const Status status =
          receive_message(socket.get(), std::as_writable_bytes(std::span(request.get(), 1)), size, descriptors, timing.clock->after(look_up_seconds));
      if (status.code == StatusCode::timeout) continue;
      if (!status.ok() || size != sizeof(Request) || !answer(socket, client, *request, descriptors)) break;
      descriptors.clear();
    }
    for (const std::uint64_t key : client.promised) ledger->forget(key);
    client_count.fetch_sub(1);
  }

  bool answer(const FileDescriptor& socket, Client& client, const Request& request, std::vector<FileDescriptor>& descriptors) {
    Reply reply{request.kind, 0, {}};
    std::vector<int> send;
    switch (request.kind) {
      case Kind::hello:
        if (request.count != server_protocol::version || ledger == nullptr) return false;
        reply.value = static_cast<std::uint32_t>(kind);
        send = {device_segment.descriptor(), ledger->directory().segment().descriptor()};
        break;
      case Kind::admit:
        if (!admit(client, request, reply)) return false;
        break;
      case Kind::publish:
        return publish(client, request);
      case Kind::abandon:
        if (client.promised.erase(request.key) == 0) return false;
        ledger->forget(request.key);
        return true;
      case Kind::new_slab:
        if (!take_slab(client, descriptors, reply)) return false;
        break;
      case Kind::get_slab: {
        const std::scoped_lock lock(slabs_mutex);
        if (request.count >= slabs.size()) return false;
        send = {slabs[request.count].segment().descriptor()};
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
      if (request.accesses[i].key >= ledger->directory().header().samples) return false;
      accesses[i] = {request.accesses[i].key, request.accesses[i].bytes, 0, 0};
    }
    ledger->decide(std::span(accesses).first(request.count), std::span(decisions).first(request.count));
    for (std::uint32_t i = 0; i < request.count; ++i) {
      reply.decisions[i] = static_cast<std::uint8_t>(decisions[i]);
      if (decisions[i] == CacheDecision::admit) client.promised.insert(accesses[i].key);
    }
    return true;
  }

  bool publish(Client& client, const Request& request) {
    if (client.promised.count(request.key) == 0 || client.own_slabs.count(request.slab) == 0) return false;
    const std::uint64_t slab_bytes = ledger->directory().header().slab_bytes;
    if (request.offset > slab_bytes || request.length > slab_bytes - request.offset) return false;
    client.promised.erase(request.key);
    ledger->publish(request.key, {static_cast<std::uint16_t>(request.slab), request.offset, request.length});
    return true;
  }

  bool take_slab(Client& client, std::vector<FileDescriptor>& descriptors, Reply& reply) {
    if (descriptors.size() != 1) return false;
    const std::scoped_lock lock(slabs_mutex);
    if (slabs.size() >= most_slabs) return false;
    try {
      slabs.emplace_back(MemorySegment::attach(std::move(descriptors.front()), Access::read_only, ledger->directory().header().slab_bytes));
    } catch (const std::exception&) {
      return false;  // not a slab: the client goes, the server stays
    }
    reply.value = static_cast<std::uint32_t>(slabs.size() - 1);
    client.own_slabs.insert(reply.value);
    return true;
  }

  Timing timing;
  CacheKind kind;
  MemorySegment device_segment;
  ServerDevices* devices = nullptr;
  std::unique_ptr<MinioLedger> ledger;
  std::mutex slabs_mutex;
  std::deque<Slab> slabs;
  std::unique_ptr<RawCache> cache;
  std::atomic<bool> stopping{false};
  std::atomic<int> client_count{0};
  std::vector<std::jthread> threads;
};

ServerHolder::ServerHolder(const CacheOptions& options, Timing timing) : m_state(std::make_unique<State>(options, timing)) {}
ServerHolder::~ServerHolder() = default;
ServerDevices& ServerHolder::devices() { return *m_state->devices; }
RawCache& ServerHolder::cache() { return *m_state->cache; }
int ServerHolder::clients() const { return m_state->client_count.load(); }

void ServerHolder::serve(FileDescriptor client) {
  m_state->client_count.fetch_add(1);
  m_state->threads.emplace_back([state = m_state.get(), socket = std::move(client)] { state->serve(socket); });
}

}  // namespace dsanalyze
