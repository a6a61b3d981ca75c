#include "search_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/enum_names.hpp"

namespace dsanalyze {

std::string reach_name(Reach reach) { return enum_name(reach); }

std::string setup_text(const SearchSetup& setup) {
  const std::string apart = setup.partition == PartitionMode::none ? "" : fmt::format(" ({})", partition_mode_name(setup.partition));
  const std::string servers = setup.servers > 1 ? fmt::format("{} servers{} of ", setup.servers, apart) : "";
  const std::string cache =
      setup.cache_bytes > 0 ? fmt::format("{} cached ({})", format_share(setup.cache_fraction), format_bytes(setup.cache_bytes)) : "no cache";
  return fmt::format("{}{} cores, {} {}, {}, {} at {}", servers, format_number(setup.cores), setup.accelerators, setup.accelerator, cache,
                     setup.storage, format_bytes_per_second(setup.storage_bytes_per_s));
}

std::string format_cost(double cost, const std::string& currency) {
  constexpr int digits = 3;
  const int whole = cost > 0 ? static_cast<int>(std::floor(std::log10(cost))) + 1 : 1;
  // Hundredths are what prices are read in; small costs need more, large ones fewer.
  const int decimals = whole > digits ? 0 : std::clamp(digits - whole, 2, 6);
  return fmt::format("{} {}", whole > digits ? format_number(std::round(cost)) : fmt::format("{:.{}f}", cost, decimals), currency);
}

}  // namespace dsanalyze
