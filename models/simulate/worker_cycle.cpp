#include "worker_cycle.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr double no_event = std::numeric_limits<double>::infinity();

/// Serves so many at once in equal parts, and those that came later after them. Its own time runs with what each of those that are served gets, so
/// that the one with the least need left goes first.
class Station {
 public:
  explicit Station(std::size_t at_once) : m_at_once(at_once) {}
  void come(int worker, double need) {
    if (m_present.size() < m_at_once)
      m_present.emplace(m_served + need, worker);
    else
      m_waiting.emplace(need, worker);
  }
  [[nodiscard]] std::size_t served() const { return m_present.size(); }
  [[nodiscard]] bool empty() const { return m_present.empty(); }
  [[nodiscard]] std::size_t present() const { return m_present.size() + m_waiting.size(); }
  /// How long until the next one leaves, where each gets so much a second.
  [[nodiscard]] double until_next(double each) const { return m_present.empty() || each <= 0 ? no_event : (m_present.top().first - m_served) / each; }
  void pass(double seconds, double each) { m_served += m_present.empty() ? 0 : seconds * each; }
  int leave() {
    const int worker = m_present.top().second;
    m_served = std::max(m_served, m_present.top().first);
    m_present.pop();
    if (!m_waiting.empty()) {
      m_present.emplace(m_served + m_waiting.front().first, m_waiting.front().second);
      m_waiting.pop();
    }
    return worker;
  }

 private:
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> m_present;
  std::queue<Entry> m_waiting;
  std::size_t m_at_once;
  double m_served = 0;  ///< to each that was served all the time
};

class WorkersAtWork {
 public:
  explicit WorkersAtWork(const WorkerCycle& cycle)
      : m_cycle(cycle), m_random(seed), m_storage(served_at_once(cycle)), m_cores(unlimited), m_elsewhere(unlimited) {
    for (std::size_t readers = 0; readers <= static_cast<std::size_t>(cycle.workers); ++readers)
      m_supply.push_back(supply(cycle.storage, static_cast<double>(std::max<std::size_t>(readers, 1))));
  }

  double rate() {
    // Workers that begin at once would go on in step for a while.
    for (int worker = 0; worker < m_cycle.workers; ++worker) m_elsewhere.come(worker, m_random.uniform(0, typical_seconds()));
    const double misses = std::max(m_cycle.miss_fraction, 1e-9);
    const double needed = std::max<double>(least_samples, samples_a_worker * m_cycle.workers);
    const auto count = static_cast<std::uint64_t>(std::clamp(least_misses / misses, needed, std::max(needed, most_samples)));
    // A queue at storage fills once each worker has missed.
    const auto warm_up = std::max(count / 5, static_cast<std::uint64_t>(std::min(2 * m_cycle.workers / misses, static_cast<double>(count))));
    while (m_done < warm_up) step();
    const double begin = m_now;
    while (m_done < warm_up + count) step();
    return static_cast<double>(count) / (m_now - begin);
  }

 private:
  static constexpr std::uint64_t seed = 20'241;
  static constexpr int least_samples = 10'000;
  static constexpr int samples_a_worker = 40;
  static constexpr double least_misses = 1'000;
  static constexpr double most_samples = 40'000;

  static constexpr std::size_t unlimited = SIZE_MAX;

  /// A storage that is no faster for many than for one reads for one after another.
  static std::size_t served_at_once(const WorkerCycle& cycle) {
    const double alone = supply(cycle.storage, 1);
    const double all = supply(cycle.storage, cycle.workers);
    return std::isfinite(all) ? std::max<std::size_t>(static_cast<std::size_t>(std::ceil(all / alone - 0.25)), 1) : unlimited;
  }
  [[nodiscard]] double typical_seconds() const {
    const double storage = m_cycle.miss_fraction > 0 ? m_cycle.miss_fraction / m_supply.front() : 0;
    return m_cycle.cpu_seconds + m_cycle.other_seconds + storage;
  }
  double scattered(double mean) { return mean * m_random.uniform(0.5, 1.5); }

  void start_sample(int worker) {
    if (m_random.uniform(0, 1) < m_cycle.miss_fraction) {
      enter_slice();
      m_at_the_limit.push({worker, scattered(1)});
    } else {
      prepare(worker);
    }
  }
  [[nodiscard]] double of_slice() const { return m_cycle.admitted * admission_slice_seconds; }
  /// Begins a slice where the last one is over.
  void enter_slice() {
    constexpr double rounding = 1e-9;
    if (m_now < m_slice_end - rounding) return;
    const double slices = 1 + std::floor((m_now - m_slice_end + rounding) / admission_slice_seconds);
    m_left_of_slice += slices * of_slice();
    // While reads go on, what one slice leaves is good for the next one; after a pause of a slice it is lost.
    if (m_at_the_limit.empty()) m_left_of_slice = std::min(m_left_of_slice, (slices < 2 ? 2 : 1) * of_slice());
    m_slice_end = m_now + admission_slice_seconds;
  }
  /// How long until the limit has let in the next read, which takes from as many slices as it needs.
  double until_admission() {
    enter_slice();
    const double lacks = m_at_the_limit.front().need - m_left_of_slice;
    if (lacks <= 0) return 0;
    return m_slice_end + (std::ceil(lacks / of_slice()) - 1) * admission_slice_seconds - m_now;
  }
  void admit() {
    enter_slice();
    const Read read = m_at_the_limit.front();
    m_at_the_limit.pop();
    m_left_of_slice -= read.need;
    // Of a read that takes several slices storage gives all but the last part meanwhile.
    m_storage.come(read.worker, std::min(read.need, of_slice()));
  }
  void prepare(int worker) {
    if (m_cycle.cpu_seconds > 0)
      m_cores.come(worker, scattered(m_cycle.cpu_seconds));
    else
      wait(worker);
  }
  void wait(int worker) { m_elsewhere.come(worker, scattered(m_cycle.other_seconds)); }

  /// To the next time that a worker is done with something.
  void step() {
    const double of_storage = m_storage.empty() ? 0 : m_supply[m_storage.present()] / static_cast<double>(m_storage.served());
    const double of_cores = m_cores.empty() ? 0 : std::min(1.0, m_cycle.cores / static_cast<double>(m_cores.present()));
    const double storage = m_storage.until_next(of_storage);
    const double cores = m_cores.until_next(of_cores);
    const double elsewhere = m_elsewhere.until_next(1);
    const double admission = m_at_the_limit.empty() ? no_event : until_admission();
    const double next = std::min({storage, cores, elsewhere, admission});
    m_now += next;
    m_storage.pass(next, of_storage);
    m_cores.pass(next, of_cores);
    m_elsewhere.pass(next, 1);
    if (next == admission) {
      admit();
    } else if (next == storage) {
      prepare(m_storage.leave());
    } else if (next == cores) {
      wait(m_cores.leave());
    } else {
      const int worker = m_elsewhere.leave();
      ++m_done;
      start_sample(worker);
    }
  }

  struct Read {
    int worker = 0;
    double need = 0;
  };

  const WorkerCycle& m_cycle;
  RandomStream m_random;
  std::vector<double> m_supply;  ///< by readers
  Station m_storage, m_cores, m_elsewhere;
  std::queue<Read> m_at_the_limit;  ///< reads that the storage's limit has not let in yet
  double m_slice_end = 0;
  double m_left_of_slice = 0;  ///< samples
  double m_now = 0;
  std::uint64_t m_done = 0;
};

}  // namespace

double cycle_rate(const WorkerCycle& cycle) {
  const bool from_storage = cycle.miss_fraction > 0 && !cycle.storage.empty();
  if (cycle.workers < 1 || (from_storage && cycle.admitted <= 0)) return 0;
  if (cycle.cpu_seconds + cycle.other_seconds <= 0 && !from_storage) return no_event;
  if (!from_storage && cycle.cpu_seconds <= 0) return cycle.workers / cycle.other_seconds;
  // Of very many workers, a part on its part of the cores and of storage.
  constexpr double most_simulated = 1024;
  const double parts = std::ceil(cycle.workers / most_simulated);
  WorkerCycle part = cycle;
  part.workers = static_cast<int>(std::lround(cycle.workers / parts));
  part.cores /= parts;
  part.admitted /= parts;
  for (SupplyPoint& point : part.storage) point.readers /= parts, point.samples_per_s /= parts;
  if (!from_storage) part.miss_fraction = 0;
  return WorkersAtWork(part).rate() * (cycle.workers / static_cast<double>(part.workers));
}

}  // namespace dsanalyze
