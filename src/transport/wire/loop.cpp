#include "loop.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>

#include "connection.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_in_a_group = 64;

/// How often connections are looked at: often enough for the deadline to be kept within an eighth of it.
std::chrono::nanoseconds look_interval(Nanoseconds peer_deadline) {
  return std::chrono::nanoseconds(std::clamp<Nanoseconds>(peer_deadline / 8, 1'000'000, 100'000'000));
}

/// The one posted wake's memory lies in the loop, so waking allocates nothing.
template <typename Type>
struct InPlace {
  using value_type = Type;
  std::byte* memory;
  std::size_t bytes;
  InPlace(std::byte* at, std::size_t size) : memory(at), bytes(size) {}
  template <typename Other>
  explicit InPlace(const InPlace<Other>& other) : memory(other.memory), bytes(other.bytes) {}
  Type* allocate(std::size_t count) {
    if (count * sizeof(Type) > bytes) throw std::bad_alloc();
    return reinterpret_cast<Type*>(memory);
  }
  void deallocate(Type* /*at*/, std::size_t /*count*/) {}
  template <typename Other>
  bool operator==(const InPlace<Other>& other) const {
    return memory == other.memory;
  }
};

}  // namespace

struct Loop::WakeHandler {
  using allocator_type = InPlace<std::byte>;
  Loop* loop;
  void operator()() const { loop->work(); }
  [[nodiscard]] allocator_type get_allocator() const { return {loop->m_wake_memory.data(), loop->m_wake_memory.size()}; }
};

Loop::Loop(Job& job) : m_job(&job), m_timer(m_context) {
  m_completions.reserve(most_in_a_group);
  look_after(look_interval(m_job->peer_deadline));
  m_thread = std::thread([this] { m_context.run(); });
}

Loop::~Loop() {
  if (!m_thread.joinable()) return;
  m_context.stop();
  m_thread.join();
}

void Loop::add(Connection& connection) {
  asio::post(m_context, [this, &connection] {
    m_connections.push_back(&connection);
    m_working.reserve(m_connections.size());
    {
      const std::scoped_lock lock(m_mutex);
      m_woken.reserve(m_connections.size());
    }
    ++m_open;
    connection.start();
    deliver();
  });
}

void Loop::replace_socket(Connection& connection, FileDescriptor socket, const FrameKeys& keys) {
  asio::post(m_context, [this, &connection, keys, given = std::make_shared<FileDescriptor>(std::move(socket))] {
    connection.replace_socket(std::move(*given), keys);
    deliver();
  });
}

void Loop::wake(Connection& connection) {
  if (connection.is_woken.exchange(true)) return;
  {
    const std::scoped_lock lock(m_mutex);
    m_woken.push_back(&connection);
  }
  if (!m_is_posted.exchange(true)) asio::post(m_context, WakeHandler{this});
}

void Loop::work() {
  m_is_posted.store(false);
  {
    const std::scoped_lock lock(m_mutex);
    m_working.swap(m_woken);
  }
  for (Connection* const connection : m_working) {
    connection->is_woken.store(false);
    connection->work();
  }
  m_working.clear();
  deliver();
}

void Loop::look_after(std::chrono::nanoseconds interval) {
  m_timer.expires_after(interval);
  m_timer.async_wait([this](const asio::error_code& error) {
    if (!error) look_around();
  });
}

void Loop::look_around() {
  for (Connection* const connection : m_connections) connection->look();
  deliver();
  if (m_is_finishing && (m_open == 0 || m_job->members.now() >= m_end.at)) {
    for (Connection* const connection : m_connections) connection->close();
    deliver();
    return m_context.stop();
  }
  look_after(look_interval(m_job->peer_deadline));
}

void Loop::finish(Deadline deadline) {
  asio::post(m_context, [this, deadline] {
    m_is_finishing = true;
    m_end = deadline;
    for (Connection* const connection : m_connections) connection->leave();
    look_after(std::chrono::nanoseconds(0));
  });
}

void Loop::closed() {
  --m_open;
  if (m_is_finishing && m_open == 0) look_after(std::chrono::nanoseconds(0));
}

void Loop::complete(const PeerCompletion& completion) {
  m_completions.push_back(completion);
  if (m_completions.size() == most_in_a_group) deliver();
}

void Loop::deliver() {
  m_job->deliveries.deliver(m_completions);
  m_completions.clear();
}

}  // namespace dsanalyze::transport
