#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "rendezvous.hpp"

namespace dsanalyze {

/// Of all that ranks say to one another before and after they have met. Ranks of different versions do not work together.
constexpr std::uint32_t rank_protocol = 2;

/// What a rank says of itself, the same in every kind of meeting.
struct Introduction {
  std::uint32_t protocol = rank_protocol;
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  std::string address;
  std::string host;   ///< the name of its machine
  std::string nonce;  ///< hexadecimal digits, new in every process
  std::string proof;  ///< of the key (proof_of()); empty without one
  std::vector<AgreedValue> agreed;
};

constexpr std::size_t most_introduction = 4000;  // bytes of its text
constexpr std::size_t most_agreed = 3200;
constexpr std::size_t most_address = 255;

/// Of this process. Throws Error when `meeting` cannot be (rank, world, texts).
Introduction introduce(const Meeting& meeting);

/// Lines "name value", the first "dsanalyze-rank VERSION", the last "end". The text may come from anybody: nothing is taken that to_text() would not
/// have written; of another version's only the version is read. nullopt: none, or one whose end is missing.
std::string to_text(const Introduction& introduction);
std::optional<Introduction> parse_introduction(std::string_view text);

/// What holds for all kinds of meetings.
std::string proof_of(const SecretKey& key, std::string_view nonce, std::uint32_t rank);

/// Why `other` and rank 0 cannot be ranks of one job; empty when they can. `key` is rank 0's, if it was given one.
std::string contradiction(const Introduction& zero, const Introduction& other, const std::optional<SecretKey>& key);
/// Of ranks that have all come: addresses that others cannot reach, two at one address.
std::string unreachable(std::span<const Introduction> all);

/// "rank 3", "ranks 2 and 5", "ranks 1, 2, 3 and 40 others".
std::string rank_names(std::span<const std::uint32_t> ranks);
std::string two_of_one_rank(std::uint32_t rank);
/// "ranks 2 and 5 of 8 did not come within 60 s"
std::string not_come(std::span<const std::uint32_t> missing, std::uint32_t world, double seconds);

/// An error as one line, for other ranks, and what they throw. Hostile texts too.
std::string refusal_of(const Error& error);
[[noreturn]] void throw_refusal(std::string_view refusal);

/// The next line of `text`, which is moved behind it; nullopt when no whole line is left.
std::optional<std::string_view> take_line(std::string_view& text);
/// The line's value when its first word is `name`; nullopt otherwise.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name);
std::optional<std::uint64_t> whole_number(std::string_view text, std::uint64_t most);
/// 32 hexadecimal digits, lower case.
bool is_nonce(std::string_view text);

}  // namespace dsanalyze
