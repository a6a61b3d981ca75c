#include "loader_ranks.hpp"

#include <fmt/format.h>

#include <climits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "share/load_plan.hpp"
#include "transport/rendezvous/launch.hpp"
#include "transport/rendezvous/rendezvous.hpp"

namespace dsanalyze::client {
namespace {

/// What ranks load alike: otherwise samples would come twice, or not at all.
std::vector<AgreedValue> agreed_values(const LoadInputs& inputs) {
  const ProfileSettings& settings = inputs.settings;
  return {{"batch_size", std::to_string(settings.batch_size)},
          {"seed", std::to_string(settings.seed)},
          {"shuffle", enum_name(settings.order)},
          {"dtype", enum_name(settings.dtype)},
          {"prep", agreed_line(prep_text(inputs))},
          {"partition", partition_mode_name(settings.partition)},
          {"samples", std::to_string(inputs.index->size())},
          {"dataset", agreed_line(inputs.index->facts().digest)}};
}

}  // namespace

LoaderRanks::Joined::Joined(std::unique_ptr<Ranks> ranks, const Parts& parts)
    : team(std::move(ranks)),
      partition({.team = team,
                 .inputs = parts.inputs,
                 .spec = parts.spec,
                 .timing = parts.timing,
                 .enough = [](Nanoseconds) { return false; },
                 .patience_seconds = parts.wish.epoch_seconds,
                 .needs_all = true}) {}

LoaderRanks::LoaderRanks(Parts parts) : m_parts(std::move(parts)), m_stage(static_cast<std::uint32_t>(Stage::meeting)) {
  const std::string& listen = m_parts.wish.listen;
  first_facts().validate();
  auto listener = std::make_shared<Listener>(listen.empty() ? "127.0.0.1" : listening_host(listen));
  const SignalsBlocked blocked;
  m_meeting = std::jthread([this, listener](const std::stop_token& stop) { meet_others(stop, std::move(*listener)); });
}

LoaderRanks::~LoaderRanks() { leave(); }

void LoaderRanks::meet_others(const std::stop_token& stop, Listener listener) {
  Stage stage = Stage::failed;
  try {
    join(stop, std::move(listener));
    stage = Stage::joined;
  } catch (const Interrupted&) {
    m_failure = {DSA_END, "the loader was closed while its ranks met"};
  } catch (const UsageError& error) {
    m_failure = {DSA_INVALID, error.what()};
  } catch (const std::exception& error) {
    m_failure = {says_no_memory(error) ? DSA_NO_MEMORY : DSA_FAILED, error.what()};
  }
  m_stage.store(static_cast<std::uint32_t>(stage), std::memory_order_release);
  m_parts.timing.waiter->wake(m_stage, INT_MAX);
}

RankFacts LoaderRanks::first_facts() const {
  RankFacts facts;
  facts.rank = m_parts.rank;
  facts.world = m_parts.world;
  facts.peer_deadline_seconds = m_parts.wish.peer_seconds;
  return facts;
}

void LoaderRanks::join(const std::stop_token& stop, Listener listener) {
  const RanksWish& wish = m_parts.wish;
  const std::vector<AgreedValue> agreed = agreed_values(m_parts.inputs);
  const Meeting meeting{m_parts.rank, m_parts.world, listener.address(), agreed, wish.key, wish.meeting_seconds};
  const Roster roster = meet(wish.rendezvous, meeting, m_parts.timing, stop);
  RankFacts facts = first_facts();
  complete_facts(facts, roster, agreed, wish.key.has_value(), m_parts.inputs.settings, *m_parts.inputs.index);
  m_joined = std::make_unique<Joined>(join_ranks(std::move(listener), facts, roster.addresses, m_parts.timing, stop), m_parts);
}

Answer LoaderRanks::ready(Deadline deadline) const {
  constexpr auto meeting = static_cast<std::uint32_t>(Stage::meeting);
  while (true) {
    const std::uint32_t stage = m_stage.load(std::memory_order_acquire);
    if (stage == static_cast<std::uint32_t>(Stage::joined)) return {};
    if (stage == static_cast<std::uint32_t>(Stage::failed)) return m_failure;
    if (m_parts.timing.clock->now() >= deadline.at)
      return {DSA_TIMEOUT, fmt::format("rank {} of {} waits for the others at {}; ask again", m_parts.rank, m_parts.world, m_parts.wish.rendezvous)};
    m_parts.timing.waiter->wait(m_stage, meeting, deadline);
  }
}

std::string LoaderRanks::failure() const { return m_joined->partition.share().failure(); }
void LoaderRanks::restart() { m_joined->partition.share().restart(); }
void LoaderRanks::leave() {
  constexpr double farewell_seconds = 1;
  m_meeting.request_stop();
  if (m_stage.load(std::memory_order_acquire) == static_cast<std::uint32_t>(Stage::joined))
    m_joined->team.ranks().leave(m_parts.timing.clock->after(farewell_seconds));
}

std::optional<RankCounters> LoaderRanks::counters() const {
  if (m_stage.load(std::memory_order_acquire) != static_cast<std::uint32_t>(Stage::joined)) return std::nullopt;
  return m_joined->team.ranks().counters();
}

}  // namespace dsanalyze::client
