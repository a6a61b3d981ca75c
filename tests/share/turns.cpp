#include "turns.hpp"

#include <algorithm>
#include <vector>

namespace dsanalyze::testing {
namespace {

constexpr Nanoseconds turn_time = 1000;
constexpr std::uint64_t none = UINT64_MAX;
thread_local std::uint64_t own_number = none;

}  // namespace

std::uint64_t Turns::self() { return own_number; }

void Turns::enter() {
  std::unique_lock lock(m_mutex);
  own_number = m_threads.size();
  m_threads.emplace_back();
  m_entered.store(m_threads.size());
  await_turn(lock, own_number);
}

void Turns::leave() {
  const std::scoped_lock lock(m_mutex);
  m_threads[own_number].there = false;
  own_number = none;
  if (!m_free.load()) choose();
}

void Turns::start(std::uint64_t threads) {
  while (m_entered.load() < threads) system_timing().waiter->sleep_until(system_timing().clock->after(0.0001).at);
  const std::scoped_lock lock(m_mutex);
  choose();
}

void Turns::set_free() {
  const std::scoped_lock lock(m_mutex);
  m_free.store(true);
  for (Thread& thread : m_threads) thread.condition.notify_all();
}

void Turns::await_turn(std::unique_lock<std::mutex>& lock, std::uint64_t number) {
  m_threads[number].condition.wait(lock, [&] { return m_next == number || m_free.load(); });
}

void Turns::choose() {
  ++m_turns;
  m_now.fetch_add(turn_time);
  std::vector<std::uint64_t> ready;
  Nanoseconds first = INT64_MAX;
  for (std::uint64_t number = 0; number < m_threads.size(); ++number) {
    if (!m_threads[number].there) continue;
    first = std::min(first, m_threads[number].until);
    if (m_threads[number].until <= m_now.load()) ready.push_back(number);
  }
  if (ready.empty() && first < INT64_MAX) {
    m_now.store(first);
    for (std::uint64_t number = 0; number < m_threads.size(); ++number)
      if (m_threads[number].there && m_threads[number].until <= first) ready.push_back(number);
  }
  m_next = ready.empty() ? none : ready[m_random.below(ready.size())];
  if (std::ranges::find(ready, m_preferred) != ready.end()) m_next = m_preferred;
  m_preferred = none;
  if (m_next != none) m_threads[m_next].condition.notify_all();
}

void Turns::give_up(Nanoseconds until, const std::atomic<std::uint32_t>* word) {
  const std::uint64_t number = own_number;
  if (number == none || m_free.load()) {
    // Not one of them, or none counts any more.
    if (until > 0) system_timing().waiter->sleep_until(system_timing().clock->after(0.0002).at);
    if (m_free.load()) m_now.fetch_add(1'000'000);
    return;
  }
  std::unique_lock lock(m_mutex);
  m_threads[number].until = until;
  m_threads[number].word = word;
  choose();
  await_turn(lock, number);
  m_threads[number].until = 0;
  m_threads[number].word = nullptr;
}

void Turns::yield_to(std::uint64_t preferred) {
  {
    const std::scoped_lock lock(m_mutex);
    m_preferred = preferred;
    if (preferred < m_threads.size()) m_threads[preferred].until = 0;
  }
  yield();
}

bool Turns::wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, Deadline deadline) {
  if (word.load() != expected) return true;
  give_up(deadline.at, &word);
  return now() < deadline.at;
}

void Turns::wake(const std::atomic<std::uint32_t>& word, int count) {
  const std::scoped_lock lock(m_mutex);
  for (Thread& thread : m_threads) {
    if (count <= 0 || thread.word != &word) continue;
    thread.until = 0;
    thread.word = nullptr;
    --count;
  }
}

void Turns::sleep_until(Nanoseconds instant) { give_up(instant, nullptr); }

}  // namespace dsanalyze::testing
