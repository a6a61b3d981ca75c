#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "client.hpp"

namespace dsanalyze::client {

// Which handles are clients. A handle is a number that is never given out twice, so a detached or invented one is known without being looked into;
// and a child of fork() has numbers of its own, so it knows its parent's without a lock that may have been held. Threads: any.

/// Throws std::bad_alloc.
dsa_client* enlist(std::shared_ptr<Client> client);

struct Found {
  enum class Kind { client, none, parents };
  Kind kind = Kind::none;
  std::shared_ptr<Client> client{};  ///< of this process
};
Found find(const dsa_client* handle);
/// Takes it off the list: it is gone when its last call has returned. For a parent's, as `find()` says; the child's copy is let go of.
Found strike_off(const dsa_client* handle);

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

}  // namespace dsanalyze::client
