#include "dsanalyze/transport/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dsanalyze/base/error.hpp"
#include "file_rendezvous.hpp"
#include "introduction.hpp"
#include "meeting_place.hpp"
#include "socket_rendezvous.hpp"
#include "sodium.hpp"

namespace dsanalyze {

Roster meet(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop) {
  ready_sodium();
  if (place.empty() || place.find('\0') != std::string_view::npos) throw UsageError("--rendezvous needs a file or HOST:PORT");
  const bool zero = meeting.rank == 0;
  if (is_host_and_port(place)) {
    return zero ? meet_at_port_as_rank_zero(place, meeting, timing, stop) : meet_at_port_as_member(place, meeting, timing, stop);
  }
  return zero ? meet_at_file_as_rank_zero(place, meeting, timing, stop) : meet_at_file_as_member(place, meeting, timing, stop);
}

// A record of an exchange: the introduction's text, in rank 0's a line "key ..." before it, then zeros.

std::vector<std::byte> exchanged_record(const Meeting& meeting) {
  ready_sodium();
  std::string text = to_text(introduce(meeting));
  if (meeting.rank == 0 && !meeting.key) text = fmt::format("key {}\n{}", key_hex(make_key().bytes()), text);
  std::vector<std::byte> record(exchanged_bytes);
  std::memcpy(record.data(), text.data(), std::min(text.size(), record.size()));
  wipe(text);
  return record;
}

Roster roster_of_exchange(std::span<std::byte> all, const Meeting& meeting) {
  const std::size_t world = all.size() / exchanged_bytes;
  std::vector<Introduction> ranks;
  JobKey made{};
  for (std::size_t rank = 0; rank < world; ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all.data() + rank * exchanged_bytes);
    std::string_view text(begin, ::strnlen(begin, exchanged_bytes));
    if (rank == 0 && text.starts_with("key ")) key_from_hex(value_of(*take_line(text), "key").value_or(""), made);
    const auto one = parse_introduction(text);
    if (!one || (one->protocol == rank_protocol && one->rank != rank)) {
      throw Error(fmt::format(
          "what the launcher exchanged for rank {} is not what a rank says: it was started as another rank, or is another program", rank));
    }
    ranks.push_back(*one);
  }
  const SecretKey key = meeting.key ? *meeting.key : SecretKey(made);
  wipe(made);
  wipe(all);
  if (world != meeting.world) throw Error(fmt::format("the launcher exchanged what {} ranks say, and the job has {}", world, meeting.world));
  for (const Introduction& one : ranks) {
    if (const std::string why = contradiction(ranks.front(), one, meeting.key); !why.empty()) throw UsageError(why);
  }
  if (const std::string why = unreachable(ranks); !why.empty()) throw UsageError(why);
  Roster roster{{}, key};
  for (const Introduction& one : ranks) roster.addresses.push_back(one.address);
  return roster;
}

}  // namespace dsanalyze
