#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/units.hpp"
#include "core/workload.hpp"

namespace dsanalyze {

/// A price as it is listed, and what it comes to in an hour: a monthly price over the list's hours a month, a price paid once over its hours of use.
struct ListedPrice {
  enum class Per { hour, month, lifetime };
  SourcedNumber listed;
  Per per = Per::hour;
  double per_hour = 0;  ///< in the list's currency
};

constexpr std::array<const char*, 3> names_of(ListedPrice::Per /*type*/) { return {"hour", "month", "lifetime"}; }

/// One kind of accelerator.
struct AcceleratorPrice {
  ListedPrice price;             ///< of one
  SourcedNumber relative_speed;  ///< against the list's other kinds: only ratios of two kinds are used
  int most = 1;                  ///< in one server
};

/// Storage that is paid by size, by bandwidth, or both. It holds the whole dataset.
struct StoragePrice {
  std::optional<SourcedNumber> least_gb;                     ///< the smallest that is sold
  ListedPrice price_per_gb;                                  ///< of 1e9 bytes
  std::optional<ListedPrice> price_per_mb_per_s;             ///< of 1e6 bytes/s above what is included; without it, what is included is all there is
  std::optional<SourcedNumber> included_bytes_per_s;         ///< with any size
  std::optional<SourcedNumber> included_bytes_per_s_per_gb;  ///< grows with the size
  SourcedNumber most_bytes_per_s;
  SourcedNumber request_latency_seconds;  ///< a request's fixed cost before its transfer
  int queue_depth = 32;                   ///< requests whose fixed costs overlap

  /// The size that is paid for, to hold so much.
  [[nodiscard]] double sold_gigabytes(double gigabytes) const;
  /// What comes with a volume that holds so much, bytes/s.
  [[nodiscard]] double included_rate(double gigabytes) const;
};

/// What a server's parts cost: configs/prices/NAME.json. One currency, one day; every figure has a source.
struct PriceList {
  std::string name;
  std::string description;
  std::string currency;                          ///< "USD"
  std::string date;                              ///< "2023-12-30": the youngest of its figures
  std::optional<SourcedNumber> hours_per_month;  ///< there if a price is per month
  std::optional<SourcedNumber> lifetime_hours;   ///< there if a price is paid once: hours of use that it is spread over

  struct ServerPrice {
    std::optional<ListedPrice> price;  ///< of a server with nothing in it
    Bytes memory_bytes = 0;            ///< that a server needs besides the cache
    int most = 1;                      ///< servers
  } server;
  struct CorePrice {
    ListedPrice price;
    int threads = 1;  ///< hardware threads that are sold as one core; a vCPU is usually one
    int least = 1;    ///< in one server
    int most = 1;
  } core;
  struct MemoryPrice {
    ListedPrice price_per_gib;
    Bytes most_bytes = 0;  ///< in one server
  } memory;
  std::map<std::string, AcceleratorPrice> accelerators;  ///< by kind, as in Workload::accelerator_rates
  std::map<std::string, StoragePrice> storage;           ///< by kind
  struct NetworkPrice {
    std::optional<ListedPrice> price;  ///< without: it comes with the server
    double bytes_per_s = 0;
  };
  std::optional<NetworkPrice> network;
};

/// Reader of configs/prices/NAME.json. Throws UsageError naming file, JSON pointer, what was found and what was expected; unknown keys, prices that
/// are not above 0, and a list without accelerators or without storage are errors.
PriceList parse_price_list(std::string_view text, const std::string& source);

}  // namespace dsanalyze
