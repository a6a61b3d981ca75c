#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "base/error.hpp"

// What tests ask of texts and messages.

namespace dsanalyze::testing {

/// Whether `part` stands in `text`.
inline bool says(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// `text` with the first `what` in it replaced `by` another; the test ends where there is none.
inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t place = text.find(what);
  REQUIRE(place != std::string::npos);
  return text.replace(place, what.size(), by);
}

/// The message of the `Failure` that `action` throws; "accepted" when it throws none.
template <typename Failure = UsageError, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "accepted";
}

}  // namespace dsanalyze::testing
