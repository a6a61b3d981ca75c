#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <set>

#include "base/text/enum_names.hpp"
#include "core/records/rate_text.hpp"
#include "core/sharing_modes.hpp"
#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {
namespace {

constexpr std::size_t most_lines = 12;
constexpr std::size_t palette = 6;  ///< lines beyond are dashed
constexpr std::size_t most_numbers_of_servers = 60;

/// One way of running the job on several servers, over their number.
struct ServersLine {
  std::string label;
  std::map<std::uint32_t, const WhatIfAnswer*> answers;
};

/// What tells lines apart, in the order in which they are shown.
struct ServersWay {
  std::ptrdiff_t place = 0;  ///< of the partition
  std::string partition, storage_scope;
  double network = 0;  ///< bytes/s; 0: of no matter, or as measured

  auto operator<=>(const ServersWay&) const = default;
};
using ServersWays = std::map<ServersWay, ServersLine>;

/// The lines of a record.
struct ServersCurves {
  std::vector<std::uint32_t> servers;  ///< that are shown, in order; 1 is the configuration as measured
  std::vector<ServersLine> lines;      ///< of samples/s
  std::vector<ServersLine> partings;   ///< of bytes, which neither the network nor whose storage it is changes
  std::map<std::uint32_t, double> ingestion;
  std::size_t all_lines = 0, all_servers = 0;
};

/// Nothing is changed but the number of servers and how they share the work.
bool changes_servers_alone(WhatIfChange change) {
  if (!change.servers) return false;
  change.servers.reset();
  change.network_bytes_per_s.reset();
  change.partition = change.balance_from = change.storage_scope = "";
  return change == WhatIfChange{};
}

ServersWay way_of(const WhatIfChange& change) {
  constexpr std::array partitions = enum_names<PartitionMode>;
  ServersWay way{std::ranges::find(partitions, change.partition) - partitions.begin(), partition_text(change), change.storage_scope};
  // A server that gets nothing from others is the same over every network.
  const bool asks_others = change.partition == "partitioned" || (change.partition == "locality" && change.balance_from != "storage");
  if (asks_others) way.network = change.network_bytes_per_s.value_or(0);
  return way;
}

std::vector<ServersLine> lines_of(const ServersWays& ways) {
  std::set<double> networks;
  for (const auto& [way, line] : ways)
    if (way.network > 0) networks.insert(way.network);
  std::vector<ServersLine> lines;
  for (const auto& [way, line] : ways) {
    ServersLine& labelled = lines.emplace_back(line);
    labelled.label = way.partition == "none" ? "no partition" : way.partition;
    if (way.storage_scope == "shared") labelled.label += ", shared storage";
    if (way.network > 0 && networks.size() > 1) labelled.label += ", " + format_bytes_per_second(way.network) + " network";
    if (lines.size() == most_lines) break;
  }
  return lines;
}

ServersCurves curves_of(const WhatIfResult& result) {
  ServersCurves curves;
  ServersWays ways, partings;
  std::set<std::uint32_t> counts{1};
  for (const WhatIfAnswer& answer : result.answers) {
    if (!changes_servers_alone(answer.change)) continue;
    const std::uint32_t servers = *answer.change.servers;
    counts.insert(servers);
    if (answer.ingestion) curves.ingestion[servers] = *answer.ingestion;
    ServersWay way = way_of(answer.change);
    ways[way].answers.try_emplace(servers, &answer);
    way.storage_scope.clear();
    way.network = 0;
    partings[way].answers.try_emplace(servers, &answer);
  }
  // Of one server all lines are the configuration as measured.
  const WhatIfAnswer& base = result.answers.front();
  if (base.ingestion) curves.ingestion[1] = *base.ingestion;
  for (auto& [way, line] : ways) line.answers[1] = &base;
  curves.all_lines = ways.size();
  curves.lines = lines_of(ways);
  curves.partings = lines_of(partings);
  curves.all_servers = counts.size();
  const std::vector<std::uint32_t> all(counts.begin(), counts.end());
  for (const std::size_t at : spread(all.size(), most_numbers_of_servers)) curves.servers.push_back(all[at]);
  return curves;
}

Chart chart_over_servers(const std::string& name, const std::string& title, const std::string& y_label) {
  Chart chart;
  chart.name = name;
  chart.title = title;
  chart.x_label = "servers";
  chart.y_label = y_label;
  chart.x_scale = Chart::Scale::logarithmic;
  return chart;
}

Chart::Series next_line(const ServersLine& line, std::size_t at) {
  return {line.label, "", {}, at < palette ? Chart::Series::Line::solid : Chart::Series::Line::dashed};
}

Table table_over_servers(const std::vector<ServersLine>& lines, const std::string& caption) {
  Table table{caption, {{"servers", Align::left}}};
  for (const ServersLine& line : lines) table.columns.push_back({line.label});
  return table;
}

/// What a line says of so many servers; nullptr where it was not asked.
const WhatIfAnswer* answer_at(const ServersLine& line, std::uint32_t servers) {
  const auto found = line.answers.find(servers);
  return found == line.answers.end() ? nullptr : found->second;
}

Figure throughput_figure(const ServersCurves& curves) {
  Chart chart = chart_over_servers("servers-throughput", "samples/s of all servers over their number", "samples/s, all servers");
  chart.y_scale = Chart::Scale::logarithmic;
  for (std::size_t at = 0; at < curves.lines.size(); ++at) {
    Chart::Series& series = chart.series.emplace_back(next_line(curves.lines[at], at));
    for (const std::uint32_t servers : curves.servers)
      if (const WhatIfAnswer* answer = answer_at(curves.lines[at], servers))
        series.points.push_back(
            {static_cast<double>(servers), answer->samples_per_s, answer->ci95_samples_per_s.low, answer->ci95_samples_per_s.high});
  }
  Chart::Series wanted{"the accelerators can consume [G]", "result", {}, Chart::Series::Line::dashed};
  for (const std::uint32_t servers : curves.servers)
    if (const auto rate = curves.ingestion.find(servers); rate != curves.ingestion.end())
      wanted.points.push_back({static_cast<double>(servers), rate->second});
  const bool known = !wanted.points.empty();

  Table table = table_over_servers(curves.lines, "samples/s of all servers together");
  if (known) table.columns.push_back({wanted.label});
  for (const std::uint32_t servers : curves.servers) {
    std::vector<std::string> cells{format_number(servers)};
    for (const ServersLine& line : curves.lines) {
      const WhatIfAnswer* answer = answer_at(line, servers);
      cells.push_back(answer ? format_rate(answer->samples_per_s, answer->ci95_samples_per_s) + " " + resource_letter(answer->bottleneck) : "-");
    }
    const auto rate = curves.ingestion.find(servers);
    if (known) cells.push_back(rate == curves.ingestion.end() ? "-" : format_number(rate->second));
    table.add(cells);
  }
  if (known) chart.series.push_back(std::move(wanted));

  std::string text = "What all servers reach together, with everything else as measured; one server is the configuration as measured.";
  if (known) text += " Where a line meets the accelerators', every server trains as fast as it can.";
  text += " A line that turns level has used up storage that all share [CoorDL, Figure 9; Yang-Cong, Figure 8].";
  if (curves.all_lines > most_lines)
    text += fmt::format(" The first {} of {} ways are shown; the answers below have all.", most_lines, curves.all_lines);
  if (curves.all_servers > curves.servers.size())
    text += fmt::format(" {} of {} numbers of servers are shown.", curves.servers.size(), curves.all_servers);
  return {"", text, {std::move(chart)}, std::move(table)};
}

/// Bytes of a server's epoch, by where they come from.
struct BytesOfServer {
  std::string name, title, text;
  double WhatIfAnswer::Servers::*bytes;
};

/// What one server alone reads is not in the record.
Figure bytes_figure(const ServersCurves& curves, const BytesOfServer& what) {
  struct Unit {
    const char* name;
    double bytes;
  };
  constexpr std::array<Unit, 4> units{{{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}}};
  const auto at_servers = [&](const ServersLine& line, std::uint32_t servers) -> std::optional<double> {
    const WhatIfAnswer* answer = answer_at(line, servers);
    return answer && answer->servers ? std::optional((*answer->servers).*what.bytes) : std::nullopt;
  };
  double most = 0;
  for (const ServersLine& line : curves.partings)
    for (const std::uint32_t servers : curves.servers) most = std::max(most, at_servers(line, servers).value_or(0));
  if (most <= 0) return {};
  const auto* unit = std::ranges::find_if(units, [most](const Unit& each) { return most >= each.bytes; });
  if (unit == units.end()) --unit;

  Chart chart = chart_over_servers(what.name, what.title, unit->name);
  Table table = table_over_servers(curves.partings, fmt::format("{}, {}", what.title, unit->name));
  for (std::size_t at = 0; at < curves.partings.size(); ++at) chart.series.push_back(next_line(curves.partings[at], at));
  for (const std::uint32_t servers : curves.servers) {
    std::vector<std::string> cells{format_number(servers)};
    bool any = false;
    for (std::size_t at = 0; at < curves.partings.size(); ++at) {
      const auto bytes = at_servers(curves.partings[at], servers);
      cells.push_back(bytes ? format_number(*bytes / unit->bytes) : "-");
      if (bytes) chart.series[at].points.push_back({static_cast<double>(servers), *bytes / unit->bytes});
      any = any || bytes;
    }
    if (any) table.add(cells);
  }
  return {"", what.text, {std::move(chart)}, std::move(table)};
}

}  // namespace

Section whatif_servers_section(const WhatIfResult& result) {
  Section section{"servers", "What more servers bring"};
  const ServersCurves curves = curves_of(result);
  if (curves.lines.empty() || curves.servers.size() < 3) return section;
  section.blocks.emplace_back(throughput_figure(curves));
  using Servers = WhatIfAnswer::Servers;
  const std::array<BytesOfServer, 2> bytes{
      {{"servers-storage", "bytes that each server reads from storage in an epoch",
        "Caches that hold the dataset together leave nothing to storage; without a partition each server reads what its own cache lacks, even "
        "where another holds it.",
        &Servers::storage_bytes_server_epoch},
       {"servers-network", "bytes that each server gets from the others in an epoch",
        "Partitioned caches are asked for all that a server does not hold; locality moves only what evens the batches out.",
        &Servers::network_bytes_server_epoch}}};
  for (const BytesOfServer& each : bytes)
    if (Figure figure = bytes_figure(curves, each); !figure.charts.empty()) section.blocks.emplace_back(std::move(figure));
  return section;
}

}  // namespace dsanalyze::report
