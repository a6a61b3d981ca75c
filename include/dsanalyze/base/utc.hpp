#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace dsanalyze {

/// An instant of the wall clock in UTC as ISO 8601 writes it, to the second: "2026-11-20T21:05:33Z". Years 0 to 9999; others are held to that range.
std::string utc_text(std::chrono::system_clock::time_point instant);
/// Whether a text has that form, with a date and a time of day that exist.
bool is_utc_text(std::string_view text);

}  // namespace dsanalyze
