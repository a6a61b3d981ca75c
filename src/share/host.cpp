#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "host_impl.hpp"
#include "terms.hpp"

namespace dsanalyze {
namespace {

const GroupTerms& checked(const GroupHost::Parts& parts) {
  group_protocol::check_terms(parts.terms);
  if (parts.terms.staging.producers == Producers::jobs && parts.index == nullptr) {
    throw UsageError("a group whose jobs make the batches needs the dataset's index, to hand it to them");
  }
  return parts.terms;
}

}  // namespace

FileDescriptor second_descriptor(int first) {
  FileDescriptor copy(::fcntl(first, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) throw Error("the host has as many open files as it may have");
  return copy;
}

Bytes segment_bytes(int descriptor) {
  struct stat facts {};
  return descriptor >= 0 && ::fstat(descriptor, &facts) == 0 ? static_cast<Bytes>(facts.st_size) : 0;
}

std::string_view group_event_name(GroupEvent::Kind kind) {
  constexpr std::array<std::string_view, 11> names{"joined", "waiting",    "refused",      "left",        "died", "garbage",
                                                   "late",   "slow-start", "epoch-opened", "epoch-ended", "ended"};
  return names.at(static_cast<std::size_t>(kind));
}

GroupHost::Impl::Impl(Parts given)
    : parts(std::move(given)),
      coordinator(
          checked(parts).staging, [this](std::uint32_t place) { return places[place] && places[place]->lives; }, parts.timing, parts.observer),
      wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      process(::getpid()) {
  if (!wake.valid()) throw_errno("cannot make", "an event descriptor", errno);
  if (parts.index != nullptr) index_segment = share_index(*parts.index);
  const int slab = coordinator.slab(staging_most_jobs);
  fixed_bytes = segment_bytes(coordinator.board()) + segment_bytes(slab);
  if (slab >= 0) {
    std::vector<FileDescriptor> descriptors;
    descriptors.push_back(second_descriptor(slab));
    own_slab = std::make_shared<const std::vector<FileDescriptor>>(std::move(descriptors));
  }
  progress = coordinator.progress();
  state.shared_bytes = fixed_bytes;
  if (!parts.socket.empty()) listener.emplace(parts.socket, parts.timing);
  thread = std::jthread([this] { run(); });
}

GroupHost::Impl::~Impl() {
  tell(stopping);
  if (thread.joinable()) thread.join();
  for (Connection& connection : connections) {
    if (connection.socket() >= 0) connection.close();
  }
}

void GroupHost::Impl::tell(std::atomic<bool>& what) {
  what.store(true);
  const std::uint64_t one = 1;
  while (::write(wake.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
}

FileDescriptor GroupHost::Impl::connect() {
  auto [mine, theirs] = socket_pair();
  name_senders(mine.get());
  {
    const std::scoped_lock lock(mutex);
    new_lines.push_back(std::move(mine));
  }
  std::atomic<bool> unused{false};
  tell(unused);
  return std::move(theirs);
}

GroupHost::State GroupHost::Impl::seen_state() const {
  const std::scoped_lock lock(mutex);
  return state;
}

std::vector<GroupJobAccount> GroupHost::Impl::seen_accounts() const {
  const std::scoped_lock lock(mutex);
  return accounts;
}

bool GroupHost::Impl::wait_over(Deadline deadline) {
  while (true) {
    const std::uint32_t seen = changes.load(std::memory_order_acquire);
    {
      const std::scoped_lock lock(mutex);
      if (state.over || nobody_left) return true;
    }
    if (parts.timing.clock->now() >= deadline.at) return false;
    parts.timing.waiter->wait(changes, seen, deadline);
  }
}

GroupHost::GroupHost(Parts parts) : m_impl(std::make_unique<Impl>(std::move(parts))) {}
GroupHost::~GroupHost() {
  // A child that was forked has a copy, and none of its threads: it is not the host.
  if (m_impl->process != ::getpid()) static_cast<void>(m_impl.release());
}

std::string GroupHost::address() const { return m_impl->listener ? "unix:" + m_impl->listener->path().string() : std::string(); }
FileDescriptor GroupHost::connect() { return m_impl->connect(); }
void GroupHost::begin() { m_impl->tell(m_impl->to_begin); }
void GroupHost::end() { m_impl->tell(m_impl->to_end); }
StagingProducer& GroupHost::producer() { return m_impl->coordinator.producer(); }
GroupHost::State GroupHost::state() const { return m_impl->seen_state(); }
std::vector<GroupJobAccount> GroupHost::accounts() const { return m_impl->seen_accounts(); }
Nanoseconds GroupHost::control_time() const { return m_impl->coordinator.control_time(); }
bool GroupHost::wait_over(Deadline deadline) { return m_impl->wait_over(deadline); }

}  // namespace dsanalyze
