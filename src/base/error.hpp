#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dsanalyze {

/// What an error means to the caller of the program; each maps to one exit code (CLI: failed 1, usage 2, undecided 4, interrupted 130).
enum class ErrorKind { failed, usage, undecided, interrupted };
constexpr std::array<const char*, 4> names_of(ErrorKind /*type*/) { return {"failed", "usage", "undecided", "interrupted"}; }

/// An error off the data path. The message says what happened, to what, and what to do; where a caller knows more, it throws its own.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), m_kind(kind) {}
  explicit Error(const std::string& message) : Error(ErrorKind::failed, message) {}

  [[nodiscard]] ErrorKind kind() const { return m_kind; }

 private:
  ErrorKind m_kind;
};

/// A mistake in an option, an argument or a configuration file.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ErrorKind::usage, message) {}
};

/// There is not the memory that something takes.
class NoMemoryError : public Error {
 public:
  using Error::Error;
};

/// Whether it says that memory is short: NoMemoryError, std::bad_alloc.
bool says_no_memory(const std::exception& error);

/// The user asked to stop.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::interrupted, "interrupted") {}
};

/// "No such file or directory" for ENOENT. Threads: any.
std::string describe_errno(int error_number);
/// Throws Error: "<what> <path>: <describe_errno>"; NoMemoryError for ENOMEM.
[[noreturn]] void throw_errno(std::string_view what, std::string_view path, int error_number);
/// Throws why `threads` ("3 reading threads") could not be started, after starting one of them threw `cause`: NoMemoryError where there is no memory
/// for them, else Error. `remedy` says what to do about it.
[[noreturn]] void throw_no_thread(const std::exception& cause, std::string_view threads, std::string_view remedy);

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
constexpr std::array<const char*, 9> names_of(StatusCode /*type*/) {
  return {"ok", "busy", "not_found", "corrupt", "unsupported", "timeout", "end", "cancelled", "io"};
}

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
