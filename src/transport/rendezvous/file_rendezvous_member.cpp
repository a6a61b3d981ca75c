#include <fmt/format.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "file_rendezvous.hpp"
#include "private_file.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

/// Any other rank of a meeting at a file.
class FileMember {
 public:
  FileMember(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop)
      : m_files(file),
        m_meeting(meeting),
        m_timing(timing),
        m_stop(stop),
        m_deadline(timing.clock->after(meeting.timeout_seconds)),
        m_answer_path(m_files.answer_of(meeting.rank)) {
    m_answer.from = introduce(meeting);
  }
  ~FileMember() { remove_answer(); }
  FileMember(const FileMember&) = delete;
  FileMember& operator=(const FileMember&) = delete;

  Roster run();

 private:
  void look();
  void answer();
  [[nodiscard]] bool answered() const { return !m_answer.run.empty() && m_answer.run == m_board.run; }
  [[nodiscard]] bool on_the_list() const;
  [[nodiscard]] Roster take_roster();
  void remove_answer() noexcept;
  void remove_file_of_dead_host() noexcept;
  [[noreturn]] void give_up();

  MeetingFiles m_files;
  const Meeting& m_meeting;
  Timing m_timing;
  std::stop_token m_stop;
  Deadline m_deadline;
  std::filesystem::path m_answer_path;
  MeetingAnswer m_answer;
  MeetingBoard m_board;  ///< as it was seen last
  Nanoseconds m_changed_at = 0;
  std::uint64_t m_beat_at_answer = 0;
  std::optional<NamedPlace> m_named;
};

void FileMember::look() {
  const auto text = MeetingFiles::read(m_files.file());
  auto board = text ? parse_board(text->view()) : std::nullopt;
  if (!board) return;
  if (board->run != m_board.run || board->beat != m_board.beat) m_changed_at = m_timing.clock->now();
  m_board = std::move(*board);
}

/// Puts our answer where rank 0 looks for it, unless it stands there.
void FileMember::answer() {
  const auto text = MeetingFiles::read(m_answer_path);
  const auto there = text ? parse_answer(text->view()) : std::nullopt;
  if (text && !begins_as_answer(text->view())) {
    throw UsageError(fmt::format("{} is there and is no answer at a rendezvous; it is left alone, use another name for the rendezvous file",
                                 printable(m_answer_path.native())));
  }
  const bool of_this_run = there && there->run == m_board.run;
  if (of_this_run && there->from.nonce == m_answer.from.nonce) return;
  m_answer.twice = of_this_run;
  m_answer.run = m_board.run;
  m_beat_at_answer = m_board.beat;
  const std::string mine = to_text(m_answer);
  if (!m_named) m_named.emplace(m_answer_path);
  if (text) {
    replace_private_file(m_answer_path, mine);
  } else {
    create_private_file(m_answer_path, mine);  // or another was quicker, which the next look finds
  }
}

bool FileMember::on_the_list() const {
  return m_meeting.rank < m_board.members.size() && m_board.members[m_meeting.rank].nonce == m_answer.from.nonce;
}

Roster FileMember::take_roster() {
  if (!m_meeting.key && !m_board.key) throw Error(fmt::format("the list of ranks in {} has no key", printable(m_files.file().native())));
  Roster roster{{}, m_meeting.key ? *m_meeting.key : *m_board.key};
  for (const MeetingBoard::Member& member : m_board.members) roster.addresses.push_back(member.address);
  return roster;
}

void FileMember::remove_answer() noexcept {
  if (m_answer.run.empty()) return;
  try {
    const auto text = MeetingFiles::read(m_answer_path);
    const auto there = text ? parse_answer(text->view()) : std::nullopt;
    if (there && there->from.nonce == m_answer.from.nonce) ::unlink(m_answer_path.c_str());
  } catch (const std::exception&) {
    return;  // it stays, and is not believed by the next run
  }
}

/// Rank 0 counts up while it lives, and removes FILE itself.
void FileMember::remove_file_of_dead_host() noexcept {
  if (!answered() || m_timing.clock->now() - m_changed_at < to_nanoseconds(stale_seconds)) return;
  try {
    const auto text = MeetingFiles::read(m_files.file());
    const auto there = text ? parse_board(text->view()) : std::nullopt;
    if (there && there->run == m_board.run && there->beat == m_board.beat) ::unlink(m_files.file().c_str());
  } catch (const std::exception&) {
    return;
  }
}

void FileMember::give_up() {
  const std::string file = printable(m_files.file().native());
  const bool silent = m_timing.clock->now() - m_changed_at >= to_nanoseconds(stale_seconds);
  remove_file_of_dead_host();
  if (!answered()) {
    throw Error(fmt::format(
        "rank 0 of {} did not come within {:g} s: it wrote nothing to {}; start it, and give all ranks one file on a file system that they share",
        m_meeting.world, m_meeting.timeout_seconds, file));
  }
  if (silent)
    throw Error(
        fmt::format("rank 0 of {} came to {} and has been silent since: it has died, or does not see the file any more", m_meeting.world, file));
  throw Error(fmt::format("{} of {} did not come to {} within {:g} s; see what they say", m_board.missing.empty() ? "some ranks" : m_board.missing,
                          m_meeting.world, file, m_meeting.timeout_seconds));
}

Roster FileMember::run() {
  for (;;) {
    look();
    if (!m_board.run.empty()) {
      // A rank 0 that counts on after our answer is no left-over.
      if (answered() && !m_board.refused.empty() && m_board.beat != m_beat_at_answer) throw_refusal(m_board.refused);
      if (on_the_list()) return take_roster();
      if (answered() && !m_board.members.empty()) throw UsageError(two_of_one_rank(m_meeting.rank));
      if (m_board.members.empty()) answer();
    }
    if (m_stop.stop_requested()) throw Interrupted();
    const bool host_decides = answered() && m_timing.clock->now() - m_changed_at < to_nanoseconds(stale_seconds);
    if (m_timing.clock->now() >= m_deadline.at + (host_decides ? to_nanoseconds(grace_seconds) : 0)) give_up();
    m_timing.waiter->sleep_until(m_timing.clock->now() + to_nanoseconds(poll_seconds));
  }
}

}  // namespace

Roster meet_at_file_as_member(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  return FileMember(file, meeting, timing, stop).run();
}

}  // namespace dsanalyze
