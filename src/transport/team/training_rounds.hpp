#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "core/partition/collective.hpp"
#include "exchange.hpp"
#include "members.hpp"

namespace dsanalyze::transport {

/// The rounds of who trains, beside those of who loads. Who takes part is settled by the first round: the ranks of the last agreement then. Its
/// number tells how many those are, so that two rounds with different ranks never pass for one. Threads: one at a time; stop() and hear() any.
class TrainingRounds final : public Collective {
 public:
  TrainingRounds(Members& members, Say say)
      : m_members(&members), m_exchange(members, FrameKind::training, std::move(say), [](std::uint32_t) { return false; }) {}

  [[nodiscard]] int rank() const override { return static_cast<int>(m_members->own()); }
  [[nodiscard]] int world() const override { return static_cast<int>(m_members->world()); }
  Status barrier(Deadline deadline) override { return gather({}, {}, deadline); }
  Status sum(std::span<double> values, Deadline deadline) override {
    if (Status status = begin(); !status.ok()) return status;
    return m_exchange.sum(++m_number, *m_taking_part, values, ending(), deadline);
  }
  Status gather(std::span<const std::byte> mine, std::span<std::byte> all, Deadline deadline) override {
    if (Status status = begin(); !status.ok()) return status;
    return m_exchange.gather(++m_number, *m_taking_part, mine, all, ending(), deadline);
  }

  void stop() {
    m_is_stopped = true;
    m_members->tell();
  }
  void hear(std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
    m_exchange.hear(rank, head.number, std::move(bytes));
    m_members->tell();
  }

 private:
  static constexpr unsigned round_bits = 48;

  Status begin() {
    if (!m_taking_part) {
      m_taking_part = m_members->taking_part();
      const auto lost = static_cast<std::uint64_t>(std::ranges::count(*m_taking_part, false));
      m_number = lost << round_bits;
    }
    return state();
  }
  /// A sum that lacks a part is none: one death is the end of all rounds.
  [[nodiscard]] Status state() const {
    if (m_is_stopped) return {StatusCode::cancelled, 0};
    for (std::uint32_t rank = 0; rank < m_members->world(); ++rank) {
      if ((*m_taking_part)[rank] && !m_members->alive(rank)) return {StatusCode::io, ECONNRESET};
    }
    return {};
  }
  [[nodiscard]] Exchange::Ending ending() const {
    return [this] { return state(); };
  }

  Members* m_members;
  Exchange m_exchange;
  std::optional<RankMask> m_taking_part;
  std::uint64_t m_number = 0;
  std::atomic<bool> m_is_stopped{false};
};

}  // namespace dsanalyze::transport
