#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/system/shared_memory.hpp"
#include "connection.hpp"
#include "group.hpp"
#include "loaders/dataset/dataset.hpp"
#include "messages.hpp"
#include "pace.hpp"

namespace dsanalyze {

class HostDesk;
class HostLines;

/// The jobs of a host's group: lets them in, hands their segments round, has the coordinator look after them. Threads: the host's.
class HostJobs {
 public:
  using Connection = group_protocol::Connection;
  using Message = group_protocol::Message;

  /// `desk` and `lines` are used by later calls alone. Throws as GroupHost.
  HostJobs(const GroupHost::Parts& parts, HostDesk& desk, HostLines& lines);

  [[nodiscard]] StagingCoordinator& coordinator() { return m_coordinator; }
  [[nodiscard]] const StagingCoordinator& coordinator() const { return m_coordinator; }

  // What HostLines heard.
  void handle(Connection& connection, Message& message, const MessageSender& sender);
  /// It has said hello.
  void greet(Connection& connection, const GroupDemands& demands, std::uint64_t command, const MessageSender& sender);
  void line_ended(Connection& connection);
  void process_ended(Connection& connection);
  void emit(GroupEvent::Kind kind, std::uint32_t place, std::int64_t process, std::string text) noexcept;

  // What a round does, in this order.
  void take_commands();
  void settle_ended_lines();
  [[nodiscard]] Nanoseconds next_survey() const { return m_next_survey; }
  void survey();
  void let_in();
  void publish_state();

 private:
  using Attachments = group_protocol::Attachments;

  /// A job at its place, until nothing of it is needed any more.
  struct Placed {
    Attachments segments;        ///< page, slab
    std::uint32_t attached = 0;  ///< which of them
    std::int64_t process = 0;
    Bytes bytes = 0;
    std::uint64_t first_epoch = 0;
    std::size_t account = 0;  ///< its number in `m_desk`
    bool lives = true;
    bool departed = false;
    bool process_ended = false;
    Nanoseconds line_ended = 0;  ///< when; 0: it has not
  };

  void welcome(Connection& connection, const GroupDemands& demands, std::uint64_t command, const MessageSender& sender);
  void place(Connection& connection, Message& message);
  void introduce(Connection& to, std::uint32_t place);
  void introduce_all(Connection& newcomer);
  void note_departure(const StagingRound::Departed& departed, const StagingCounts& counts);
  void note_late(const StagingRound::Late& late);
  [[nodiscard]] bool while_starting(const StagingRound::Late& late) const;
  void vacate(std::uint32_t place);
  void end_when_due();
  [[nodiscard]] std::uint32_t occupied() const;
  [[nodiscard]] Nanoseconds until_next_epoch() const;
  [[nodiscard]] std::uint64_t ended_epochs() const;  ///< all below it

  const GroupHost::Parts& m_parts;
  HostDesk& m_desk;
  HostLines& m_lines;
  MemorySegment m_own_index;
  int m_index = -1;  ///< descriptor of it, or of the one that was given
  std::array<std::optional<Placed>, staging_most_jobs> m_places;
  StagingCoordinator m_coordinator;
  GroupPace m_pace;
  StagingProgress m_progress;
  std::uint64_t m_asks = 0;
  std::uint64_t m_joined = 0;
  Nanoseconds m_next_survey = 0;
  Bytes m_fixed_bytes = 0;  ///< board and the coordinator's slab
  Attachments m_own_slab;   ///< the coordinator's
  bool m_ending = false;    ///< the coordinator was told so
  bool m_ended = false;
};

}  // namespace dsanalyze
