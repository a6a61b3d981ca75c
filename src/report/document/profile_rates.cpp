#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/records/rate_text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

std::string ratio_text(double value, double to) { return to > 0 ? fmt::format("{:.3f}x", value / to) : "-"; }

Table one_profiles_rates(const ProfileResult& result) {
  Table table{"rates with 95 % intervals",
              {{"rate", Align::left},
               {"letter", Align::left},
               {"samples/s"},
               {"from", Align::right},
               {"to", Align::right},
               {"windows"},
               {"remarks", Align::left}}};
  const std::optional<std::uint64_t> tokens = result.loader ? result.loader->tokens_per_sample : std::nullopt;
  if (tokens) table.columns.insert(table.columns.begin() + 3, {"tokens/s", Align::right});
  for (const NamedRate& named : named_rates()) {
    const auto& rate = result.*named.rate;
    if (!rate) continue;
    std::vector<std::string> cells{named.words,
                                   std::string(1, named.letter),
                                   format_rate(rate->samples_per_s, rate->ci95_samples_per_s),
                                   format_number(rate->ci95_samples_per_s.low),
                                   format_number(rate->ci95_samples_per_s.high),
                                   format_number(static_cast<double>(rate->windows)),
                                   rate_note(*rate)};
    if (tokens) cells.insert(cells.begin() + 3, format_number(rate->samples_per_s * static_cast<double>(*tokens)));
    table.add(cells);
  }
  return table;
}

Table several_profiles_rates(ProfileViews views) {
  Table table{"rates with 95 % intervals, samples/s, and their ratio to the first", {{"rate", Align::left}}};
  for (const ProfileView& view : views) {
    table.columns.push_back({view.label, Align::right});
    if (&view != &views.front()) table.columns.push_back({"ratio", Align::right});
  }
  for (const NamedRate& named : named_rates()) {
    if (std::ranges::none_of(views, [&](const ProfileView& view) { return (view.profile->*named.rate).has_value(); })) continue;
    std::vector<std::string> cells{fmt::format("{} [{}]", named.words, named.letter)};
    const auto& first = views.front().profile->*named.rate;
    for (const ProfileView& view : views) {
      const auto& rate = view.profile->*named.rate;
      cells.push_back(rate ? format_rate(rate->samples_per_s, rate->ci95_samples_per_s) : "not measured");
      if (&view != &views.front()) cells.push_back(rate && first ? ratio_text(rate->samples_per_s, first->samples_per_s) : "-");
    }
    table.add(cells);
  }
  return table;
}

Chart rates_chart(ProfileViews views) {
  Chart chart;
  chart.name = "rates";
  chart.title = "each rate with its 95 % interval";
  chart.kind = Chart::Kind::points;
  chart.x_label = "samples/s";
  chart.x_scale = Chart::Scale::logarithmic;
  std::vector<NamedRate> rates(named_rates().begin(), named_rates().end());
  std::erase_if(rates, [views](const NamedRate& named) {
    return std::ranges::none_of(views, [&named](const ProfileView& view) { return (view.profile->*named.rate).has_value(); });
  });
  for (const NamedRate& named : rates) chart.categories.push_back(fmt::format("{} [{}]", named.words, named.letter));
  for (const ProfileView& view : views) {
    Chart::Series series{view.label, views.size() == 1 ? "result" : "", {}, Chart::Series::Line::none};
    for (std::size_t at = 0; at < rates.size(); ++at) {
      const auto& rate = view.profile->*rates[at].rate;
      if (rate) series.points.push_back({static_cast<double>(at), rate->samples_per_s, rate->ci95_samples_per_s.low, rate->ci95_samples_per_s.high});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::span<const NamedRate> named_rates() {
  static const std::array<NamedRate, 7> rates{{{'G', "the accelerators can consume", "ingestion", &ProfileResult::ingestion},
                                               {'H', "transfers can supply", "", &ProfileResult::transfer},
                                               {'P', "prep can supply", "prep", &ProfileResult::prep},
                                               {'F', "fetch can supply", "fetch", &ProfileResult::fetch},
                                               {'S', "storage can supply", "storage", &ProfileResult::storage},
                                               {'N', "others' caches can supply", "", &ProfileResult::network},
                                               {'C', "the cache can supply", "cache", &ProfileResult::cache}}};
  return rates;
}

Section rates_section(ProfileViews views) {
  Section section{"rates", "How fast each part is"};
  Table table = views.size() == 1 ? one_profiles_rates(*views.front().profile) : several_profiles_rates(views);
  if (table.rows.empty()) return section;
  section.blocks.emplace_back(
      Figure{"",
             "Each part was measured alone, with the others out of its way. The interval holds the true rate with 95 % "
             "probability. A part of the pipeline that is slower than what the accelerators can consume holds them up. The scale is logarithmic.",
             {rates_chart(views)},
             std::move(table)});
  return section;
}

Section storage_section(ProfileViews views) {
  Section section{"storage", "Storage by size of read"};
  for (const ProfileView& view : views) {
    const auto& points = view.profile->storage_by_request;
    std::set<double> sizes;
    std::set<int> concurrencies;
    for (const StoragePoint& point : points) {
      sizes.insert(point.request_bytes);
      concurrencies.insert(point.concurrency);
    }
    if (points.empty()) continue;
    Table table{"MB/s by size of a read (rows) and reads in flight (columns)", {{"a read of", Align::left}}};
    for (const int concurrency : concurrencies) table.columns.push_back({fmt::format("{} at once", concurrency)});
    Chart chart;
    chart.name = views.size() > 1 ? fmt::format("storage-{}", view.number) : "storage";
    chart.title = "storage throughput over reads in flight, a line for each size of read";
    chart.x_label = "reads in flight";
    chart.y_label = "MB/s";
    chart.x_scale = chart.y_scale = Chart::Scale::logarithmic;
    for (const double size : sizes) {
      std::vector<std::string> cells{format_bytes(static_cast<Bytes>(size))};
      Chart::Series series{cells.front(), "", {}};
      for (const int concurrency : concurrencies) {
        const auto point =
            std::ranges::find_if(points, [&](const StoragePoint& each) { return each.request_bytes == size && each.concurrency == concurrency; });
        cells.push_back(point == points.end() ? "-" : format_number(point->bytes_per_s / 1e6));
        if (point != points.end()) series.points.push_back({static_cast<double>(concurrency), point->bytes_per_s / 1e6});
      }
      table.add(cells);
      chart.series.push_back(std::move(series));
    }
    section.blocks.emplace_back(Figure{views.size() > 1 ? view.label : "",
                                       "What storage delivers depends on how much is asked for at a time and how many reads are in flight.",
                                       {std::move(chart)},
                                       std::move(table)});
  }
  return section;
}

}  // namespace dsanalyze::report
