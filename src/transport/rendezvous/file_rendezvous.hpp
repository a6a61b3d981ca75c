#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "introduction.hpp"
#include "rendezvous.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {

// Meeting at a file that all ranks see, without locks. FILE is rank 0's: it names the run, a random number, and counts up while rank 0 waits. Each
// other rank answers with a file of its own, FILE.RANK, that names this run and itself; rank 0 then writes the list of all into FILE. So an old FILE
// is believed by no rank, for its list names other processes, and an old FILE.RANK neither, for it names another run. Who has read the list removes
// its answer; once all have, or after linger_seconds, rank 0 removes what is left. An old FILE is one that does not count up for stale_seconds. A
// file is replaced by renaming FILE.new.

constexpr double linger_seconds = 2;
/// Longer than rank 0 a rank waits that it has heard: rank 0 knows who lacks, and says so.
constexpr double grace_seconds = 5;
constexpr double stale_seconds = 3;
constexpr double beat_seconds = 0.5;
constexpr double poll_seconds = 0.02;

/// What stands in FILE.
struct MeetingBoard {
  struct Member {
    std::string nonce;
    std::string address;
  };
  std::string run;
  std::uint32_t world = 0;
  std::uint64_t beat = 0;
  std::string missing;           ///< who has not come yet, for messages
  std::optional<SecretKey> key;  ///< that rank 0 made, once all have come
  std::string refused;           ///< why the ranks do not work together
  std::vector<Member> members;   ///< by rank, once all have come
};

SecretText to_text(const MeetingBoard& board);
/// nullopt for any other text, and for one whose end is missing.
std::optional<MeetingBoard> parse_board(std::string_view text);
/// Whether the text is, or was about to become, a board: a file with another text is somebody's.
bool begins_as_board(std::string_view text);

/// What stands in FILE.RANK.
struct MeetingAnswer {
  std::string run;
  bool twice = false;  ///< another process had answered as the same rank
  Introduction from;
};
std::string to_text(const MeetingAnswer& answer);
std::optional<MeetingAnswer> parse_answer(std::string_view text);
bool begins_as_answer(std::string_view text);

/// FILE and its answers.
class MeetingFiles {
 public:
  explicit MeetingFiles(std::filesystem::path file) : m_file(std::move(file)) {}

  [[nodiscard]] const std::filesystem::path& file() const { return m_file; }
  [[nodiscard]] std::filesystem::path answer_of(std::uint32_t rank) const;
  /// What stands there; nullopt where there is none. Throws UsageError for files that are not this user's alone.
  static std::optional<SecretText> read(const std::filesystem::path& path);

  struct Found {
    std::uint32_t rank = 0;
    std::uint64_t inode = 0;
    bool unfinished = false;  ///< FILE.RANK.new
  };
  /// The answers in the folder, of whatever run.
  [[nodiscard]] std::vector<Found> answers() const;
  /// Removes them all, and FILE.new. Never throws.
  void remove_answers() const noexcept;

 private:
  std::filesystem::path m_file;
};

Roster meet_at_file_as_rank_zero(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop);
Roster meet_at_file_as_member(const std::filesystem::path& file, const Meeting& meeting, Timing timing, const std::stop_token& stop);

}  // namespace dsanalyze
