#pragma once

#include <cstdint>
#include <string_view>

namespace dsanalyze {

enum class StatusCode : std::uint8_t {
  ok,
  busy,         ///< past a stated capacity; try again after some of it was given back
  not_found,    ///< the file or the item is gone
  corrupt,      ///< bytes that are not what they should be (short file, broken image)
  unsupported,  ///< well formed, but of a kind that is not handled
  timeout,      ///< the deadline passed
  end,          ///< nothing more will come
  cancelled,    ///< stopped on request
  io            ///< the system refused; errno in detail
};

/// The outcome of an operation on the data path: a value, never an exception.
struct [[nodiscard]] Status {
  StatusCode code = StatusCode::ok;
  int detail = 0;  ///< errno for io and not_found, a Corruption for corrupt, else 0

  [[nodiscard]] bool ok() const { return code == StatusCode::ok; }
};

/// What is known about corrupt bytes.
enum class Corruption : int {
  unknown = 0,
  shorter,  ///< the file ends before its sample does
  longer,   ///< the file has grown since its dataset's index was made
  empty,    ///< the sample has no bytes
  label     ///< the sample has no valid label
};
constexpr Status corrupt(Corruption what) { return {StatusCode::corrupt, static_cast<int>(what)}; }

/// "corrupt", "timeout", ...
std::string_view status_name(StatusCode code);

}  // namespace dsanalyze
