#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace dsanalyze {

/// An instant of the wall clock in UTC as ISO 8601 writes it, to the second: "2026-11-20T21:05:33Z". Years 0 to 9999; others are held to that range.
std::string utc_text(std::chrono::system_clock::time_point instant);
/// The instant that such a text names; nullopt where it has not that form, or no such date or time of day exists. A leap second is the one after it.
std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text);

}  // namespace dsanalyze
