#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "fuzz.hpp"
#include "transport/rendezvous/file_rendezvous.hpp"
#include "transport/rendezvous/introduction.hpp"
#include "transport/rendezvous/sealed_line.hpp"

namespace dsanalyze::fuzz {
namespace {

bool is_one_line(std::string_view text) {
  return text.find_first_of("\n\r\x1b") == std::string_view::npos && text.find('\0') == std::string_view::npos;
}

template <typename Read>
std::string text_of(const Read& read) {
  return to_text(read);
}
std::string text_of(const MeetingBoard& board) { return std::string(to_text(board).view()); }

/// What was read is written and read again as it is.
template <typename Parse>
void write_again(std::string_view text, const Parse& parse) {
  const auto read = parse(text);
  if (!read) return;
  const std::string written = text_of(*read);
  const auto again = parse(written);
  require(again.has_value() && text_of(*again) == written, "what was read is written so that it can be read again");
}

void read_introduction(std::string_view text) {
  const auto one = parse_introduction(text);
  if (!one || one->protocol != rank_protocol) return;
  require(one->rank < one->world && one->address.size() <= most_address && is_one_line(one->address) && is_one_line(one->host),
          "a rank of its world, with an address");
  require(one->proof.empty() || one->proof.size() == 64, "a proof is whole or none");
  for (const AgreedValue& value : one->agreed) require(is_one_line(value.name) && is_one_line(value.value), "what is agreed on is one line");
  const std::string told = contradiction(*one, *one, {});
  require(told.empty() == one->proof.empty(), "a rank contradicts itself only by a proof without a key");
  write_again(text, parse_introduction);
}

void read_board(std::string_view text) {
  const auto board = parse_board(text);
  if (!board) return;
  require(board->world > 0 && (board->members.empty() || board->members.size() == board->world), "all ranks or none");
  require(is_one_line(board->refused) && is_one_line(board->missing), "texts of others move no cursor");
  require(begins_as_board(text), "what is a board begins as one");
  write_again(text, parse_board);
}

void read_frames(std::string_view text) {
  constexpr std::size_t most = 256;
  Greeting greeting;
  greeting.protocol = rank_protocol;
  SealedLine line(End::listens, JobKey{}, greeting, greeting);
  std::string bytes(text);
  SecretText opened;
  while (line.open(bytes, most, opened) == SealedLine::Opened::yes) require(opened.view().size() <= most, "a frame is no longer than allowed");
  SealedLine from(End::dials, JobKey{}, greeting, greeting);
  SealedLine to(End::listens, JobKey{}, greeting, greeting);
  std::string sealed = from.seal(text);
  require(to.open(sealed, text.size(), opened) == SealedLine::Opened::yes && opened.view() == text && sealed.empty(), "what is sealed is opened");
}

/// What a launcher exchanged for two ranks.
void read_record(std::string_view text) {
  std::vector<std::byte> all(2 * exchanged_bytes);
  std::memcpy(all.data(), text.data(), std::min(text.size(), all.size()));
  Meeting meeting;
  meeting.world = 2;
  try {
    require(roster_of_exchange(all, meeting).addresses.size() == 2, "a roster is whole");
  } catch (const Error&) {
    require(all == std::vector<std::byte>(all.size()), "what is refused is wiped, too");
  }
}

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_introduction(text);
  read_board(text);
  if (const auto answer = dsanalyze::parse_answer(text)) require(dsanalyze::begins_as_answer(text), "what is an answer begins as one");
  write_again(text, dsanalyze::parse_answer);
  if (const auto greeting = dsanalyze::parse_greeting(text); greeting && greeting->protocol == dsanalyze::rank_protocol) {
    const auto again = dsanalyze::parse_greeting(to_bytes(*greeting));
    require(again && again->nonce == greeting->nonce && again->keyed == greeting->keyed, "a greeting is read as it was written");
  }
  read_frames(text);
  read_record(text);
  return 0;
}
