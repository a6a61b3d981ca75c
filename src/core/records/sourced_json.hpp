#pragma once

#include <string>
#include <string_view>

#include "base/text/json_reader.hpp"
#include "core/workload.hpp"

namespace dsanalyze {

// Rates above these are typing mistakes: no device makes or takes a billion samples, or a petabyte, a second.
constexpr double most_samples_per_s = 1e9;
constexpr double most_bytes_per_s = 1e15;

// Pieces that the readers of configs share: numbers with their provenance, names.

enum class Zero { allowed, refused };

constexpr double most_bytes = 1e18;

/// {"value": 688, "provenance": "derived", "source": "..."}; the caller may have read further keys of the object.
SourcedNumber read_sourced(JsonObject number, double low, double high, Zero zero);
/// The member `key`, above 0.
SourcedNumber read_rate(JsonObject& parent, std::string_view key, double high);
/// The member `key`, a whole number.
SourcedNumber read_whole(JsonObject& parent, std::string_view key, double low, double high);
/// "name" of lower-case letters, digits, '-' and '.'.
std::string read_name(JsonObject& root);

}  // namespace dsanalyze
