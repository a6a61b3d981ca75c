#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "path.hpp"

// What run() is made of: processes, and the cores that they compute on. Pure.

namespace dsanalyze::path {

inline constexpr double no_end = std::numeric_limits<double>::infinity();

/// Seconds that are none, so long after the begin.
inline double instant(double now) {
  constexpr double rounding = 1e-12;  // thousands of what a double rounds to there
  return rounding * std::max(now, 1.0);
}

inline constexpr double least_wait = 1e-6;  // seconds: a process that waits, however shortly, gives its core away

/// One thing that a process does: requests of storage, seconds of computing, seconds of waiting.
struct Phase {
  enum class What : std::uint8_t { reads, computes, waits };
  What what = What::waits;
  double amount = 0;
  int threads = 1;  ///< that compute it together
};

/// A worker, or a rank's training process.
struct Process {
  std::array<Phase, 3 * most_parts + 1> phases{};
  std::size_t at = 0, count = 0;  ///< of these
  double until = no_end;          ///< it waits
  double requests = 0;            ///< that storage still owes it
  int computing = 0;              ///< its threads that are not done
  double had = 0;                 ///< seconds of cores, in the measure of the scheduler

  [[nodiscard]] bool rests() const { return at == count; }
};

/// Processes that compute take turns on the cores.
class Scheduler {
 public:
  /// No more than `most` threads compute at a time, so more cores change nothing. A part of a core is a slower one.
  /// `turn`: for so long one keeps a core where no process woke meanwhile.
  Scheduler(const Path::Cores& cores, double most, double turn) : m_slice(cores.slice_seconds), m_turn(std::max(turn, cores.slice_seconds)) {
    const double count = std::min(cores.count, most);
    m_cores.resize(static_cast<std::size_t>(std::max(std::ceil(count), 1.0)));
    m_speed = count / static_cast<double>(m_cores.size());
  }

  /// A thread of the process has so much to compute. Who wakes has had a slice less than the others, at most.
  void add(std::vector<Process>& processes, int number, double seconds, double now) {
    Process& process = at(processes, number);
    m_least = std::max(m_least, least_had(processes, now));
    if (process.computing == 0) process.had = std::max(process.had, m_least - m_slice);
    ++process.computing;
    const Task task{number, seconds / m_speed};
    const auto idle = std::ranges::find(m_cores, false, &Core::busy);
    if (idle != m_cores.end())
      idle->begin(task, now, m_turn);
    else
      wait_for_core(processes, task, now);
  }

  [[nodiscard]] double next(double now) const {
    double next = no_end;
    for (const Core& core : m_cores)
      if (core.busy) next = std::min({next, core.done_at(), m_waiting.empty() ? no_end : std::max(core.turn_at, now)});
    return next;
  }

  /// Lets happen what is due; `done(process)` is called of each process all of whose threads are done.
  template <typename Done>
  void run(std::vector<Process>& processes, double now, Done done) {
    for (Core& core : m_cores) {
      if (!core.busy) continue;
      const bool is_done = core.done_at() <= now + instant(now);
      if (!is_done && (m_waiting.empty() || now + instant(now) < core.turn_at)) continue;
      Process& process = at(processes, core.task.process);
      const double took = now - core.began;
      process.had += took;
      core.task.left -= took;
      core.began = now;
      const int number = core.task.process;
      const Task preempted = core.task;
      if (is_done) {
        core.busy = false;
      } else if (at(processes, next_waiting(processes)->process).had >= process.had) {
        core.turn_at = now + m_turn;
        continue;
      }
      begin_next(processes, core, now);
      if (!is_done) m_waiting.push_back(preempted);
      if (is_done && --process.computing == 0) done(number);
    }
  }

 private:
  struct Task {
    int process = 0;
    double left = 0;
  };
  struct Core {
    bool busy = false;
    Task task;
    double began = 0;
    double turn_at = no_end;  ///< then it gives way to one that waits
    void begin(const Task& next, double now, double slice) {
      busy = true;
      task = next;
      began = now;
      turn_at = now + slice;
    }
    [[nodiscard]] double done_at() const { return began + task.left; }
  };

  static Process& at(std::vector<Process>& processes, int number) { return processes[static_cast<std::size_t>(number)]; }

  [[nodiscard]] double least_had(std::vector<Process>& processes, double now) const {
    double least = no_end;
    for (const Core& core : m_cores)
      if (core.busy) least = std::min(least, at(processes, core.task.process).had + now - core.began);
    for (const Task& task : m_waiting) least = std::min(least, at(processes, task.process).had);
    return least == no_end ? 0 : least;
  }

  [[nodiscard]] std::vector<Task>::iterator next_waiting(std::vector<Process>& processes) {
    return std::ranges::min_element(m_waiting, {}, [&](const Task& task) { return at(processes, task.process).had; });
  }

  void begin_next(std::vector<Process>& processes, Core& core, double now) {
    if (m_waiting.empty()) return;
    const auto next = next_waiting(processes);
    core.begin(*next, now, m_turn);
    m_waiting.erase(next);
  }

  /// Who had the most gives way to it after a slice.
  void wait_for_core(std::vector<Process>& processes, const Task& task, double now) {
    const auto had = [&](const Core& core) { return at(processes, core.task.process).had + now - core.began; };
    Core& most = *std::ranges::max_element(m_cores, {}, had);
    most.turn_at = std::min(most.turn_at, std::max(most.began + m_slice, now));
    m_waiting.push_back(task);
  }

  double m_slice, m_turn;
  double m_speed = 1;
  double m_least = 0;  // that one who computes has had; it never falls, so who rested while all did gains nothing by it [min_vruntime]
  std::vector<Core> m_cores;
  std::vector<Task> m_waiting;
};

}  // namespace dsanalyze::path
