#pragma once

#include <string_view>

namespace dsanalyze::client {

/// The words of the calling thread's last failure; taken without allocating. Never nullptr.
const char* last_error() noexcept;
/// Cut off, at a whole character, where it is longer than a thread keeps.
void set_last_error(std::string_view text) noexcept;

}  // namespace dsanalyze::client
