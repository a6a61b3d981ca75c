#include "introduction.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/text/text.hpp"
#include "core/partition/peers.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view magic = "dsanalyze-rank";
constexpr std::size_t nonce_bytes = 16;
constexpr std::size_t most_named = 8;
constexpr std::string_view usage_mark = "usage: ";

/// No control characters, so that a text is one line whatever is in it.
bool is_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_word(std::string_view text) { return !text.empty() && is_line(text) && text.find(' ') == std::string_view::npos; }

/// "host:port", IPv6 hosts in brackets.
bool is_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  return text.size() <= most_address && is_word(text) && colon != std::string_view::npos && colon > 0 &&
         whole_number(text.substr(colon + 1), 65535).value_or(0) > 0;
}

bool is_agreed(const std::vector<AgreedValue>& agreed) {
  std::size_t bytes = 0;
  for (const AgreedValue& value : agreed) bytes += value.name.size() + value.value.size() + 9;
  return bytes <= most_agreed && std::ranges::all_of(agreed, [](const AgreedValue& value) {
           return !value.name.empty() && is_line(value.name) && is_line(value.value) && value.name.find('=') == std::string::npos;
         });
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  std::string text = printable(name.data());
  std::ranges::replace(text, ' ', '_');
  return text.empty() ? "unknown" : text.substr(0, most_address);
}

bool is_loopback_address(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]:");
}

/// Takes one line into `introduction`; false when it is not one that to_text() writes.
bool take(std::string_view line, Introduction& introduction) {
  const auto number = [&](std::string_view name, std::uint32_t& field, std::uint64_t most) {
    const auto value = value_of(line, name);
    const auto read = value ? whole_number(*value, most) : std::nullopt;
    if (read) field = static_cast<std::uint32_t>(*read);
    return read.has_value();
  };
  if (number("rank", introduction.rank, most_ranks - 1) || number("world", introduction.world, most_ranks)) return true;
  if (const auto value = value_of(line, "address"); value && is_address(*value)) return introduction.address = *value, true;
  if (const auto value = value_of(line, "host"); value && is_word(*value) && value->size() <= most_address) return introduction.host = *value, true;
  if (const auto value = value_of(line, "nonce"); value && is_nonce(*value)) return introduction.nonce = *value, true;
  if (const auto value = value_of(line, "proof"); value && is_hex(*value) && value->size() == 64) return introduction.proof = *value, true;
  if (const auto value = value_of(line, "agreed"); value) {
    const std::size_t equals = value->find('=');
    if (equals == std::string_view::npos) return false;
    introduction.agreed.push_back({std::string(value->substr(0, equals)), std::string(value->substr(equals + 1))});
    return true;
  }
  return false;
}

}  // namespace

std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') return std::nullopt;
  return line.substr(name.size() + 1);
}

std::optional<std::uint64_t> whole_number(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

bool is_nonce(std::string_view text) { return text.size() == 2 * nonce_bytes && is_hex(text); }

Introduction introduce(const Meeting& meeting) {
  if (meeting.world < 1 || meeting.world > most_ranks || meeting.rank >= meeting.world) {
    throw UsageError(
        fmt::format("rank {} of {} cannot be: a job has 1 to {} ranks, and they are counted from 0", meeting.rank, meeting.world, most_ranks));
  }
  if (!is_address(meeting.address)) {
    throw UsageError(fmt::format("\"{}\" is no address at which a rank listens, expected HOST:PORT", printable(meeting.address)));
  }
  if (!is_agreed(meeting.agreed))
    throw Error(fmt::format("what ranks must agree on is longer than {} bytes or has control characters in it", most_agreed));
  Introduction own{rank_protocol, meeting.rank, meeting.world, meeting.address, host_name(), random_hex(nonce_bytes), "", meeting.agreed};
  if (meeting.key) own.proof = proof_of(*meeting.key, own.nonce, own.rank);
  return own;
}

std::string to_text(const Introduction& introduction) {
  std::string text = fmt::format("{} {}\nrank {}\nworld {}\naddress {}\nhost {}\nnonce {}\n", magic, introduction.protocol, introduction.rank,
                                 introduction.world, introduction.address, introduction.host, introduction.nonce);
  if (!introduction.proof.empty()) text += fmt::format("proof {}\n", introduction.proof);
  for (const AgreedValue& value : introduction.agreed) text += fmt::format("agreed {}={}\n", value.name, value.value);
  return text + "end\n";
}

std::optional<Introduction> parse_introduction(std::string_view text) {
  if (text.size() > most_introduction) return std::nullopt;
  const auto first = take_line(text);
  const auto version = first ? value_of(*first, magic) : std::nullopt;
  const auto protocol = version ? whole_number(*version, UINT32_MAX) : std::nullopt;
  if (!protocol) return std::nullopt;
  Introduction introduction;
  introduction.protocol = static_cast<std::uint32_t>(*protocol);
  if (introduction.protocol != rank_protocol) return introduction;
  while (const auto line = take_line(text)) {
    if (*line == "end") {
      const bool whole = text.empty() && introduction.rank < introduction.world && !introduction.address.empty() && !introduction.host.empty() &&
                         !introduction.nonce.empty() && is_agreed(introduction.agreed);
      return whole ? std::optional(introduction) : std::nullopt;
    }
    if (!take(*line, introduction)) return std::nullopt;
  }
  return std::nullopt;
}

std::string proof_of(const SecretKey& key, std::string_view nonce, std::uint32_t rank) {
  return proof_hex(key.bytes(), fmt::format("dsanalyze meeting {} {} {}", rank_protocol, nonce, rank));
}

std::string contradiction(const Introduction& zero, const Introduction& other, const std::optional<SecretKey>& key) {
  if (other.protocol != zero.protocol) {
    return fmt::format("ranks run different versions of dsanalyze: rank 0 speaks protocol {}, another rank {}; use one program for all ranks",
                       zero.protocol, other.protocol);
  }
  if (other.world != zero.world) {
    return fmt::format("rank 0 was told that the job has {} ranks, rank {} that it has {}; start all with one --world", zero.world, other.rank,
                       other.world);
  }
  if (key && other.proof.empty())
    return fmt::format("rank 0 was given a key and rank {} was not; pass --key-file with the same key to all ranks", other.rank);
  if (!key && !other.proof.empty())
    return fmt::format("rank {} was given a key and rank 0 was not; pass --key-file with the same key to all ranks", other.rank);
  if (key && !same_secret(other.proof, proof_of(*key, other.nonce, other.rank))) {
    return fmt::format("rank {} has another key than rank 0; pass --key-file with the same key to all ranks", other.rank);
  }
  for (std::size_t i = 0; i < std::max(zero.agreed.size(), other.agreed.size()); ++i) {
    const AgreedValue none{"nothing", ""};
    const AgreedValue& ours = i < zero.agreed.size() ? zero.agreed[i] : none;
    const AgreedValue& theirs = i < other.agreed.size() ? other.agreed[i] : none;
    if (ours == theirs) continue;
    if (ours.name == theirs.name) {
      return fmt::format("{} differs between ranks: rank 0 has {}, rank {} has {}; start all ranks with the same command line on the same dataset",
                         printable(ours.name), printable(ours.value), other.rank, printable(theirs.value));
    }
    return fmt::format("rank 0 speaks of {} {}, rank {} of {} {}; start all ranks with the same command line", printable(ours.name),
                       printable(ours.value), other.rank, printable(theirs.name), printable(theirs.value));
  }
  return "";
}

std::string unreachable(std::span<const Introduction> all) {
  std::map<std::string_view, std::uint32_t> at;
  for (const Introduction& one : all) {
    if (const auto [there, added] = at.emplace(one.address, one.rank); !added && all[there->second].host == one.host) {
      return fmt::format("ranks {} and {} say that they listen at one address, {}; give each its own with --listen", there->second, one.rank,
                         printable(one.address));
    }
    if (one.host != all.front().host && (is_loopback_address(one.address) || is_loopback_address(all.front().address))) {
      const Introduction& local = is_loopback_address(one.address) ? one : all.front();
      return fmt::format(
          "the ranks run on several machines ({} and {}), and rank {} listens at {}, which only its own machine reaches; "
          "pass --listen ADDRESS (an address or a network such as 10.0.0.0/24 of the machines) and --key-file to all ranks",
          printable(all.front().host), printable(one.host), local.rank, printable(local.address));
    }
  }
  return "";
}

std::string rank_names(std::span<const std::uint32_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = ranks.size() <= most_named ? ranks.size() : most_named - 1;
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i]);
  }
  return named < ranks.size() ? text + fmt::format(" and {} others", ranks.size() - named) : text;
}

std::string two_of_one_rank(std::uint32_t rank) {
  return fmt::format("two processes say that they are rank {}; give each a --rank of its own, and each job a rendezvous of its own", rank);
}

std::string not_come(std::span<const std::uint32_t> missing, std::uint32_t world, double seconds) {
  return fmt::format("{} of {} did not come within {:g} s", rank_names(missing), world, seconds);
}

std::string refusal_of(const Error& error) {
  return (error.kind() == ErrorKind::usage ? std::string(usage_mark) : "failed: ") + printable(error.what());
}

void throw_refusal(std::string_view refusal) {
  const std::size_t colon = refusal.find(": ");
  const std::string text = printable(colon == std::string_view::npos ? refusal : refusal.substr(colon + 2));
  if (refusal.starts_with(usage_mark)) throw UsageError(text);
  throw Error(text);
}

}  // namespace dsanalyze
