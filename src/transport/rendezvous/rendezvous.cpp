#include "rendezvous.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "file_rendezvous.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {

Roster meet(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  ready_sodium();
  if (place.empty() || place.find('\0') != std::string_view::npos) throw UsageError("--rendezvous needs a file or HOST:PORT");
  if (has_wrong_port(place))
    throw UsageError(
        fmt::format("--rendezvous {}: a port is a number from 1 to 65535; a file with such a name is ./{}", printable(place), printable(place)));
  const bool zero = meeting.rank == 0;
  if (is_host_and_port(place)) {
    return zero ? meet_at_port_as_rank_zero(place, meeting, timing, stop) : meet_at_port_as_member(place, meeting, timing, stop);
  }
  return zero ? meet_at_file_as_rank_zero(place, meeting, timing, stop) : meet_at_file_as_member(place, meeting, timing, stop);
}

// A record of an exchange: the introduction's text, in rank 0's a line "key ..." before it, then zeros.

namespace {

constexpr std::string_view key_word = "key ";
static_assert(key_word.size() + 2 * sizeof(JobKey) + 1 + most_introduction <= exchanged_bytes);

/// The key of the record's first line, which is taken off; nullopt where that is none, and nothing is taken then.
std::optional<SecretKey> take_key(std::string_view& record) {
  std::string_view rest = record;
  const auto line = take_line(rest);
  auto key = line && line->starts_with(key_word) ? key_from_hex(line->substr(key_word.size())) : std::nullopt;
  if (key) record = rest;
  return key;
}

}  // namespace

std::vector<std::byte> exchanged_record(const Meeting& meeting) {
  ready_sodium();
  SecretText text;
  if (meeting.rank == 0 && !meeting.key) {
    text.append(key_word);
    text.append_hex(make_key());
    text.append("\n");
  }
  text.append(to_text(introduce(meeting)));
  std::vector<std::byte> record(exchanged_bytes);
  std::memcpy(record.data(), text.view().data(), text.view().size());
  return record;
}

Roster roster_of_exchange(std::span<std::byte> all, const Meeting& meeting) {
  const WipedAtEnd wiped(all);
  const std::size_t world = all.size() / exchanged_bytes;
  std::vector<Introduction> ranks;
  std::optional<SecretKey> key = meeting.key;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all.data() + rank * exchanged_bytes);
    std::string_view text(begin, ::strnlen(begin, exchanged_bytes));
    const auto made = rank == 0 ? take_key(text) : std::nullopt;
    if (!key) key = made;
    const auto one = parse_introduction(text);
    if (!one || (one->protocol == rank_protocol && one->rank != rank)) {
      throw Error(fmt::format(
          "what the launcher exchanged for rank {} is not what a rank says: it was started as another rank, or is another program", rank));
    }
    ranks.push_back(*one);
  }
  if (world != meeting.world) throw Error(fmt::format("the launcher exchanged what {} ranks say, and the job has {}", world, meeting.world));
  for (const Introduction& one : ranks) {
    if (const std::string why = contradiction(ranks.front(), one, meeting.key); !why.empty()) throw UsageError(why);
  }
  if (const std::string why = unreachable(ranks); !why.empty()) throw UsageError(why);
  if (!key) throw Error("rank 0 gave no key through the launcher, which no rank 0 without --key-file omits; use one program for all ranks");
  Roster roster{{}, *key};
  for (const Introduction& one : ranks) roster.addresses.push_back(one.address);
  return roster;
}

}  // namespace dsanalyze
