#pragma once

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/statistics.hpp"
#include "core/index.hpp"
#include "loaders/loader.hpp"

namespace dsanalyze::bench {

/// "--name value" pairs and "--flag"s after the mode and the paths.
class Arguments {
 public:
  /// `flags` take no value; `known` are the options that do.
  Arguments(const std::vector<std::string>& words, const std::set<std::string>& known, const std::set<std::string>& flags = {}) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (flags.contains(words[i])) {
        m_values[words[i]] = "";
      } else if (known.contains(words[i])) {
        if (i + 1 == words.size()) throw UsageError(words[i] + ": a value is missing");
        m_values[words[i]] = words[i + 1];
        ++i;
      } else if (words[i].starts_with("--")) {
        throw UsageError(words[i] + ": no such option");
      } else {
        positional.push_back(words[i]);
      }
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return m_values.contains(name); }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = m_values.find(name);
    return found == m_values.end() ? otherwise : found->second;
  }
  [[nodiscard]] double number(const std::string& name, double otherwise) const { return has(name) ? std::stod(m_values.at(name)) : otherwise; }

  std::vector<std::string> positional;

 private:
  std::map<std::string, std::string> m_values;
};

/// CPU time of this process so far, seconds.
struct CpuTime {
  double user = 0, kernel = 0;
};
inline CpuTime own_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

/// A figure as the median of rounds, with the quartiles.
inline std::string spread(const std::vector<double>& rounds, int digits) {
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", median(rounds), digits, quantile(rounds, 0.25), digits, quantile(rounds, 0.75), digits);
}

/// "name": [1, 2.5] for a JSON file.
inline std::string json_list(const std::string& name, const std::vector<double>& values) {
  return fmt::format("\"{}\": [{}]", name, fmt::join(values, ", "));
}

inline void write_text(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (file == nullptr) throw Error("cannot write " + path);
  fmt::print(file.get(), "{}", text);
}

/// The next batch, taken and given back; false at the end.
inline bool take_batch(Loader& loader, const Timing& timing, std::uint64_t& samples) {
  Batch batch;
  const Status status = loader.next(batch, timing.clock->after(60));
  if (status.code == StatusCode::end) return false;
  if (!status.ok()) throw Error("the loader stopped: " + loader.failure());
  samples += batch.count;
  loader.release(batch.token);
  return true;
}

}  // namespace dsanalyze::bench
