#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "client.hpp"

namespace dsanalyze::client {

// What every call of dsanalyze.h does.

/// The words of the calling thread's last failure; taken without allocating. Never nullptr.
const char* last_error() noexcept;
/// Cut off, at a whole character, where it is longer than a thread keeps.
void set_last_error(std::string_view text) noexcept;

// Structs that begin with their size and grow at their end, in steps of 8 bytes.

constexpr std::uint32_t most_struct_bytes = 4096;

template <typename Struct>
bool sound_size(const Struct& given) {
  static_assert(offsetof(Struct, struct_size) == 0 && sizeof(Struct) % 8 == 0 && sizeof(Struct) <= most_struct_bytes);
  return given.struct_size >= 8 && given.struct_size % 8 == 0 && given.struct_size <= most_struct_bytes;
}

/// What the caller's struct has, over the defaults in `read`. False when its size is none that such a struct has, or it has more than zeros where
/// this library knows no member.
template <typename Struct>
bool read_struct(const Struct& given, Struct& read) {
  if (!sound_size(given)) return false;
  const auto* const bytes = static_cast<const std::byte*>(static_cast<const void*>(&given));
  std::memcpy(&read, bytes, std::min<std::size_t>(given.struct_size, sizeof(Struct)));
  if (given.struct_size <= sizeof(Struct)) return true;
  return std::ranges::all_of(std::span(bytes, given.struct_size).subspan(sizeof(Struct)), [](std::byte byte) { return byte == std::byte{0}; });
}

/// As much of `full` as the caller's struct has room for; zeros in what this library does not know. Its size stays.
template <typename Struct>
void write_struct(const Struct& full, Struct& given) {
  const std::uint32_t size = given.struct_size;
  auto* const bytes = static_cast<std::byte*>(static_cast<void*>(&given));
  std::memcpy(bytes, &full, std::min<std::size_t>(size, sizeof(Struct)));
  if (size > sizeof(Struct)) std::memset(bytes + sizeof(Struct), 0, size - sizeof(Struct));
  given.struct_size = size;
}

/// A thread that is cancelled in a call would unwind through what must not throw: it is cancelled when the call has returned.
class NotCancelled {
 public:
  NotCancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &m_before); }
  ~NotCancelled() { ::pthread_setcancelstate(m_before, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int m_before = PTHREAD_CANCEL_ENABLE;
};

inline dsa_status told(dsa_status status, std::string_view text) noexcept {
  if (status != DSA_OK) set_last_error(text);
  return status;
}

/// Where every call's exceptions end. `body` returns an Answer.
template <typename Body>
dsa_status call(const Body& body) noexcept {
  const NotCancelled not_cancelled;
  try {
    const Answer answer = body();
    return told(answer.status, answer.text);
  } catch (const Interrupted&) {
    return told(DSA_END, "the loader was closed while its dataset was opened");
  } catch (const EpochsOverError& error) {
    return told(DSA_END, error.what());
  } catch (const RefusedError& error) {
    return told(DSA_REFUSED, error.what());
  } catch (const NoGroupError& error) {
    return told(DSA_NO_GROUP, error.what());
  } catch (const LostGroupError& error) {
    return told(DSA_LOST, error.what());
  } catch (const UsageError& error) {
    return told(DSA_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return told(DSA_NO_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return told(says_no_memory(error) ? DSA_NO_MEMORY : DSA_FAILED, error.what());
  } catch (...) {
    return told(DSA_FAILED, "the library failed without saying why");
  }
}

inline Answer invalid(const char* function, std::string_view why) { return {DSA_INVALID, fmt::format("{}: {}", function, why)}; }

inline Deadline deadline_of(std::int32_t timeout_ms, Timing timing) {
  constexpr Nanoseconds nanoseconds_per_millisecond = 1'000'000;
  const std::int64_t wait = timeout_ms < 0 ? DSA_DEFAULT_TIMEOUT_MS : timeout_ms;
  return {timing.clock->now() + wait * nanoseconds_per_millisecond};
}

/// What a client or a loader has agreed on, as much of it as the caller knows.
template <typename Of>
Answer give_terms(const char* function, const Of& of, dsa_terms* terms) {
  if (terms == nullptr || !sound_size(*terms)) return invalid(function, "no terms, or their struct_size is none that they have");
  dsa_terms full = DSA_TERMS_INIT;
  of.describe(full);
  write_struct(full, *terms);
  return {};
}

/// The next batch of a client or a loader; `batch` is written only with DSA_OK.
template <typename Of>
Answer give_batch(const char* function, Of& of, dsa_batch* batch, Deadline deadline) {
  if (batch == nullptr || !sound_size(*batch)) return invalid(function, "no batch, or its struct_size is none that it has");
  dsa_batch full = DSA_BATCH_INIT;
  Answer answer = of.next(full, deadline);
  if (answer.status == DSA_OK) write_struct(full, *batch);
  return answer;
}

}  // namespace dsanalyze::client
