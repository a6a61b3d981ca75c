#include "host_desk.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"

namespace dsanalyze {

HostDesk::HostDesk(Timing timing) : m_timing(timing), m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!m_wake.valid()) throw_errno("cannot make", "an event descriptor", errno);
}

void HostDesk::ask(std::atomic<bool>& what) {
  what.store(true);
  wake_host();
}

void HostDesk::wake_host() const {
  const std::uint64_t one = 1;
  while (::write(m_wake.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
}

void HostDesk::drain() const {
  std::uint64_t count = 0;
  while (::read(m_wake.get(), &count, sizeof count) < 0 && errno == EINTR) continue;
}

FileDescriptor HostDesk::connect() {
  auto [mine, theirs] = socket_pair();
  name_senders(mine.get());
  adopt({std::move(mine)});
  return std::move(theirs);
}

void HostDesk::adopt(Line line) {
  {
    const std::scoped_lock lock(m_mutex);
    m_lines.push_back(std::move(line));
  }
  wake_host();
}

std::vector<HostDesk::Line> HostDesk::take_lines() {
  const std::scoped_lock lock(m_mutex);
  return std::exchange(m_lines, {});
}

bool HostDesk::wait_over(Deadline deadline) {
  while (true) {
    const std::uint32_t seen = m_changes.load(std::memory_order_acquire);
    {
      const std::scoped_lock lock(m_mutex);
      if (m_state.over || m_none_left) return true;
    }
    if (m_timing.clock->now() >= deadline.at) return false;
    m_timing.waiter->wait(m_changes, seen, deadline);
  }
}

GroupHost::State HostDesk::state() const {
  const std::scoped_lock lock(m_mutex);
  return m_state;
}

std::vector<GroupJobAccount> HostDesk::accounts() const {
  const std::scoped_lock lock(m_mutex);
  return m_accounts;
}

std::size_t HostDesk::open_account(GroupJobAccount account) {
  const std::scoped_lock lock(m_mutex);
  m_accounts.push_back(account);
  return m_accounts.size() - 1;
}

void HostDesk::close_account(std::size_t account, GroupJobAccount::End end, const std::optional<StagingCounts>& counts) {
  const std::scoped_lock lock(m_mutex);
  m_accounts[account].end = end;
  if (counts) m_accounts[account].counts = *counts;
}

void HostDesk::publish(const GroupHost::State& state, bool none_left, std::span<const std::pair<std::size_t, StagingCounts>> counts) {
  {
    const std::scoped_lock lock(m_mutex);
    for (const auto& [account, now] : counts) m_accounts[account].counts = now;
    m_state = state;
    m_none_left = none_left;
  }
  m_changes.fetch_add(1, std::memory_order_release);
  m_timing.waiter->wake(m_changes, INT32_MAX);
}

}  // namespace dsanalyze
