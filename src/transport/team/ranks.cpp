#include "ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "job.hpp"
#include "rounds.hpp"
#include "transport/wire/door.hpp"
#include "transport/wire/loop.hpp"
#include "transport/wire/requests.hpp"

namespace dsanalyze {
namespace transport {
namespace {

constexpr double seconds_between_looks = 0.05;  // at who is there, while ranks come together
constexpr std::size_t most_named = 8;           // missing ranks in a message

class JoinedRanks final : public Ranks {
 public:
  JoinedRanks(const RankFacts& facts, Timing timing)
      : m_job(facts, timing), m_lines(facts), m_rounds(m_job, saying()), m_training(m_job.members, saying()), m_requests(m_job, m_lines) {
    m_job.hear = [this](std::uint32_t rank, const FrameHead& head, std::vector<std::byte> bytes) {
      if (head.kind == FrameKind::training) return m_training.hear(rank, head, std::move(bytes));
      if (!m_rounds.hear(rank, head, std::move(bytes))) m_job.bury(rank, Death::nonsense);
    };
    m_job.reopen = [this](std::uint32_t rank, std::uint32_t connection) { m_door->open_again(rank, connection); };
    m_job.bury = [this](std::uint32_t rank, Death death) { bury(rank, death); };
    for (std::uint32_t i = 0; i < facts.io_threads; ++i) m_loops.push_back(std::make_unique<Loop>(m_job));
  }

  ~JoinedRanks() override { finish(m_job.members.after(m_job.facts.peer_deadline_seconds)); }

  JoinedRanks(const JoinedRanks&) = delete;
  JoinedRanks& operator=(const JoinedRanks&) = delete;

  void join(Listener listener, std::vector<asio::ip::tcp::endpoint> peers, const Clock& clock, const std::stop_token& stop) {
    m_door = std::make_unique<Door>(listener.take(), m_job.facts, std::move(peers), clock, calls_of_door());
    m_door->open();
    const Deadline deadline = m_job.members.after(m_job.facts.setup_seconds);
    while (true) {
      const std::uint32_t seen = m_job.members.news();
      const std::vector<std::uint32_t> missing = missing_ranks();
      if (missing.empty()) return;
      if (stop.stop_requested()) throw Interrupted();
      const bool is_over = m_job.members.now() >= deadline.at || m_door->is_hopeless();
      if (is_over || alive().size() < m_job.members.world()) throw Error(describe_missing(missing));
      m_job.members.wait(seen, {std::min(deadline.at, m_job.members.after(seconds_between_looks).at)});
    }
  }

  Collective& collective() override { return m_rounds; }
  Collective& training() override { return m_training; }
  void stop_training() override { m_training.stop(); }
  PeerSource& peers() override { return m_requests; }

  void serve(const HeldSamples* held) override {
    m_job.held.set(nullptr);
    // Who does not take what it asked for is dead after the peer deadline, so this ends.
    while (true) {
      const std::uint32_t seen = m_job.members.news();
      if (!m_job.held.in_use()) break;
      m_job.members.wait(seen, m_job.members.after(seconds_between_looks));
    }
    m_job.held.set(held);
  }

  Agreement agree_alive(std::uint64_t epoch, Deadline deadline) override { return m_rounds.agree(epoch, deadline); }
  void stop_rounds() override { m_rounds.stop(); }
  void restart_rounds() override { m_rounds.restart(); }
  void leave(Deadline deadline) override {
    finish(deadline);
    bury(m_job.members.own(), Death::left);
  }

  [[nodiscard]] std::vector<std::uint32_t> alive() const override {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < m_job.members.world(); ++rank) {
      if (m_job.members.alive(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  [[nodiscard]] std::string given_up() const override {
    const Death death = m_job.members.death(m_job.members.own());
    const std::string deadline = format_seconds(m_job.facts.peer_deadline_seconds);
    if (death == Death::none) return "";
    if (death == Death::silent) return fmt::format("the other ranks went on without this one: it did not answer for {}", deadline);
    if (death == Death::nonsense) return "the other ranks went on without this one: what it sent made no sense to them";
    if (death == Death::excluded) return "the other ranks went on without this one: one of them had lost its connection with it";
    return fmt::format(
        "this rank has heard nothing from half or more of the others for {}: the network between them is cut or they are stopped, and they may go on "
        "without it",
        deadline);
  }

  [[nodiscard]] RankCounters counters() const override {
    RankCounters counters{
        m_job.counts.bytes_sent.load(), m_job.counts.requests_served.load(), m_job.counts.requests_refused.load(), m_job.counts.bytes_received.load(),
        m_job.counts.corrupt.load(),    m_job.counts.reopened.load(),        m_job.counts.nonsense.load(),         {}};
    for (std::size_t i = 0; i < refusal_kinds; ++i) counters.refused[i] = m_door->refused(static_cast<Refusal>(i));
    return counters;
  }

 private:
  void finish(Deadline deadline) {
    const std::scoped_lock lock(m_finishing);
    if (std::exchange(m_is_finished, true)) return;
    m_job.held.set(nullptr);
    for (const auto& loop : m_loops) loop->finish(deadline);
    for (const auto& loop : m_loops) loop->join();
    // Until then a connection that breaks can be opened again, for the last words over it.
    if (m_door) m_door->close();
  }

  Door::Calls calls_of_door() {
    return {.admit =
                [this](const Door::Claim& claim) {
                  if (!m_job.members.alive(claim.rank)) return Refusal::dead;
                  const Connection* const line = m_lines.get(claim.rank, claim.connection);
                  // A second process of that rank has never had a connection. A rank that has not heard that it was let in asks once more.
                  const bool is_known = line != nullptr && line->has_heard();
                  return is_known && !claim.opens_again ? Refusal::known : Refusal::none;
                },
            .enter =
                [this](FileDescriptor socket, const FrameKeys& keys, const Door::Claim& claim) {
                  Loop& loop = *m_loops[(claim.rank + claim.connection) % m_loops.size()];
                  if (Connection* const line = m_lines.get(claim.rank, claim.connection)) {
                    loop.replace_socket(*line, std::move(socket), keys);
                  } else {
                    m_lines.add(loop, std::move(socket), keys, claim.rank, claim.connection);
                  }
                  m_job.members.tell();
                },
            .death =
                [this](std::uint32_t rank) {
                  // What this rank alone has found so far is not what the job does.
                  const bool is_settled = m_job.members.goes_on() && !m_job.members.taking_part()[rank];
                  return is_settled ? m_job.members.death(rank) : Death::none;
                },
            .given_up = [this](Death reason) { bury(m_job.members.own(), reason); },
            .is_missed =
                [this](std::uint32_t rank, std::uint32_t connection) {
                  const Connection* const line = m_lines.get(rank, connection);
                  return m_job.members.alive(rank) && line != nullptr && line->is_broken();
                }};
  }

  Say saying() {
    return [this](std::uint32_t rank, FrameKind kind, std::uint64_t number, const SharedBytes& bytes) { say(rank, kind, number, bytes); };
  }

  void say(std::uint32_t rank, FrameKind kind, std::uint64_t number, const SharedBytes& bytes) {
    Connection* const line = m_lines.get(rank, 0);
    line->say(kind, number, bytes);
    line->loop().wake(*line);
  }

  void bury(std::uint32_t rank, Death death) {
    if (!m_job.members.bury(rank, death)) return;
    if (rank == m_job.members.own()) {
      for (std::uint32_t other = 0; other < m_job.members.world(); ++other) bury(other, Death::left);
    }
    m_lines.for_each(rank, [](Connection* line) {
      if (line != nullptr) line->loop().wake(*line);
    });
  }

  [[nodiscard]] std::vector<std::uint32_t> missing_ranks() const {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 0; rank < m_job.members.world(); ++rank) {
      if (rank == m_job.members.own()) continue;
      if (!m_lines.complete(rank) || !m_job.members.alive(rank)) missing.push_back(rank);
    }
    return missing;
  }

  [[nodiscard]] std::string describe(std::uint32_t rank) const {
    const std::string trouble = m_door->trouble(rank);
    if (!m_job.members.alive(rank)) return fmt::format("rank {} (came and died)", rank);
    if (!trouble.empty()) return fmt::format("rank {} ({})", rank, trouble);
    return fmt::format("rank {} (has not called)", rank);
  }

  [[nodiscard]] std::string describe_missing(std::span<const std::uint32_t> missing) const {
    std::string list;
    for (std::size_t i = 0; i < std::min(missing.size(), most_named); ++i) list += (i > 0 ? ", " : "") + describe(missing[i]);
    if (missing.size() > most_named) list += fmt::format(" and {} more", missing.size() - most_named);
    const std::string_view advice = m_door->is_hopeless() ? "All ranks need the same command line, the same dataset and the same program"
                                                          : "All ranks have to start within this time, with the same key, and reach one another";
    return fmt::format("rank {} waited {} for {} of {} ranks that did not come: {}. {}", m_job.members.own(),
                       format_seconds(m_job.facts.setup_seconds), missing.size(), m_job.members.world(), list, advice);
  }

  Job m_job;
  std::vector<std::unique_ptr<Loop>> m_loops;
  Lines m_lines;
  Rounds m_rounds;
  TrainingRounds m_training;
  Requests m_requests;
  std::unique_ptr<Door> m_door;
  std::mutex m_finishing;
  bool m_is_finished = false;  ///< guarded by m_finishing
};

}  // namespace
}  // namespace transport

void RankFacts::validate() const {
  const auto require = [](bool holds, std::string_view field, std::string_view expected) {
    if (!holds) throw UsageError(fmt::format("ranks: {} has to be {}", field, expected));
  };
  require(world >= 1 && world <= most_ranks, "world", fmt::format("between 1 and {}", most_ranks));
  require(rank < world, "rank", fmt::format("below world ({})", world));
  require(connections_per_peer >= 1 && connections_per_peer <= 16, "connections_per_peer", "between 1 and 16");
  require(io_threads >= 1 && io_threads <= 64, "io_threads", "between 1 and 64");
  require(places >= 1 && places <= transport::most_asked, "places", "between 1 and 1024");
  require(largest_sample <= UINT32_MAX, "largest_sample", "below 4 GiB");
  require(peer_deadline_seconds >= 0.01 && peer_deadline_seconds <= 3600, "peer_deadline_seconds", "between 0.01 and 3600");
  require(setup_seconds >= 0 && setup_seconds <= 86400, "setup_seconds", "between 0 and 86400");
}

std::unique_ptr<Ranks> join_ranks(Listener listener, const RankFacts& facts, const std::vector<std::string>& addresses, Timing timing,
                                  const std::stop_token& stop) {
  facts.validate();
  if (addresses.size() != facts.world) {
    throw UsageError(fmt::format("{} addresses were given for {} ranks: each rank needs one", addresses.size(), facts.world));
  }
  std::vector<asio::ip::tcp::endpoint> peers(facts.world);
  for (std::uint32_t rank = 0; rank < facts.rank; ++rank) peers[rank] = transport::parse_endpoint(addresses[rank]);
  auto ranks = std::make_unique<transport::JoinedRanks>(facts, timing);
  ranks->join(std::move(listener), std::move(peers), *timing.clock, stop);
  return ranks;
}

}  // namespace dsanalyze
