#include "trace_events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>

#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_kept_free = 100'000;
constexpr std::size_t buffer_bytes = std::size_t{1} << 18;
constexpr int process = 1;
constexpr Nanoseconds grid = 125;

// Numbers of tracks, which are also their order on the screen.
enum FirstTrack : std::uint32_t { epoch_track = 2, sampler_track = 3, first_accelerator = 100, first_worker = 1000, first_read = 10'000 };

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace); }

/// Each gets the lowest lane that is free when it begins, so that what overlaps lies on different tracks. `items` ascend by begin.
template <typename Item, typename BeginOf, typename EndOf>
std::vector<std::uint32_t> lanes_of(const std::vector<Item>& items, BeginOf begin, EndOf end) {
  std::vector<std::uint32_t> lanes;
  std::vector<Nanoseconds> free_since;
  lanes.reserve(items.size());
  for (const Item& item : items) {
    const auto free = std::ranges::find_if(free_since, [&](Nanoseconds since) { return since <= begin(item); });
    lanes.push_back(static_cast<std::uint32_t>(free - free_since.begin()));
    if (free == free_since.end()) {
      free_since.push_back(end(item));
    } else {
      *free = end(item);
    }
  }
  return lanes;
}

class Writer {
 public:
  Writer(const std::filesystem::path& path, const TracedRun& run, std::size_t most_events)
      : m_run(run), m_most(most_events), m_begun(run.begun), m_file(path), m_operators(run.operators.size()) {
    for (std::size_t i = 0; i < run.operators.size(); ++i) m_operators[i] = quoted(run.operators[i]);
    m_dropped = run.spans->dropped();
    for (const SpanTrack& track : run.spans->tracks())
      for (const Span& span : track.spans()) m_begun = std::min(m_begun, span.begin);
  }

  TraceEventsSummary write() {
    append("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    event(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", process, quoted(m_run.name));
    write_epochs();
    write_counters();
    write_steps();
    for (const SpanTrack& track : m_run.spans->tracks()) write_track(track);
    append("\n],\"otherData\":{{");
    const char* separator = "";
    for (const auto& [name, value] : m_run.facts) append("{}{}:{}", std::exchange(separator, ","), quoted(name), quoted(value));
    append("{}\"events\":{},\"dropped_spans\":{}}}}}\n", separator, m_events, m_dropped);
    m_file.write(m_buffer);
    m_file.commit();
    return {m_events, m_dropped};
  }

 private:
  template <typename... Values>
  void append(fmt::format_string<Values...> form, Values&&... values) {
    fmt::format_to(std::back_inserter(m_buffer), form, std::forward<Values>(values)...);
    if (m_buffer.size() < buffer_bytes) return;
    m_file.write(m_buffer);  // commit() says what went wrong
    m_buffer.clear();
  }
  template <typename... Values>
  void event(fmt::format_string<Values...> form, Values&&... values) {
    if (m_events++ > 0) append(",\n");
    append(form, std::forward<Values>(values)...);
  }
  /// Epochs, counters and accelerators may each have a third of what is kept free; names of tracks are few.
  [[nodiscard]] std::size_t share_of_room() const { return std::max<std::size_t>((m_most - room_for_spans(m_most)) / 3, 4); }
  [[nodiscard]] bool is_full() const { return m_events >= m_most; }

  /// Whole steps of the grid since the run's begin. Monotonic, so what is nested stays nested.
  [[nodiscard]] Nanoseconds since_begin(Nanoseconds at) const { return std::max<Nanoseconds>(at - m_begun, 0) / grid * grid; }
  static std::string microseconds(Nanoseconds time) { return fmt::format("{}.{:03}", time / 1000, time % 1000); }

  void name_track(std::uint32_t track, const std::string& name) {
    event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", process, track, quoted(name));
    event(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", process, track, track);
  }
  /// `name` and `args` are JSON.
  void complete(std::uint32_t track, std::string_view name, Nanoseconds begin, Nanoseconds end, std::string_view args) {
    if (is_full()) {
      ++m_dropped;
      return;
    }
    const Nanoseconds from = since_begin(begin);
    event(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"args":{{{}}}}})", process, track, microseconds(from),
          microseconds(std::max(since_begin(end), from) - from), name, args);
  }

  void write_epochs() {
    if (m_run.epochs.empty()) return;
    name_track(epoch_track, "epochs");
    Nanoseconds begin = m_run.begun;
    for (const EpochEnd& epoch : std::span(m_run.epochs).first(std::min(m_run.epochs.size(), share_of_room() / 4))) {
      const Nanoseconds end = std::max(epoch.at, begin);
      complete(epoch_track, quoted(fmt::format("epoch {}", epoch.epoch)), begin, end, "");
      event(R"({{"ph":"i","s":"g","pid":{},"tid":{},"ts":{},"name":"end of epoch {}"}})", process, static_cast<int>(epoch_track),
            microseconds(since_begin(end)), epoch.epoch);
      begin = end;
    }
  }

  /// Evenly thinned where there are more points than a third of what is kept free.
  void write_counters() {
    std::size_t points = 0;
    for (const TraceCounter& counter : m_run.counters) points += counter.points.size();
    const std::size_t stride = points / share_of_room() + 1;
    for (const TraceCounter& counter : m_run.counters) {
      const std::string name = quoted(counter.name);
      for (std::size_t i = 0; i < counter.points.size(); i += stride) {
        if (!std::isfinite(counter.points[i].value)) continue;  // JSON has no such number
        event(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"value":{}}}}})", process, microseconds(since_begin(counter.points[i].at)), name,
              counter.points[i].value);
      }
    }
  }

  void write_steps() {
    std::vector<AcceleratorStep> steps = m_run.steps;
    std::ranges::sort(steps, {}, [](const AcceleratorStep& step) { return step.begin - step.stall; });
    const auto lanes = lanes_of(
        steps, [](const AcceleratorStep& step) { return step.begin - step.stall; }, [](const AcceleratorStep& step) { return step.end; });
    name_lanes(first_accelerator, "accelerator", lanes);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::uint32_t track = first_accelerator + lanes[i];
      const AcceleratorStep& step = steps[i];
      if (2 * i >= share_of_room()) {
        m_dropped += step.stall > 0 ? 2 : 1;
        continue;
      }
      if (step.stall > 0) complete(track, R"("wait for a batch")", step.begin - step.stall, step.begin, "");
      complete(track, R"("step")", step.begin, step.end, fmt::format(R"("step":{},"samples":{})", step.step, step.samples));
    }
  }

  void name_lanes(std::uint32_t first, const std::string& name, const std::vector<std::uint32_t>& lanes) {
    const std::uint32_t count = lanes.empty() ? 0 : *std::ranges::max_element(lanes) + 1;
    for (std::uint32_t lane = 0; lane < count; ++lane) name_track(first + lane, fmt::format("{} {}", name, lane + 1));
  }

  void write_track(const SpanTrack& track) {
    std::vector<Span> spans = track.spans();
    // What is around others comes before them.
    std::ranges::sort(spans, [](const Span& a, const Span& b) { return std::tuple(a.begin, -a.end, a.kind) < std::tuple(b.begin, -b.end, b.kind); });
    switch (track.role()) {
      case SpanTrack::Role::sampler:
        name_track(sampler_track, "sampler");
        for (const Span& span : spans) write_span(sampler_track, span);
        break;
      case SpanTrack::Role::prep_worker:
        name_track(first_worker + track.number(), fmt::format("prep worker {}", track.number() + 1));
        for (const Span& span : spans) write_span(first_worker + track.number(), span);
        break;
      case SpanTrack::Role::reads:
        write_reads(spans);
        break;
    }
  }

  void write_reads(const std::vector<Span>& spans) {
    const auto lanes = lanes_of(
        spans, [](const Span& span) { return span.begin; }, [](const Span& span) { return span.end; });
    name_lanes(first_read, "read in flight", lanes);
    for (std::size_t i = 0; i < spans.size(); ++i) write_span(first_read + lanes[i], spans[i]);
  }

  void write_span(std::uint32_t track, const Span& span) {
    const auto plain = [&](std::string_view name) { complete(track, name, span.begin, span.end, ""); };
    switch (span.kind) {
      case SpanKind::batch:
        return complete(track, R"("batch")", span.begin, span.end, fmt::format(R"("batch":{},"samples":{})", span.number, span.amount));
      case SpanKind::sample:
        return complete(track, R"("sample")", span.begin, span.end, fmt::format(R"("sample":{})", span.number));
      case SpanKind::read:
        return complete(track, R"("read")", span.begin, span.end, fmt::format(R"("sample":{},"bytes":{})", span.number, span.amount));
      case SpanKind::prep:
        return plain(span.amount < m_operators.size() ? m_operators[span.amount] : R"("prep")");
      case SpanKind::keep:
        return plain(R"("copy into the cache")");
      case SpanKind::wait_slot:
        return plain(R"("wait for a batch slot")");
      case SpanKind::wait_storage:
        return plain(R"("wait for a place among the reads")");
      case SpanKind::wait_settled:
        return plain(R"("wait for the epoch's last reads")");
    }
  }

  const TracedRun& m_run;
  std::size_t m_most;
  Nanoseconds m_begun;  ///< time 0: of the run, or of the first span where a loader began before it
  AtomicFile m_file;
  std::vector<std::string> m_operators;  ///< as JSON
  std::string m_buffer;
  std::uint64_t m_events = 0;
  std::uint64_t m_dropped = 0;
};

}  // namespace

std::size_t room_for_spans(std::size_t most_events) { return most_events - std::min(most_events / 10, most_kept_free); }

TraceEventsSummary write_trace_events(const std::filesystem::path& path, const TracedRun& run, std::size_t most_events) {
  return Writer(path, run, most_events).write();
}

}  // namespace dsanalyze
