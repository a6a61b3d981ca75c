#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "file_rendezvous.hpp"
#include "private_file.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

/// Rank 0 of a meeting at a file.
class FileHost {
 public:
  FileHost(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop)
      : m_files(file), m_meeting(meeting), m_timing(timing), m_stop(stop), m_deadline(timing.clock->after(meeting.timeout_seconds)) {
    m_all.resize(meeting.world);
    m_inodes.resize(meeting.world);
    m_came.resize(meeting.world, 0);
    m_all[0] = introduce(meeting);
    m_came[0] = 1;
    m_board.run = random_hex(16);
    m_board.world = meeting.world;
  }
  ~FileHost();
  FileHost(const FileHost&) = delete;
  FileHost& operator=(const FileHost&) = delete;

  Roster run();

 private:
  void claim();
  void write_board();
  void beat_when_due();
  void take_answers();
  void linger();
  [[nodiscard]] std::vector<std::uint32_t> missing() const;
  [[noreturn]] void refuse(const Error& error);
  [[nodiscard]] UsageError taken() const;
  void pause() {
    if (m_stop.stop_requested()) throw Interrupted();
    m_timing.waiter->sleep_until(m_timing.clock->now() + to_nanoseconds(poll_seconds));
  }

  MeetingFiles m_files;
  const Meeting& m_meeting;
  Timing m_timing;
  std::stop_token m_stop;
  Deadline m_deadline;
  MeetingBoard m_board;
  bool m_holds_file = false;
  Nanoseconds m_last_beat = 0;
  std::vector<Introduction> m_all;
  std::vector<std::uint64_t> m_inodes;  ///< of the answers that were read
  std::vector<char> m_came;
  std::optional<NamedPlace> m_named;
};

FileHost::~FileHost() {
  if (!m_holds_file) return;
  try {
    const auto text = MeetingFiles::read(m_files.file());
    const auto there = text ? parse_board(text->view()) : std::nullopt;
    if (!there || there->run != m_board.run) return;  // another job's by now, with its answers
  } catch (const std::exception&) {
    return;
  }
  m_files.remove_answers();
  ::unlink(m_files.file().c_str());
}

UsageError FileHost::taken() const {
  return UsageError(fmt::format("another job's ranks meet at {}; give each job a rendezvous file of its own", printable(m_files.file().native())));
}

/// Makes FILE, or replaces one that a dead rank 0 left: one that does not change.
void FileHost::claim() {
  std::optional<SecretText> seen;
  Nanoseconds since = 0;
  const SecretText mine = to_text(m_board);
  while (!create_private_file(m_files.file(), mine.view())) {
    const auto text = MeetingFiles::read(m_files.file());
    if (!text) continue;
    if (!begins_as_board(text->view())) {
      throw UsageError(fmt::format("{} is there and is no rendezvous file; it is left alone, use another name", printable(m_files.file().native())));
    }
    const Nanoseconds now = m_timing.clock->now();
    if (!seen) {
      seen = text;
      since = now;
    }
    if (seen->view() != text->view()) throw taken();
    if (now - since >= to_nanoseconds(stale_seconds)) {
      replace_private_file(m_files.file(), mine.view());
      break;
    }
    pause();
  }
  m_holds_file = true;
  m_named.emplace(m_files.file());
  m_last_beat = m_timing.clock->now();
  m_files.remove_answers();
}

/// Unless another job has taken FILE.
void FileHost::write_board() {
  const auto text = MeetingFiles::read(m_files.file());
  const auto there = text ? parse_board(text->view()) : std::nullopt;
  if (there && there->run != m_board.run) throw taken();
  ++m_board.beat;
  replace_private_file(m_files.file(), to_text(m_board).view());
  m_last_beat = m_timing.clock->now();
}

void FileHost::beat_when_due() {
  if (m_timing.clock->now() - m_last_beat < to_nanoseconds(beat_seconds)) return;
  m_board.missing = rank_names(missing());
  write_board();
}

std::vector<std::uint32_t> FileHost::missing() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < m_meeting.world; ++rank) {
    if (m_came[rank] == 0) ranks.push_back(rank);
  }
  return ranks;
}

void FileHost::take_answers() {
  for (const MeetingFiles::Found& found : m_files.answers()) {
    if (found.unfinished || (found.rank < m_meeting.world && m_inodes[found.rank] == found.inode)) continue;
    const auto text = MeetingFiles::read(m_files.answer_of(found.rank));
    auto answer = text ? parse_answer(text->view()) : std::nullopt;
    if (!answer || answer->run != m_board.run) continue;
    if (const std::string why = contradiction(m_all[0], answer->from, m_meeting.key); !why.empty()) refuse(UsageError(why));
    const std::uint32_t rank = answer->from.rank;
    if (answer->twice || rank == 0 || (m_came[rank] != 0 && m_all[rank].nonce != answer->from.nonce)) refuse(UsageError(two_of_one_rank(rank)));
    m_all[rank] = std::move(answer->from);
    m_inodes[rank] = found.inode;
    m_came[rank] = 1;
  }
}

/// Lets the others read what stands in FILE: they remove their answers then. After a refusal those that have not come yet may still come and hear it.
void FileHost::linger() {
  const Deadline until = m_timing.clock->after(linger_seconds);
  const auto waits = [](const MeetingFiles::Found& found) { return !found.unfinished; };
  const bool others_may_come = !m_board.refused.empty() && !missing().empty();
  const auto is_heard = [&] { return !others_may_come && std::ranges::none_of(m_files.answers(), waits); };
  while (m_timing.clock->now() < until.at && !m_stop.stop_requested() && !is_heard()) {
    if (others_may_come && m_timing.clock->now() - m_last_beat >= to_nanoseconds(beat_seconds / 2)) write_board();
    m_timing.waiter->sleep_until(m_timing.clock->now() + to_nanoseconds(poll_seconds));
  }
}

void FileHost::refuse(const Error& error) {
  m_board.refused = refusal_of(error);
  write_board();
  linger();
  throw_refusal(m_board.refused);
}

Roster FileHost::run() {
  claim();
  for (;;) {
    take_answers();
    const std::vector<std::uint32_t> absent = missing();
    if (absent.empty()) break;
    if (m_timing.clock->now() >= m_deadline.at) {
      refuse(Error(fmt::format("{}: nothing of them at {}; see what they say, and that all see one file there",
                               not_come(absent, m_meeting.world, m_meeting.timeout_seconds), printable(m_files.file().native()))));
    }
    beat_when_due();
    pause();
  }
  if (const std::string why = unreachable(m_all); !why.empty()) refuse(UsageError(why));
  Roster roster{{}, m_meeting.key ? *m_meeting.key : make_key()};
  for (const Introduction& one : m_all) {
    roster.addresses.push_back(one.address);
    m_board.members.push_back({one.nonce, one.address});
  }
  if (!m_meeting.key) m_board.key = roster.key;
  m_board.missing.clear();
  write_board();
  linger();
  if (m_stop.stop_requested()) throw Interrupted();
  return roster;
}

}  // namespace

Roster meet_at_file_as_rank_zero(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  return FileHost(file, meeting, timing, stop).run();
}

}  // namespace dsanalyze
