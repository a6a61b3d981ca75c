#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "core/device.hpp"
#include "price_list.hpp"
#include "sourced_json.hpp"

namespace dsanalyze {
namespace {

constexpr double most_price = 1e12;
constexpr double most_hours = 1e7;
constexpr double most_hours_of_a_month = 744;

/// How prices that are not per hour come to be so.
struct Conversion {
  std::optional<SourcedNumber> hours_per_month;
  std::optional<SourcedNumber> lifetime_hours;
};

// {"value": 0.17, "per": "month", "provenance": ..., "source": ...}
ListedPrice read_price(JsonObject object, const Conversion& conversion) {
  ListedPrice price;
  price.per = object.named<ListedPrice::Per>("per");
  price.listed = read_sourced(object, 0, most_price, Zero::refused);
  price.per_hour = price.listed.value;
  if (price.per == ListedPrice::Per::month) {
    if (!conversion.hours_per_month) object.fail("per", "found month, but the list has no hours_per_month to convert it with");
    price.per_hour /= conversion.hours_per_month->value;
  }
  if (price.per == ListedPrice::Per::lifetime) {
    if (!conversion.lifetime_hours) object.fail("per", "found lifetime, but the list has no lifetime_hours to convert it with");
    price.per_hour /= conversion.lifetime_hours->value;
  }
  return price;
}

std::optional<ListedPrice> read_optional_price(JsonObject& parent, std::string_view key, const Conversion& conversion) {
  if (auto object = parent.optional_object(key)) return read_price(*object, conversion);
  return std::nullopt;
}

std::optional<SourcedNumber> read_if_there(JsonObject& parent, std::string_view key, double low, double high) {
  if (auto object = parent.optional_object(key)) return read_sourced(*object, low, high, Zero::refused);
  return std::nullopt;
}

int read_count(JsonObject& parent, std::string_view key, double high) { return static_cast<int>(read_whole(parent, key, 1, high).value); }

std::string read_date(JsonObject& root) {
  std::string date = root.text("date");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  bool well_formed = date.size() == 10;
  for (std::size_t at = 0; well_formed && at < date.size(); ++at) well_formed = at == 4 || at == 7 ? date[at] == '-' : is_digit(date[at]);
  if (!well_formed) root.fail("date", fmt::format("found \"{}\", expected the day of the prices, for example 2023-12-30", date));
  return date;
}

std::string read_currency(JsonObject& root) {
  std::string currency = root.text("currency");
  if (currency.size() != 3 || !std::ranges::all_of(currency, [](char c) { return c >= 'A' && c <= 'Z'; }))
    root.fail("currency", fmt::format("found \"{}\", expected three capital letters, for example USD", currency));
  return currency;
}

PriceList::CorePrice read_core(JsonObject object, const Conversion& conversion) {
  PriceList::CorePrice core;
  core.price = read_price(object.object("price"), conversion);
  core.threads = read_count(object, "threads", 8);
  core.least = read_count(object, "least", 4096);
  core.most = read_count(object, "most", 4096);
  if (core.least > core.most) object.fail("least", fmt::format("found {}, expected at most \"most\" ({})", core.least, core.most));
  return core;
}

StoragePrice read_storage_price(JsonObject object, const Conversion& conversion) {
  StoragePrice storage;
  storage.least_gb = read_if_there(object, "least_gb", 0, most_bytes);
  storage.price_per_gb = read_price(object.object("price_per_gb"), conversion);
  storage.price_per_mb_per_s = read_optional_price(object, "price_per_mb_per_s", conversion);
  storage.included_bytes_per_s = read_if_there(object, "included_bytes_per_s", 0, most_bytes_per_s);
  storage.included_bytes_per_s_per_gb = read_if_there(object, "included_bytes_per_s_per_gb", 0, most_bytes_per_s);
  storage.most_bytes_per_s = read_rate(object, "most_bytes_per_s", most_bytes_per_s);
  storage.request_latency_seconds = read_sourced(object.object("request_latency_seconds"), 0, 60, Zero::allowed);
  storage.queue_depth = read_count(object, "queue_depth", StorageDeviceState::max_queue_depth);
  if (!storage.price_per_mb_per_s && !storage.included_bytes_per_s && !storage.included_bytes_per_s_per_gb)
    object.fail("", "found no bandwidth, expected included_bytes_per_s, included_bytes_per_s_per_gb or price_per_mb_per_s");
  if (storage.included_bytes_per_s && storage.included_bytes_per_s->value > storage.most_bytes_per_s.value)
    object.fail("included_bytes_per_s",
                fmt::format("found {}, expected at most most_bytes_per_s ({})", storage.included_bytes_per_s->value, storage.most_bytes_per_s.value));
  return storage;
}

PriceList::NetworkPrice read_network(JsonObject object, const Conversion& conversion) {
  return {read_optional_price(object, "price", conversion), read_rate(object, "bytes_per_s", most_bytes_per_s).value};
}

}  // namespace

double StoragePrice::sold_gigabytes(double gigabytes) const { return least_gb ? std::max(least_gb->value, gigabytes) : gigabytes; }

double StoragePrice::included_rate(double gigabytes) const {
  double rate = included_bytes_per_s ? included_bytes_per_s->value : 0;
  if (included_bytes_per_s_per_gb) rate = std::max(rate, included_bytes_per_s_per_gb->value * sold_gigabytes(gigabytes));
  return std::min(rate, most_bytes_per_s.value);
}

PriceList parse_price_list(std::string_view text, const std::string& source) {
  JsonObject root = parse_json_object(text, source);
  PriceList list;
  list.name = read_name(root);
  list.description = root.text("description");
  list.currency = read_currency(root);
  list.date = read_date(root);
  list.hours_per_month = read_if_there(root, "hours_per_month", 1, most_hours_of_a_month);
  list.lifetime_hours = read_if_there(root, "lifetime_hours", 1, most_hours);
  const Conversion conversion{list.hours_per_month, list.lifetime_hours};

  JsonObject server = root.object("server");
  list.server.price = read_optional_price(server, "price", conversion);
  list.server.memory_bytes = static_cast<Bytes>(read_whole(server, "memory_bytes", 1, most_bytes).value);
  list.server.most = read_count(server, "most", 4096);
  list.core = read_core(root.object("core"), conversion);

  JsonObject memory = root.object("memory");
  list.memory.price_per_gib = read_price(memory.object("price_per_gib"), conversion);
  list.memory.most_bytes = static_cast<Bytes>(read_whole(memory, "most_bytes", 1, most_bytes).value);
  if (list.memory.most_bytes < list.server.memory_bytes)
    memory.fail("most_bytes",
                fmt::format("found {}, expected at least the server's memory_bytes ({})", list.memory.most_bytes, list.server.memory_bytes));

  JsonObject accelerators = root.object("accelerators");
  for (const std::string& kind : accelerators.keys()) {
    JsonObject object = accelerators.object(kind);
    list.accelerators[kind] = {read_price(object.object("price"), conversion),
                               read_sourced(object.object("relative_speed"), 1e-6, 1e6, Zero::refused), read_count(object, "most", 1024)};
  }
  if (list.accelerators.empty()) root.fail("accelerators", "found none, expected at least one kind");

  JsonObject storage = root.object("storage");
  for (const std::string& kind : storage.keys()) list.storage[kind] = read_storage_price(storage.object(kind), conversion);
  if (list.storage.empty()) root.fail("storage", "found none, expected at least one kind");

  if (auto network = root.optional_object("network")) list.network = read_network(*network, conversion);
  root.finish();
  return list;
}

}  // namespace dsanalyze
