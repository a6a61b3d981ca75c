#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "dsanalyze/transport/job_key.hpp"

namespace dsanalyze {

/// Makes libsodium ready; any number of times. Throws Error.
void ready_sodium();

/// Random bytes as hexadecimal digits, two a byte.
std::string random_hex(std::size_t bytes);

/// The keyed hash (BLAKE2b) of a text, as 64 hexadecimal digits: who can make it knows the key.
std::string proof_hex(const JobKey& key, std::string_view text);
/// Compares in constant time.
bool same_secret(std::string_view a, std::string_view b);

std::string key_hex(const JobKey& key);
/// False when it is not exactly 64 digits.
bool key_from_hex(std::string_view hex, JobKey& key);

void wipe(std::span<std::byte> bytes);
void wipe(std::string& text);

}  // namespace dsanalyze
