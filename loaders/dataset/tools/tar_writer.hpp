#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/text/units.hpp"

namespace dsanalyze {

// A tar archive as text that is appended to: ustar, with a pax header where a name or a size needs one. Owner, times and modes are the same for all
// members, so the same members give the same bytes.

/// Appends the header of a member and a pax header before it if needed. Its data and tar_padding() of them must follow.
void append_tar_header(std::string& out, std::string_view name, std::uint64_t bytes);
/// Zero bytes that fill the last block of so many bytes.
std::size_t tar_padding(std::uint64_t bytes);
/// Header, data and padding.
void append_tar_member(std::string& out, std::string_view name, std::span<const std::byte> data);
/// The archive's end.
void append_tar_end(std::string& out);
/// What append_tar_member() would append.
Bytes tar_member_bytes(std::string_view name, std::uint64_t bytes);

}  // namespace dsanalyze
