#pragma once

#include <memory>
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

}  // namespace dsanalyze::client
