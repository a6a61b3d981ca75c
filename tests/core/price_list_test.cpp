#include "core/records/price_list.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../base/texts.hpp"
#include "base/error.hpp"

using namespace dsanalyze;
using testing::replaced;

namespace {

const std::string list_text = R"({
  "name": "shop", "description": "a shop", "currency": "EUR", "date": "2024-02-29",
  "hours_per_month": {"value": 730, "provenance": "derived", "source": "8,760 h / 12"},
  "lifetime_hours": {"value": 20000, "provenance": "assumed", "source": "a test"},
  "server": {"price": {"value": 5000, "per": "lifetime", "provenance": "assumed", "source": "a test"},
             "memory_bytes": {"value": 1073741824, "provenance": "assumed", "source": "a test"},
             "most": {"value": 4, "provenance": "assumed", "source": "a test"}},
  "core": {"price": {"value": 0.04, "per": "hour", "provenance": "assumed", "source": "page 1"},
           "threads": {"value": 2, "provenance": "assumed", "source": "a test"},
           "least": {"value": 3, "provenance": "assumed", "source": "a test"},
           "most": {"value": 64, "provenance": "assumed", "source": "a test"}},
  "memory": {"price_per_gib": {"value": 3.65, "per": "month", "provenance": "paper", "source": "page 2"},
             "most_bytes": {"value": 68719476736, "provenance": "assumed", "source": "a test"}},
  "accelerators": {"fast": {"price": {"value": 2, "per": "hour", "provenance": "assumed", "source": "page 3"},
                            "relative_speed": {"value": 1.5, "provenance": "assumed", "source": "a test"},
                            "most": {"value": 8, "provenance": "assumed", "source": "a test"}}},
  "storage": {"disk": {"least_gb": {"value": 20, "provenance": "assumed", "source": "a test"},
                       "price_per_gb": {"value": 0.073, "per": "month", "provenance": "assumed", "source": "page 4"},
                       "price_per_mb_per_s": {"value": 0.0365, "per": "month", "provenance": "assumed", "source": "page 5"},
                       "included_bytes_per_s": {"value": 100000000, "provenance": "assumed", "source": "a test"},
                       "included_bytes_per_s_per_gb": {"value": 500000, "provenance": "assumed", "source": "a test"},
                       "most_bytes_per_s": {"value": 900000000, "provenance": "assumed", "source": "a test"},
                       "request_latency_seconds": {"value": 0.001, "provenance": "assumed", "source": "a test"},
                       "queue_depth": {"value": 16, "provenance": "assumed", "source": "a test"}}},
  "network": {"bytes_per_s": {"value": 1250000000, "provenance": "assumed", "source": "a test"}}
})";

void check_list_refused(const std::string& from, const std::string& to, const std::string& place) {
  CAPTURE(to);
  CHECK_THROWS_WITH_AS(parse_price_list(replaced(list_text, from, to), "p.json"), doctest::Contains(("p.json: " + place).c_str()), UsageError);
}

}  // namespace

TEST_CASE("a price list is read whole, with the source of each figure") {
  const PriceList list = parse_price_list(list_text, "p.json");
  CHECK(list.name == "shop");
  CHECK(list.currency == "EUR");
  CHECK(list.date == "2024-02-29");
  CHECK(list.server.memory_bytes == Bytes{1} << 30);
  CHECK(list.server.most == 4);
  CHECK(list.core.threads == 2);
  CHECK(list.core.least == 3);
  CHECK(list.core.most == 64);
  CHECK(list.core.price.listed.source == "page 1");
  CHECK(list.memory.most_bytes == Bytes{64} << 30);
  CHECK(list.memory.price_per_gib.listed.provenance == Provenance::paper);
  REQUIRE(list.accelerators.contains("fast"));
  CHECK(list.accelerators.at("fast").relative_speed.value == 1.5);
  CHECK(list.accelerators.at("fast").most == 8);
  REQUIRE(list.storage.contains("disk"));
  CHECK(list.storage.at("disk").most_bytes_per_s.value == 9e8);
  CHECK(list.storage.at("disk").request_latency_seconds.value == 0.001);
  CHECK(list.storage.at("disk").queue_depth == 16);
  REQUIRE(list.network);
  CHECK_FALSE(list.network->price);
}

TEST_CASE("prices by the month and by the lifetime become prices by the hour with the list's own hours") {
  const PriceList list = parse_price_list(list_text, "p.json");
  CHECK(list.core.price.per_hour == 0.04);
  CHECK(list.memory.price_per_gib.per_hour == doctest::Approx(3.65 / 730));
  REQUIRE(list.server.price);
  CHECK(list.server.price->per_hour == doctest::Approx(5000.0 / 20000));
  CHECK(list.server.price->listed.value == 5000);
  CHECK(list.server.price->per == ListedPrice::Per::lifetime);
}

TEST_CASE("bandwidth that comes with a volume grows with its size up to the most") {
  const StoragePrice disk = parse_price_list(list_text, "p.json").storage.at("disk");
  CHECK(disk.sold_gigabytes(10) == 20);
  CHECK(disk.sold_gigabytes(30) == 30);
  CHECK(disk.included_rate(10) == 1e8);
  CHECK(disk.included_rate(400) == 2e8);
  CHECK(disk.included_rate(1e6) == 9e8);
}

TEST_CASE("a mistake in a price list is named by file and place") {
  check_list_refused("0.04", "0", "/core/price/value: found 0, expected a number above 0");
  check_list_refused("0.04", "-0.04", "/core/price/value");
  check_list_refused("0.04", "1e999", "");
  check_list_refused("0.04", "NaN", "");
  check_list_refused("0.04", R"("4 cents")", "/core/price/value");
  check_list_refused(R"("per": "hour")", R"("per": "day")", "/core/price/per");
  check_list_refused(R"("page 1")", R"("")", "/core/price/source");
  check_list_refused(R"("paper")", R"("heard")", "/memory/price_per_gib/provenance");
  check_list_refused(R"("EUR")", R"("euros")", "/currency");
  check_list_refused("2024-02-29", "29.2.2024", "/date");
  check_list_refused(R"("least": {"value": 3)", R"("least": {"value": 65)", R"(/core/least: found 65, expected at most "most" (64))");
  check_list_refused("68719476736", "1024", "/memory/most_bytes");
  check_list_refused(R"("threads")", R"("thread")", "/core");
  check_list_refused("730", "1e-300", "/hours_per_month/value");
  check_list_refused(R"("value": 1.5)", R"("value": 0)", "/accelerators/fast/relative_speed/value");
  check_list_refused("100000000,", "1000000000,", "/storage/disk/included_bytes_per_s");
  check_list_refused(R"("network": {)", R"("network": {"latency": 1, )", "/network/latency");
}

TEST_CASE("a price by the month without the hours of a month is refused") {
  const std::string hours = R"("hours_per_month": {"value": 730, "provenance": "derived", "source": "8,760 h / 12"},)";
  check_list_refused(hours, "", "/memory/price_per_gib/per: found month, but the list has no hours_per_month");
  const std::string lifetime = R"("lifetime_hours": {"value": 20000, "provenance": "assumed", "source": "a test"},)";
  check_list_refused(lifetime, "", "/server/price/per: found lifetime");
}

TEST_CASE("a price list without accelerators, storage or bandwidth is refused") {
  const std::size_t accelerators = list_text.find(R"("fast")");
  const std::size_t storage = list_text.find("\n  \"storage\"");
  std::string none = list_text;
  none.replace(accelerators, storage - accelerators, "},");
  CHECK_THROWS_WITH_AS(parse_price_list(none, "p.json"), doctest::Contains("p.json: /accelerators: found none"), UsageError);

  std::string still = list_text;
  for (const std::string key : {"price_per_mb_per_s", "included_bytes_per_s", "included_bytes_per_s_per_gb"}) {
    const std::size_t begin = still.find(R"(")" + key + R"(")");
    still.erase(begin, still.find("},", begin) + 2 - begin);
  }
  CHECK_THROWS_WITH_AS(parse_price_list(still, "p.json"), doctest::Contains("p.json: /storage/disk: found no bandwidth"), UsageError);
}
