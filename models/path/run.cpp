#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/random.hpp"
#include "scheduler.hpp"

namespace dsanalyze {
namespace {

using namespace path;

/// How many more threads there are than those of which all is moved: the others fill in.
double crowd_of(const Path& path) {
  constexpr double few = 16;  // a resolution (a judgement): 256 workers are within 9 % of what they supply (training_path_test.cpp)
  return std::max(moved_threads(path) / few, 1.0);
}

/// Of a batch or a step that computes for long, not every slice is moved.
double turn_of(const Path& path) {
  constexpr double most_turns = 32;  // a resolution: with 64 and 256 the kept rows' errors are the same (tests/corpus/predictions)
  const double computed = std::max({path.steps.samples * path.workers.cpu_seconds.value,
                                    std::max(step_seconds(path.steps), path.steps.seconds.value) * path.steps.threads, path.handover.cpu_seconds});
  return std::max(path.cores.slice_seconds, computed / most_turns) * crowd_of(path);
}

class PathRun {
 public:
  PathRun(const Path& path, std::uint64_t seed, Pace pace)
      : m_path(path),
        m_pace(pace),
        m_random(seed),
        m_scheduler(path.cores, moved_threads(path), turn_of(path)),
        m_parts(std::max(static_cast<std::size_t>(static_cast<double>(most_parts) / crowd_of(path)), std::size_t{1})),
        m_workers(std::max(path.workers.count, 0)),
        m_ranks(path.ranks) {
    m_ahead = std::max(path.workers.prefetch, 1) * m_workers;
    m_processes.resize(trainer_process(m_ranks));
    m_done.resize(m_processes.size());
    m_trainers.resize(static_cast<std::size_t>(m_ranks));
    for (Trainer& trainer : m_trainers) trainer.asked.assign(static_cast<std::size_t>(std::max(m_workers, 1)), 0);
    constexpr int least_batches = 96;  // whose scatter is a tenth of one's
    const int each = std::max(m_workers, 1);
    m_unmeasured = m_ahead + 2 * each;  // what lay ready, and two rounds of the workers
    m_measured = (least_batches + each - 1) / each * each;
  }

  double samples_per_s() {
    for (int rank = 0; rank < m_ranks; ++rank) {
      for (int batch = 0; batch < m_ahead; ++batch) ask_worker(rank, batch);
      ask(rank);
    }
    while (m_steps < m_unmeasured + m_measured) {
      settle();
      const double next = next_event();
      if (next == no_end) return readers() > 0 ? 0 : no_end;  // Storage gives nothing, or nothing takes any time.
      pass(next);
    }
    const double seconds = m_end - m_begin;
    return seconds > 0 ? m_measured * m_path.steps.samples * m_ranks / seconds : no_end;
  }

 private:
  struct Trainer {
    int batch = 0;                 ///< the next one that it asks for
    bool waits = false;            ///< for it
    double device_done = 0;        ///< goes_ahead: when the device has done all that was asked of it
    std::vector<int> asked;        ///< of each worker: the number of batches that it was asked for and has not begun
    std::vector<char> ready = {};  ///< by batch
    bool at_barrier = false;
  };

  [[nodiscard]] std::size_t trainer_process(int rank) const { return static_cast<std::size_t>(rank) * static_cast<std::size_t>(1 + m_workers); }
  [[nodiscard]] std::size_t worker_process(int rank, int worker) const { return trainer_process(rank) + 1 + static_cast<std::size_t>(worker); }

  void push(Process& process, Phase::What what, double amount, int threads = 1) {
    if (!(amount > 0)) return;
    process.phases.at(process.count++) = {what, amount, threads};
  }

  /// Of a batch's samples, those that come from storage. A normal distribution where it is that, as near as matters.
  double drawn_misses(double samples, double miss) {
    constexpr double nearly_normal = 9;  // samples squared: three standard deviations lie between none and all
    const double variance = samples * miss * (1 - miss);
    if (variance > nearly_normal) return std::clamp(samples * miss + m_random.normal() * std::sqrt(variance), 0.0, samples);
    if (miss <= 0 || miss >= 1) return samples * miss;
    constexpr double most_drawn = 1024;  // samples of a batch, each by itself
    const int count = static_cast<int>(std::clamp(std::round(samples), 1.0, most_drawn));
    int misses = 0;
    for (int sample = 0; sample < count; ++sample) misses += m_random.uniform(0, 1) < miss ? 1 : 0;
    return misses * samples / count;
  }

  /// What fetching and preparing a batch takes.
  void prepare(Process& process) {
    const double samples = m_path.steps.samples;
    const int kinds = (m_path.workers.cpu_seconds.value > 0 ? 1 : 0) + (m_path.workers.other_seconds.value > 0 ? 1 : 0) +
                      (m_path.storage.miss_fraction > 0 ? 1 : 0);
    const int parts = kinds > 1 ? std::max(static_cast<int>(std::min(samples, static_cast<double>(m_parts))), 1) : 1;
    const double scatter = m_path.workers.scatter;
    const double factor = 1 + scatter * m_random.uniform(-1, 1) / std::sqrt(samples);
    const double miss = m_path.storage.miss_fraction;
    const double misses = scatter > 0 ? drawn_misses(samples, miss) : samples * miss;
    for (int part = 0; part < parts; ++part) {
      if (!m_path.storage.curve.empty()) push(process, Phase::What::reads, misses / parts);
      push(process, Phase::What::computes, factor * samples * m_path.workers.cpu_seconds.value / (parts * m_path.workers.threads),
           m_path.workers.threads);
      push(process, Phase::What::waits, factor * samples * m_path.workers.other_seconds.value / parts);
    }
  }

  void ask_worker(int rank, int batch) {
    if (m_workers == 0) return;
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    const int worker = batch % m_workers;
    ++trainer.asked[static_cast<std::size_t>(worker)];
    begin_batch(rank, worker);
  }

  void begin_batch(int rank, int worker) {
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    Process& process = m_processes[worker_process(rank, worker)];
    int& asked = trainer.asked[static_cast<std::size_t>(worker)];
    if (!process.rests() || asked == 0) return;
    --asked;
    process.at = process.count = 0;
    prepare(process);
    if (process.rests())
      end_batch(rank, worker);
    else
      begin_phase(static_cast<int>(worker_process(rank, worker)));
  }

  void end_batch(int rank, int worker) {
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    // A worker's batches are every so many.
    int& done = m_done[worker_process(rank, worker)];
    const int batch = done++ * m_workers + worker;
    if (trainer.ready.size() <= static_cast<std::size_t>(batch))
      trainer.ready.resize(static_cast<std::size_t>(batch) + 1 + static_cast<std::size_t>(m_ahead), 0);
    trainer.ready[static_cast<std::size_t>(batch)] = 1;
    begin_batch(rank, worker);
    if (trainer.waits && trainer.batch == batch) take(rank);
  }

  [[nodiscard]] bool is_ready(const Trainer& trainer) const {
    return static_cast<std::size_t>(trainer.batch) < trainer.ready.size() && trainer.ready[static_cast<std::size_t>(trainer.batch)] != 0;
  }

  void ask(int rank) {
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    if (m_workers == 0) {
      Process& process = m_processes[trainer_process(rank)];
      process.at = process.count = 0;
      if (m_pace != Pace::busy) prepare(process);
      push(process, Phase::What::computes, m_path.handover.cpu_seconds);
      m_stage[static_cast<std::size_t>(rank)] = Stage::prepares;
      go_on(rank);
    } else if (is_ready(trainer)) {
      take(rank);
    } else if (m_pace == Pace::busy) {
      step(rank);
    } else {
      trainer.waits = true;
    }
  }

  void take(int rank) {
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    trainer.waits = false;
    Process& process = m_processes[trainer_process(rank)];
    process.at = process.count = 0;
    push(process, Phase::What::computes, m_path.handover.cpu_seconds);
    push(process, Phase::What::waits, m_path.handover.other_seconds);
    m_stage[static_cast<std::size_t>(rank)] = Stage::takes_over;
    go_on(rank);
  }

  void step(int rank) {
    Process& process = m_processes[trainer_process(rank)];
    process.at = process.count = 0;
    m_stage[static_cast<std::size_t>(rank)] = Stage::steps;
    if (m_pace != Pace::drains) {
      const Path::Steps& steps = m_path.steps;
      const double seconds = step_seconds(steps);
      if (steps.goes_ahead) {
        Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
        const double free = std::max(trainer.device_done - m_now, 0.0);  // It is one step ahead of the device.
        push(process, Phase::What::waits, free);
        trainer.device_done = m_now + free + seconds;
      } else {
        const int threads = threads_of_cores(steps.threads);
        const double computed =
            std::min(steps.seconds.value * steps.threads / threads * (steps.threads_scale ? seconds / steps.seconds.value : 1), seconds);
        const int parts = std::clamp(steps.wakes, 1, static_cast<int>(m_parts));
        for (int part = 0; part < parts; ++part) {
          push(process, Phase::What::computes, computed / parts, threads);
          push(process, Phase::What::waits, std::max(seconds - computed, least_wait) / parts);
        }
      }
    }
    go_on(rank);
  }

  void end_step(int rank) {
    m_trainers[static_cast<std::size_t>(rank)].at_barrier = true;
    if (!std::ranges::all_of(m_trainers, &Trainer::at_barrier)) return;
    if (++m_steps == m_unmeasured) m_begin = m_now;
    for (Trainer& trainer : m_trainers) trainer.at_barrier = false;
    if (m_steps == m_unmeasured + m_measured) {
      m_end = m_now;
      return;
    }
    for (int each = 0; each < m_ranks; ++each) m_asking.push_back(each);
  }

  /// The training process of a rank has its next phase, or is done with what it was at.
  void go_on(int rank) {
    Process& process = m_processes[trainer_process(rank)];
    if (!process.rests()) return begin_phase(static_cast<int>(trainer_process(rank)));
    Trainer& trainer = m_trainers[static_cast<std::size_t>(rank)];
    switch (m_stage[static_cast<std::size_t>(rank)]) {
      case Stage::prepares:
        ++trainer.batch;
        return step(rank);
      case Stage::takes_over:
        ask_worker(rank, trainer.batch + m_ahead);
        ++trainer.batch;
        return step(rank);
      case Stage::steps:
        return end_step(rank);
    }
  }

  void begin_phase(int number) {
    Process& process = m_processes[static_cast<std::size_t>(number)];
    const Phase& phase = process.phases[process.at];
    switch (phase.what) {
      case Phase::What::reads:
        process.requests = phase.amount;
        break;
      case Phase::What::computes:
        for (int thread = 0; thread < phase.threads; ++thread) m_scheduler.add(m_processes, number, phase.amount, m_now);
        break;
      case Phase::What::waits:
        process.until = m_now + phase.amount;
        break;
    }
  }

  void end_phase(int number) {
    Process& process = m_processes[static_cast<std::size_t>(number)];
    ++process.at;
    const int rank = number / (1 + m_workers);
    const int place = number % (1 + m_workers);
    if (place == 0)
      go_on(rank);
    else if (process.rests())
      end_batch(rank, place - 1);
    else
      begin_phase(number);
  }

  void settle() {
    while (!m_asking.empty()) {
      const int rank = m_asking.back();
      m_asking.pop_back();
      ask(rank);
    }
  }

  [[nodiscard]] int readers() const {
    return static_cast<int>(std::ranges::count_if(m_processes, [](const Process& process) { return process.requests > 0; }));
  }

  /// Of all readers together, a second. What a limit has let through unused may be read at once.
  [[nodiscard]] double given(int readers) const {
    const double supplied = readers > 0 ? supply(m_path.storage.curve, readers) : 0;
    return m_saved > 0 ? supplied : std::min(supplied, m_path.storage.most);
  }

  [[nodiscard]] double next_event() const {
    double next = m_scheduler.next(m_now);
    const int reading = readers();
    const double all = given(reading);
    if (all > m_path.storage.most) next = std::min(next, m_now + m_saved / (all - m_path.storage.most));
    for (const Process& process : m_processes) {
      next = std::min(next, process.until);
      if (process.requests > 0) next = std::min(next, m_now + process.requests * reading / all);
    }
    return next;
  }

  void save_unused(double all, double seconds) {
    constexpr double saved_seconds = 0.1;  // [Linux, block/blk-throttle.c: a slice of a limited cgroup]
    const double most = m_path.storage.most;
    if (most == no_end) return;
    m_saved = std::min(m_saved + (most - all) * seconds, most * saved_seconds);
    if (m_saved <= std::max(all, most) * instant(m_now + seconds)) m_saved = 0;
  }

  void pass(double next) {
    const int reading = readers();
    const double all = given(reading);
    const double each = reading > 0 ? all / reading : 0;
    const double served = each * (next - m_now);
    save_unused(all, next - m_now);
    m_now = next;
    m_scheduler.run(m_processes, m_now, [this](int number) { m_ended.push_back(number); });
    for (std::size_t number = 0; number < m_processes.size(); ++number) {
      Process& process = m_processes[number];
      if (process.until <= m_now + instant(m_now)) {
        process.until = no_end;
        m_ended.push_back(static_cast<int>(number));
      } else if (process.requests > 0) {
        process.requests -= served;
        if (process.requests > each * instant(m_now)) continue;
        process.requests = 0;
        m_ended.push_back(static_cast<int>(number));
      }
    }
    for (const int number : m_ended) end_phase(number);
    m_ended.clear();
  }

  enum class Stage : std::uint8_t { prepares, takes_over, steps };

  const Path& m_path;
  Pace m_pace;
  RandomStream m_random;
  Scheduler m_scheduler;
  std::size_t m_parts;  // of a batch, and of a step, at most
  int m_workers;
  int m_ranks;
  int m_ahead = 0;
  int m_unmeasured = 0, m_measured = 0;  // steps
  std::vector<Process> m_processes;      // of each rank its training process, and then its workers
  std::vector<Trainer> m_trainers;
  std::vector<Stage> m_stage = std::vector<Stage>(static_cast<std::size_t>(m_ranks), Stage::steps);
  std::vector<int> m_done;  // of each worker, batches
  std::vector<int> m_asking, m_ended;
  double m_now = 0, m_begin = 0, m_end = 0;
  int m_steps = 0;
  double m_saved = 0;  // requests that a limit of storage has let through and no process made
};

}  // namespace

int threads_of_cores(double cores_used) {
  constexpr double hardly = 0.1;
  return static_cast<int>(std::clamp(std::ceil(cores_used - hardly), 1.0, static_cast<double>(most_moved_threads)));
}

double moved_threads(const Path& path) {
  return static_cast<double>(path.ranks) *
         (static_cast<double>(std::max(path.workers.count, 0)) * path.workers.threads + threads_of_cores(path.steps.threads));
}

double step_seconds(const Path::Steps& steps) {
  return std::max(steps.seconds.value - steps.host_seconds, 0.0) / steps.speed + std::min(steps.host_seconds, steps.seconds.value);
}

double slice_on(int cores) {
  constexpr double base_seconds = 0.0007;
  constexpr int most_cores = 8;
  return base_seconds * std::bit_width(static_cast<unsigned>(std::clamp(cores, 1, most_cores)));
}

double supply(const std::vector<SupplyPoint>& curve, double readers) {
  if (curve.empty()) return no_end;
  const auto after = std::ranges::find_if(curve, [readers](const SupplyPoint& point) { return point.readers >= readers; });
  if (after == curve.end()) return curve.back().samples_per_s;
  // One reader of two gets half of what two get, at most.
  if (after == curve.begin()) return after->samples_per_s * std::min(1.0, readers / after->readers);
  const SupplyPoint& before = *(after - 1);
  const double part = std::log(readers / before.readers) / std::log(after->readers / before.readers);
  return before.samples_per_s + part * (after->samples_per_s - before.samples_per_s);
}

double run(const Path& path, std::uint64_t seed, Pace pace) { return PathRun(path, seed, pace).samples_per_s(); }

}  // namespace dsanalyze
