#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/clock.hpp"
#include "transport/wire/wire.hpp"

namespace dsanalyze::transport {

/// Why a rank is dead to this one. The number of a frame given_up is one of silent, nonsense and excluded.
enum class Death : std::uint8_t {
  none,
  ended,     ///< it said that it leaves, or its process is gone for certain
  silent,    ///< it owed something, or a sign of life, and nothing came for the peer deadline, also because no connection with it could be kept
  nonsense,  ///< it broke the protocol
  excluded,  ///< the others agreed to go on without it
  alone,     ///< of this rank itself: too many of the others are silent
  left,      ///< this rank does not go on, so it hears no rank any more
};
/// Whether a rank that died of it may live, so that it is to be told.
constexpr bool may_live(Death death) { return death == Death::silent || death == Death::nonsense || death == Death::excluded; }

/// Whether the ranks that `stay` may go on without the others of those that took part in the last agreement: they are more than half, or one half
/// with the lowest. Ranks that have `ended` for certain do not count; of all others it is not known whether they go on by themselves. So at most one
/// part of a network that was cut does, whatever each part knows of ends: parts that stay and know of different ends are still too many for two.
inline bool may_go_on(const RankMask& taking_part, const RankMask& ended, const RankMask& stay) {
  std::size_t all = 0;
  std::size_t left = 0;
  std::size_t lowest = taking_part.size();
  for (std::size_t rank = taking_part.size(); rank-- > 0;) {
    if (!taking_part[rank] || ended[rank]) continue;
    ++all;
    left += stay[rank] ? 1 : 0;
    lowest = rank;
  }
  return 2 * left > all || (2 * left == all && lowest < stay.size() && stay[lowest]);
}

/// Who this rank takes for alive, and a word that changes with all news that a waiting rank may want. Threads: any, at once.
class Members {
 public:
  Members(std::uint32_t world, std::uint32_t own, Timing timing) : m_deaths(world), m_taking_part(world, true), m_own(own), m_timing(timing) {}

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(m_deaths.size()); }
  [[nodiscard]] std::uint32_t own() const { return m_own; }
  /// Of this rank itself: whether the others have not gone on without it, as far as it knows.
  [[nodiscard]] bool alive(std::uint32_t rank) const { return rank < m_deaths.size() && death(rank) == Death::none; }
  [[nodiscard]] Death death(std::uint32_t rank) const { return m_deaths[rank].load(std::memory_order_acquire); }
  /// For good. True for who found it.
  bool bury(std::uint32_t rank, Death death) {
    Death alive = Death::none;
    if (!m_deaths[rank].compare_exchange_strong(alive, death)) return false;
    tell();
    return true;
  }
  [[nodiscard]] RankMask of_death(Death death_of) const {
    RankMask mask(world());
    for (std::uint32_t rank = 0; rank < world(); ++rank) mask[rank] = death(rank) == death_of;
    return mask;
  }
  /// The ranks of the last agreement, at first all.
  [[nodiscard]] RankMask taking_part() const {
    const std::scoped_lock lock(m_mutex);
    return m_taking_part;
  }
  void agreed_on(const RankMask& mask) {
    const std::scoped_lock lock(m_mutex);
    m_taking_part = mask;
  }
  /// Whether this rank may still tell others that it goes on without them.
  [[nodiscard]] bool goes_on() const { return alive(m_own) && may_go_on(taking_part(), of_death(Death::ended), of_death(Death::none)); }
  /// To be read before looking at what is waited for.
  [[nodiscard]] std::uint32_t news() const { return m_news.load(std::memory_order_acquire); }
  void tell() {
    m_news.fetch_add(1, std::memory_order_acq_rel);
    m_timing.waiter->wake(m_news, INT32_MAX);
  }
  /// False when the deadline has passed.
  bool wait(std::uint32_t seen, Deadline deadline) { return m_timing.waiter->wait(m_news, seen, deadline) || m_timing.clock->now() < deadline.at; }
  [[nodiscard]] Nanoseconds now() const { return m_timing.clock->now(); }
  [[nodiscard]] Deadline after(double seconds) const { return m_timing.clock->after(seconds); }

 private:
  std::vector<std::atomic<Death>> m_deaths;
  mutable std::mutex m_mutex;
  RankMask m_taking_part;  ///< guarded by m_mutex
  std::uint32_t m_own;
  Timing m_timing;
  std::atomic<std::uint32_t> m_news{0};
};

}  // namespace dsanalyze::transport
