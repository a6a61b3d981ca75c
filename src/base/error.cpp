#include "dsanalyze/base/error.hpp"

#include <fmt/format.h>

#include <system_error>

namespace dsanalyze {

Error Error::with_context(std::string_view context) const { return {m_kind, fmt::format("while {}: {}", context, what())}; }

std::string describe_errno(int error_number) { return std::generic_category().message(error_number); }

void throw_errno(std::string_view what, std::string_view path, int error_number) {
  throw Error(fmt::format("{} {}: {}", what, path, describe_errno(error_number)));
}

}  // namespace dsanalyze
