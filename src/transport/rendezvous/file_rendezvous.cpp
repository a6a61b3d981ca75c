#include "file_rendezvous.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "core/partition/peers.hpp"
#include "private_file.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view board_magic = "dsanalyze-rendezvous 1";
constexpr std::string_view answer_magic = "dsanalyze-answer 1";
constexpr Bytes most_board = Bytes{most_ranks} * 320 + 8192;
constexpr std::string_view unfinished_suffix = ".new";

/// "member RANK NONCE ADDRESS"; ranks in their order.
bool take_member(std::string_view value, MeetingBoard& board) {
  const std::size_t first = value.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : value.find(' ', first + 1);
  if (second == std::string_view::npos || whole_number(value.substr(0, first), most_ranks) != board.members.size()) return false;
  const std::string_view nonce = value.substr(first + 1, second - first - 1);
  const std::string_view address = value.substr(second + 1);
  if (!is_nonce(nonce) || address.empty() || address.size() > most_address || address.find(' ') != std::string_view::npos) return false;
  board.members.push_back({std::string(nonce), std::string(address)});
  return true;
}

bool take_board_line(std::string_view line, MeetingBoard& board) {
  if (const auto value = value_of(line, "run"); value && is_nonce(*value)) return board.run = *value, true;
  if (const auto value = value_of(line, "missing"); value) return board.missing = printable(*value), true;
  if (const auto value = value_of(line, "refused"); value) return board.refused = printable(*value), true;
  if (const auto value = value_of(line, "key"); value) return board.key = key_from_hex(*value), board.key.has_value();
  if (const auto value = value_of(line, "member"); value) return take_member(*value, board);
  if (const auto value = value_of(line, "world"); value) {
    board.world = static_cast<std::uint32_t>(whole_number(*value, most_ranks).value_or(0));
    return true;
  }
  if (const auto value = value_of(line, "beat"); value) {
    board.beat = whole_number(*value, UINT64_MAX).value_or(0);
    return true;
  }
  return false;
}

bool begins(std::string_view text, std::string_view magic) {
  const std::size_t common = std::min(text.size(), magic.size());
  return text.substr(0, common) == magic.substr(0, common);
}

}  // namespace

SecretText to_text(const MeetingBoard& board) {
  SecretText text;
  text.append(fmt::format("{}\nrun {}\nworld {}\nbeat {}\n", board_magic, board.run, board.world, board.beat));
  if (!board.missing.empty()) text.append(fmt::format("missing {}\n", board.missing));
  if (!board.refused.empty()) text.append(fmt::format("refused {}\n", board.refused));
  if (board.key) {
    text.append("key ");
    text.append_hex(*board.key);
    text.append("\n");
  }
  for (std::size_t rank = 0; rank < board.members.size(); ++rank) {
    text.append(fmt::format("member {} {} {}\n", rank, board.members[rank].nonce, board.members[rank].address));
  }
  text.append("end\n");
  return text;
}

std::optional<MeetingBoard> parse_board(std::string_view text) {
  if (take_line(text) != board_magic) return std::nullopt;
  MeetingBoard board;
  while (const auto line = take_line(text)) {
    if (*line == "end") {
      const bool whole = text.empty() && !board.run.empty() && board.world > 0 && (board.members.empty() || board.members.size() == board.world);
      return whole ? std::optional(board) : std::nullopt;
    }
    if (!take_board_line(*line, board)) return std::nullopt;
  }
  return std::nullopt;
}

bool begins_as_board(std::string_view text) { return begins(text, board_magic.substr(0, board_magic.find(' ') + 1)); }

std::string to_text(const MeetingAnswer& answer) {
  return fmt::format("{}\nrun {}\n{}{}", answer_magic, answer.run, answer.twice ? "twice\n" : "", to_text(answer.from));
}

std::optional<MeetingAnswer> parse_answer(std::string_view text) {
  if (take_line(text) != answer_magic) return std::nullopt;
  MeetingAnswer answer;
  const auto run = take_line(text);
  const auto value = run ? value_of(*run, "run") : std::nullopt;
  if (!value || !is_nonce(*value)) return std::nullopt;
  answer.run = *value;
  if (text.starts_with("twice\n")) {
    answer.twice = true;
    take_line(text);
  }
  auto from = parse_introduction(text);
  if (!from) return std::nullopt;
  answer.from = std::move(*from);
  return answer;
}

bool begins_as_answer(std::string_view text) { return begins(text, answer_magic.substr(0, answer_magic.find(' ') + 1)); }

std::filesystem::path MeetingFiles::answer_of(std::uint32_t rank) const { return m_file.native() + fmt::format(".{}", rank); }

std::optional<SecretText> MeetingFiles::read(const std::filesystem::path& path) {
  const FileDescriptor file = open_private_file(path, Links::refused, Owners::this_user, "the rendezvous file", "use another name, or remove it");
  return file.valid() ? std::optional(read_open_file(file, path, most_board)) : std::nullopt;
}

std::vector<MeetingFiles::Found> MeetingFiles::answers() const {
  const std::filesystem::path folder = m_file.has_parent_path() ? m_file.parent_path() : ".";
  const std::string prefix = m_file.filename().native() + ".";
  std::vector<Found> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return found;
  while (const dirent* entry = ::readdir(entries.get())) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    Found one{0, entry->d_ino, name.ends_with(unfinished_suffix)};
    if (one.unfinished) name.remove_suffix(unfinished_suffix.size());
    const auto rank = whole_number(name, most_ranks - 1);
    if (!rank || fmt::format("{}", *rank) != name) continue;
    one.rank = static_cast<std::uint32_t>(*rank);
    found.push_back(one);
  }
  return found;
}

void MeetingFiles::remove_answers() const noexcept {
  try {
    for (const Found& one : answers()) {
      const std::filesystem::path path = answer_of(one.rank).native() + (one.unfinished ? std::string(unfinished_suffix) : "");
      const auto text = read(path);
      if (text && begins_as_answer(text->view())) ::unlink(path.c_str());
    }
    const std::filesystem::path next = m_file.native() + std::string(unfinished_suffix);
    const auto text = read(next);
    if (text && begins_as_board(text->view())) ::unlink(next.c_str());
  } catch (const std::exception&) {
    return;  // not ours, or the system refuses: it stays, and is not believed by the next run
  }
}

}  // namespace dsanalyze
