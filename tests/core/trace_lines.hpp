#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dsanalyze::test {

/// A trace as a reader sees it that knows the format and nothing of the writer. Checks as it reads that spans ascend and nest on each track.
struct ReadTrace {
  struct Track {
    std::string name;
    std::vector<nlohmann::json> spans;  ///< as they stand in the file
    std::vector<std::size_t> depths;    ///< spans around each
  };
  std::map<int, Track> tracks;
  std::map<std::string, std::uint64_t> kinds;  ///< events by their "ph"
  std::map<std::string, std::uint64_t> counters;
  nlohmann::json facts;

  [[nodiscard]] std::vector<const Track*> named(const std::string& begin) const {
    std::vector<const Track*> found;
    for (const auto& [number, track] : tracks)
      if (track.name.starts_with(begin)) found.push_back(&track);
    return found;
  }
  [[nodiscard]] std::uint64_t events() const {
    std::uint64_t all = 0;
    for (const auto& [kind, count] : kinds) all += count;
    return all;
  }
};

inline void check_nested(const ReadTrace::Track& track, std::vector<std::size_t>& depths) {
  std::vector<double> ends;
  double last = 0;
  for (const nlohmann::json& span : track.spans) {
    const double begin = span["ts"].get<double>();
    const double end = begin + span["dur"].get<double>();
    if (begin < last || span["dur"].get<double>() < 0) FAIL_CHECK(track.name << ": " << span.dump() << " goes back in time");
    last = begin;
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty() && end > ends.back()) FAIL_CHECK(track.name << ": " << span.dump() << " ends after what is around it");
    depths.push_back(ends.size());
    ends.push_back(end);
  }
}

/// Line by line, so that a million events need no memory of their own kind.
inline ReadTrace read_trace(const std::string& path) {
  ReadTrace trace;
  std::ifstream stream(path);
  REQUIRE(stream.good());
  std::string line;
  std::getline(stream, line);
  REQUIRE(line == R"({"displayTimeUnit":"ns","traceEvents":[)");
  while (std::getline(stream, line) && !line.starts_with("],")) {
    if (line.ends_with(',')) line.pop_back();
    const nlohmann::json event = nlohmann::json::parse(line);
    const std::string kind = event["ph"];
    ++trace.kinds[kind];
    if (kind == "X") trace.tracks[event["tid"].get<int>()].spans.push_back({{"ts", event["ts"]}, {"dur", event["dur"]}, {"name", event["name"]}});
    if (kind == "M" && event["name"] == "thread_name") trace.tracks[event["tid"].get<int>()].name = event["args"]["name"];
    if (kind == "C") ++trace.counters[event["name"]];
  }
  trace.facts = nlohmann::json::parse("{" + line.substr(2))["otherData"];
  for (auto& [number, track] : trace.tracks) {
    CHECK(!track.name.empty());
    check_nested(track, track.depths);
  }
  CHECK(trace.facts["events"] == trace.events());
  return trace;
}

}  // namespace dsanalyze::test
