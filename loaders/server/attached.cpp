#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/cache/directory.hpp"
#include "loaders/cache/slab.hpp"
#include "protocol.hpp"
#include "server_scope.hpp"

namespace dsanalyze {
namespace {

using server_protocol::Kind;
using server_protocol::Reply;
using server_protocol::Request;

constexpr double answer_seconds = 5;
constexpr double no_room_seconds = 1;  // how long this process admits nothing after it could not make its slab

enum class Answer { wanted, none };

/// What comes back for a question.
struct Answered {
  Status status;
  Reply reply;
  std::vector<FileDescriptor> descriptors;
};

/// The socket to the holder: one question at a time. After any failure it is closed, so that a late answer is never taken for another question's, and
/// every later question fails at once. Threads: any. Never throws.
class HolderLine {
 public:
  HolderLine(FileDescriptor socket, Timing timing) : m_socket(std::move(socket)), m_timing(timing) {}

  /// Sends the request that `fill` makes, with a descriptor when `attached` is one.
  template <typename Fill>
  Answered ask(Answer answer, const Fill& fill, int attached = -1) {
    const std::scoped_lock lock(m_mutex);
    Answered answered;
    if (!m_socket.valid()) {
      answered.status = {StatusCode::io, EPIPE};
      return answered;
    }
    fill(m_request);
    answered.status = exchange(answer, attached, answered);
    if (!answered.status.ok()) {
      ::shutdown(m_socket.get(), SHUT_RDWR);  // the holder learns of it even if a forked process has a copy of this descriptor
      m_socket.reset();
    }
    return answered;
  }

 private:
  Status exchange(Answer answer, int attached, Answered& answered) {
    const Deadline deadline = m_timing.clock->after(answer_seconds);
    const auto descriptors = attached >= 0 ? std::span<const int>(&attached, 1) : std::span<const int>();
    const Status sent = send_message(m_socket.get(), std::as_bytes(std::span(&m_request, 1)), descriptors, deadline);
    if (!sent.ok() || answer == Answer::none) return sent;
    try {
      std::size_t size = 0;
      const Status status =
          receive_message(m_socket.get(), std::as_writable_bytes(std::span(&answered.reply, 1)), size, answered.descriptors, deadline);
      if (!status.ok()) return status.code == StatusCode::end ? Status{StatusCode::io, EPIPE} : status;
      if (size != sizeof(Reply) || answered.reply.kind != m_request.kind) return {StatusCode::corrupt, 0};
      return {};
    } catch (const std::bad_alloc&) {
      return {StatusCode::io, ENOMEM};
    }
  }

  std::mutex m_mutex;
  FileDescriptor m_socket;
  Timing m_timing;
  Request m_request;
};

class AttachedCache final : public RawCache {
 public:
  AttachedCache(HolderLine& line, CacheDirectory directory, Timing timing)
      : m_line(line), m_directory(std::move(directory)), m_samples(m_directory.header().samples), m_timing(timing) {}

  void lookup(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups) override {
    std::array<std::size_t, server_protocol::group> asked{};
    std::size_t count = 0;
    const bool fills = may_fill();
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const std::uint64_t key = accesses[i].key;
      lookups[i] = {CacheDecision::bypass, key, nullptr, 0, 0};
      if (key >= m_samples) continue;
      if (find(key, lookups[i]) || accesses[i].bytes > server_protocol::most_item_bytes) continue;
      const bool may_be_admitted = fills && m_directory.may_admit(accesses[i]);
      if (!may_be_admitted && !m_unsettled.load(std::memory_order_acquire)) continue;
      asked[count++] = i;
      if (count == asked.size()) decide(accesses, lookups, asked, count);
    }
    decide(accesses, lookups, asked, count);
  }
  std::span<const std::byte> read(const CacheLookup& hit, std::span<std::byte> /*scratch*/) const override { return {hit.contiguous, hit.length}; }

  Status store(std::uint64_t key, std::span<const std::byte> bytes) override {
    const Status status = place(key, bytes);
    if (!status.ok()) abandon(key);
    return status;
  }
  void abandon(std::uint64_t key) override {
    static_cast<void>(m_line.ask(Answer::none, [&](Request& request) {
      request.kind = Kind::abandon;
      request.key = key;
    }));
  }
  void release(std::span<const CacheLookup> /*hits*/) override {}
  [[nodiscard]] CacheTotals totals() const override {
    const auto& header = m_directory.header();
    return {header.items.load(), header.bytes.load(), header.capacity};
  }

 private:
  [[nodiscard]] bool may_fill() const {
    const Nanoseconds until = m_no_room_until.load(std::memory_order_relaxed);
    return until == 0 || m_timing.clock->now() >= until;
  }

  /// A hit, when the directory has the key and its bytes can be read here. False when the directory does not have it.
  bool find(std::uint64_t key, CacheLookup& lookup) {
    const auto place = m_directory.find(key);
    if (!place) return false;
    const std::byte* const there = address(*place);
    if (there != nullptr) lookup = {CacheDecision::hit, key, there, 0, place->length};
    return true;
  }

  void decide(std::span<const CacheAccess> accesses, std::span<CacheLookup> lookups, std::span<const std::size_t> asked, std::size_t& count) {
    if (count == 0) return;
    m_unsettled.store(false, std::memory_order_release);  // messages keep their order: with the answer, what was published before is in the directory
    const Answered answered = m_line.ask(Answer::wanted, [&](Request& request) {
      request.kind = Kind::admit;
      request.count = static_cast<std::uint32_t>(count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto& [key, bytes, job, priority] = accesses[asked[i]];
        request.accesses[i] = {key, bytes, job, priority};
      }
    });
    for (std::size_t i = 0; answered.status.ok() && i < count; ++i) {
      const auto decision = static_cast<CacheDecision>(answered.reply.decisions[i]);
      if (decision == CacheDecision::admit) lookups[asked[i]].decision = decision;
      if (decision == CacheDecision::hit) find(accesses[asked[i]].key, lookups[asked[i]]);
    }
    count = 0;
  }

  Status place(std::uint64_t key, std::span<const std::byte> bytes) {
    if (key >= m_samples || bytes.size() > m_directory.promised(key)) return {StatusCode::corrupt, 0};
    if (const Status ready = make_slab(); !ready.ok()) return ready;
    const auto offset = m_own.load(std::memory_order_acquire)->append(bytes);
    if (!offset) return {StatusCode::busy, 0};
    const Answered answered = m_line.ask(Answer::none, [&](Request& request) {
      request.kind = Kind::publish;
      request.key = key;
      request.slab = m_own_number;
      request.offset = *offset;
      request.length = static_cast<std::uint32_t>(bytes.size());
    });
    m_unsettled.store(true, std::memory_order_release);
    return answered.status;
  }

  /// This process's slab, at its first need: it takes what can still be published then, so it never needs a second one. Hits do not wait for this
  /// mutex.
  Status make_slab() {
    if (m_own.load(std::memory_order_acquire) != nullptr) return {};
    const std::scoped_lock lock(m_own_mutex);
    if (m_own.load(std::memory_order_relaxed) != nullptr) return {};
    if (!may_fill()) return {StatusCode::busy, 0};
    Status status;
    try {
      status = hand_over(std::make_unique<Slab>(make_slab_segment(m_directory.slab_bytes(Slab::alignment))));
    } catch (const std::exception&) {
      status = {StatusCode::io, ENOMEM};
    }
    if (!status.ok()) m_no_room_until.store(m_timing.clock->after(no_room_seconds).at, std::memory_order_relaxed);
    return status;
  }
  Status hand_over(std::unique_ptr<Slab> slab) {
    const int descriptor = slab->segment().descriptor();
    const Answered answered = m_line.ask(
        Answer::wanted, [](Request& request) { request.kind = Kind::new_slab; }, descriptor);
    if (!answered.status.ok()) return answered.status;
    m_own_number = answered.reply.value;
    Slab* const own = m_slabs.keep(m_own_number, std::move(slab));
    if (own == nullptr) return {StatusCode::busy, 0};
    m_own.store(own, std::memory_order_release);
    return {};
  }

  /// Where a place is mapped here; the slab is fetched from the holder when it is seen first. nullptr when that fails.
  const std::byte* address(const CacheDirectory::Place& place) {
    if (m_slabs.find(place.slab) == nullptr) fetch_slab(place.slab);
    return m_slabs.address(place.slab, place.offset, place.length);
  }
  void fetch_slab(std::uint32_t number) {
    Answered answered = m_line.ask(Answer::wanted, [&](Request& request) {
      request.kind = Kind::get_slab;
      request.count = number;
    });
    if (!answered.status.ok() || answered.descriptors.size() != 1) return;
    try {
      m_slabs.keep(number, std::make_unique<Slab>(MemorySegment::attach(std::move(answered.descriptors.front()), Access::read_only, 1)));
    } catch (const std::exception&) {
      return;  // no memory to map it: its items are bypassed
    }
  }

  HolderLine& m_line;
  CacheDirectory m_directory;
  const std::uint64_t m_samples;
  Timing m_timing;
  SlabTable m_slabs;
  std::mutex m_own_mutex;
  std::atomic<Slab*> m_own{nullptr};
  std::uint32_t m_own_number = server_protocol::no_slab;  // written before m_own
  std::atomic<bool> m_unsettled{false};                   // something was published since the last question
  std::atomic<Nanoseconds> m_no_room_until{0};
};

class AttachedServer final : public ServerScope {
 public:
  AttachedServer(FileDescriptor holder, Timing timing) : m_line(std::move(holder), timing) {
    Answered answered = m_line.ask(Answer::wanted, [](Request& request) {
      request.kind = Kind::hello;
      request.count = server_protocol::version;
    });
    const std::size_t count = answered.descriptors.size();
    if (answered.status.code == StatusCode::io && answered.status.detail == ENOMEM) throw_errno("cannot attach to", "the server's holder", ENOMEM);
    if (!answered.status.ok() || count < 1 || count > 2) {
      throw Error("cannot attach to the server's holder: it is gone, does not answer, or speaks another protocol version; start the run again");
    }
    m_devices = MemorySegment::attach(std::move(answered.descriptors[0]), Access::read_write, sizeof(ServerDevices));
    if (count == 1) {
      m_cache = std::make_unique<NoCache>();
      return;
    }
    CacheDirectory directory(MemorySegment::attach(std::move(answered.descriptors[1]), Access::read_only, CacheDirectory::bytes_for(0)));
    if (!directory.whole()) throw Error("cannot attach to the server's holder: its cache directory is cut short; start the run again");
    m_cache = std::make_unique<AttachedCache>(m_line, std::move(directory), timing);
  }
  ServerDevices& devices() override { return *reinterpret_cast<ServerDevices*>(m_devices.data()); }
  RawCache& cache() override { return *m_cache; }

 private:
  HolderLine m_line;
  MemorySegment m_devices;
  std::unique_ptr<RawCache> m_cache;
};

}  // namespace

std::unique_ptr<ServerScope> attach_server(FileDescriptor holder, Timing timing) {
  return std::make_unique<AttachedServer>(std::move(holder), timing);
}

}  // namespace dsanalyze
