#include "launch.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "attach/reads/access_tracer.hpp"
#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/process/processes.hpp"
#include "base/process/spawn.hpp"
#include "base/system/files.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "guardian.hpp"
#include "hook_server.hpp"
#include "hook_signs.hpp"
#include "launch_once.hpp"
#include "memory_watch.hpp"
#include "standstill.hpp"

namespace dsanalyze {
namespace {

constexpr int poll_milliseconds = 20;
constexpr double look_seconds = 1;         ///< between two looks for processes that use PyTorch without the hook
constexpr double later_look_seconds = 2;   ///< and for those without tracer, once the hook has spoken
constexpr double memory_seconds = 0.5;     ///< between two looks at the training's memory, at least
constexpr Nanoseconds looks_apart = 100;   ///< times the CPU time that such a look takes
constexpr std::uint64_t steps_alone = 20;  ///< of optimizers, without any batch: their script is told what a loader needs
constexpr double deaf_seconds = 30;        ///< until a process that the hook has not announced is one without the hook

std::string how_it_ended(const LaunchedTraining& launched) {
  const std::string error = launched.training.error.empty() ? "" : fmt::format(" ({})", printable(launched.training.error));
  if (launched.signal) return fmt::format("was killed by signal {} ({}){}", *launched.signal, ::strsignal(*launched.signal), error);
  return fmt::format("ended with exit status {}{}", launched.exit_status.value_or(0), error);
}

/// One launch, from the start to the end of all its processes.
class Launch {
 public:
  Launch(const LaunchSettings& settings, std::shared_ptr<const Sandbox> sandbox, EventSink& events, Timing timing, AttachedTraining so_far)
      : m_settings(settings),
        m_clock(*timing.clock),
        m_server(settings.folder / "attach"),
        m_tree(::getpid()),
        m_events(events),
        m_conductor(
            settings.plan, [this] { return use(); }, events, std::move(so_far)) {
    m_launched.sandbox = std::move(sandbox);
    if (settings.mode == AttachMode::phases && !settings.tracer.empty()) m_tracer.emplace(settings.tracer, settings.folder, m_clock);
  }

  ~Launch() {
    if (m_settings.mode != AttachMode::phases) return;
    for (const TreeProcess& process : end_descendants(m_over ? 0.2 : m_settings.patience_seconds))
      m_events.note(fmt::format(
          "process {} ({}) is still there: it was killed, and ends once the system call in which it waits returns (storage that does not answer)",
          process.pid, printable(process.command)));
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchedTraining run(const std::stop_token& stop) {
    adopt_orphans();
    m_start = m_clock.now();
    m_next_look = m_start + to_nanoseconds(look_seconds);
    start(stop);
    try {
      lead(stop);
    } catch (const Error& error) {
      // What was measured is told all the same.
      if (m_settings.mode == AttachMode::passive || error.kind() != ErrorKind::failed || !m_conductor.training().measured()) throw;
      m_launched.failure = error.what();
    }
    m_over = m_launched.failure.empty();
    m_launched.seconds = to_seconds(m_clock.now() - m_start);
    m_launched.use = use();
    if (m_settings.mode == AttachMode::phases) m_launched.others = others();
    if (m_tracer) m_launched.accesses = m_tracer->take();
    m_launched.training = m_conductor.end(m_clock.now());
    m_launched.finished = m_conductor.finished();
    if (m_settings.mode == AttachMode::passive) {
      if (!m_launched.heard) check_hook();
      if (!m_launched.heard && m_deaf) fail(unheard_text(*m_deaf));
    }
    if (m_settings.mode == AttachMode::phases && m_launched.failure.empty()) check_end();
    return std::move(m_launched);
  }

 private:
  /// What all processes of the training used up to now.
  TreeUse use() {
    TreeUse use = m_tree.use();
    // What this process reads by itself, of /proc mostly, is none of the training's.
    use.requested_bytes -= std::min(use.requested_bytes, requested_by_threads("/proc/self"));
    if (m_tracer) {
      use.traced_bytes = m_tracer->traced_bytes();
      use.network_bytes = m_tracer->network_bytes();
    }
    if (const CpuSample cpu = sample_cpu(m_host); cpu.busy_seconds > 0) use.machine_cpu_seconds = cpu.busy_seconds - cpu.own_seconds;
    return use;
  }

  /// Who else used the CPU.
  std::vector<ProcessUse> others() {
    watch_processes();
    std::vector<ProcessUse> used = m_watch.used();
    std::erase_if(used, [this](const ProcessUse& process) { return m_own.contains(process.pid); });
    return used;
  }

  void watch_processes() {
    m_watch.look();
    for (const TreeProcess& process : m_tree.living()) m_own.insert(process.pid);
  }

  /// The training holds what it needs by now.
  void look_at_room() {
    m_launched.memory_usable = read_host_facts().memory_usable;
    m_conductor.take_room(*m_launched.memory_usable);
  }

  /// To the end of the command or of the phases.
  void lead(const std::stop_token& stop) {
    while (!over()) {
      m_server.serve(poll_milliseconds,
                     {[this](int member, std::string_view line) { receive(member, line); }, [this](int member) { leave(member); }});
      // A real training is told itself what this program is told (SignalRelay).
      if (stop.stop_requested() && m_settings.mode == AttachMode::phases) {
        // Who gives up waiting for the first step is told what it waits for.
        if (m_launched.first_step_seconds <= 0 && m_launched.heard && to_seconds(m_clock.now() - m_start) > m_settings.plan.hang_seconds)
          m_events.note(explained("no training step was seen yet"));
        throw Interrupted();
      }
      const Nanoseconds now = m_clock.now();
      if (const auto status = collect_children(m_process)) ended(*status);
      look(now);
      look_at_memory(now);
      if (m_tracer) m_tracer->serve();
      if (m_settings.mode == AttachMode::phases) {
        if (!m_launched.memory_usable && m_conductor.has_left_full()) look_at_room();
        tick(now);
        try {
          check_start(now);
        } catch (const StandsStill& error) {
          throw Error(explained(error.what()));
        }
      }
    }
    if (m_settings.mode == AttachMode::phases) {
      hear_last_words();
      await_launcher_of_ranks();
    }
  }

  void tick(Nanoseconds now) {
    try {
      answer(m_conductor.tick(now));
      m_excused_since.reset();
    } catch (const StandsStill& error) {
      if (!m_excused_since) m_excused_since = now;
      if (!asks_for_batches() || to_seconds(now - *m_excused_since) > m_settings.start_seconds) throw Error(explained(error.what()));
    }
  }

  /// Whether some process has asked for a batch a short while ago: a long validation, or steps that have become slow.
  [[nodiscard]] bool asks_for_batches() const {
    const auto oldest = std::filesystem::file_time_type::clock::now() - std::chrono::duration_cast<std::filesystem::file_time_type::duration>(
                                                                            std::chrono::duration<double>(m_settings.plan.hang_seconds));
    std::error_code error;
    for (std::filesystem::directory_iterator each(m_settings.folder, error), end; !error && each != end; each.increment(error)) {
      std::error_code gone;
      if (each->path().filename().native().starts_with("batch-") && std::filesystem::last_write_time(each->path(), gone) > oldest && !gone)
        return true;
    }
    return false;
  }

  /// Says where every process is, and adds to `error` which of them stands still.
  std::string explained(const std::string& error) {
    const Standstill found = explain_standstill(m_tree.living(), m_conductor.training_processes(), m_settings.folder, m_clock);
    m_events.note("the processes of the training are here:");
    for (const std::string& line : found.lines) m_events.note("  " + line);
    return found.cause.empty() ? error : fmt::format("{}. Where it stands: {}", error, found.cause);
  }

  void start(const std::stop_token& stop) {
    if (m_settings.mode == AttachMode::passive) {
      m_relay.emplace();
      // What came before the relay asked this program to stop, and no command that could be told so was there.
      if (stop.stop_requested()) throw Interrupted();
    }
    std::vector<std::string> environment{python_path(m_settings.hook), "DSANALYZE_ATTACH=" + (m_settings.folder / "attach").native(),
                                         "DSANALYZE_ATTACH_MODE=" + enum_name(m_settings.mode),
                                         fmt::format("DSANALYZE_ATTACH_PATIENCE={:g}", m_settings.plan.hang_seconds)};
    if (const auto& change = m_settings.workers)
      environment.push_back(fmt::format("DSANALYZE_ATTACH_WORKERS={} {} {}", change->workers, change->line, change->file));
    if (m_tracer)
      for (std::string& each : m_tracer->environment()) environment.push_back(std::move(each));
    const auto input = m_settings.mode == AttachMode::passive ? SpawnWay::Input::own : SpawnWay::Input::nothing;
    // A real run reads from the terminal as ever, which only the terminal's own group may.
    const auto group = m_settings.mode == AttachMode::passive ? SpawnWay::Group::callers : SpawnWay::Group::of_its_own;
    SpawnWay way{input, m_settings.output, group};
    if (m_launched.sandbox) way.enter = [sandbox = m_launched.sandbox] { return sandbox->enter(); };
    const auto spawn = [&] { return m_process = spawn_command(m_settings.command, environment, way); };
    if (m_settings.mode == AttachMode::phases)
      m_group.emplace(spawn);
    else
      m_relay->send_to(spawn());
  }

  /// What the ranks were told to end say before they do.
  void hear_last_words() {
    constexpr double most_seconds = 2;
    const Deadline deadline = m_clock.after(most_seconds);
    while (m_clock.now() < deadline.at && m_open > 0)
      m_server.serve(poll_milliseconds, {[this](int member, std::string_view line) { receive(member, line); }, [this](int /*member*/) { --m_open; }});
  }

  /// torchrun and its like see their ranks end and then end by themselves; asked to end, they print a stack trace.
  void await_launcher_of_ranks() {
    constexpr double most_seconds = 7;
    const Deadline deadline = m_clock.after(most_seconds);
    while (!m_ended && m_clock.now() < deadline.at && m_tree.maps(m_process, "libtorch")) {
      m_server.serve(poll_milliseconds, {[](int /*member*/, std::string_view /*line*/) {}, [](int /*member*/) {}});
      if (const auto status = collect_children(m_process)) ended(*status);
    }
  }

  [[nodiscard]] bool over() const {
    if (m_settings.mode == AttachMode::passive) return m_ended;
    return m_ended || m_conductor.finished();
  }

  void receive(int member, std::string_view line) {
    HookMessage message;
    try {
      message = parse_hook_message(line);
    } catch (const UsageError& error) {
      return fail(fmt::format("what the hook in the training process says is not understood: {}", error.what()));
    }
    m_launched.heard = true;
    if (std::holds_alternative<HelloMessage>(message) && m_spoken.insert(member).second) ++m_open;
    if (std::holds_alternative<CheckpointMessage>(message) && m_launched.first_step_seconds == 0)
      m_launched.first_step_seconds = to_seconds(m_clock.now() - m_start);
    answer(m_conductor.receive(member, message, m_clock.now()));
  }

  /// A passive run goes on without being measured.
  void fail(const std::string& what) {
    if (m_settings.mode == AttachMode::phases) throw Error(what);
    if (m_launched.failure.empty()) m_launched.failure = what;
  }

  void leave(int member) {
    if (m_spoken.contains(member)) --m_open;
    if (m_settings.mode == AttachMode::phases) answer(m_conductor.leave(member, m_clock.now()));
  }

  void answer(const Conductor::Answers& answers) {
    for (const auto& [member, each] : answers) m_server.send(member, answer_text(each));
  }

  void ended(int status) {
    m_ended = true;
    m_group.reset();
    m_relay.reset();
    if (WIFSIGNALED(status)) {
      m_launched.signal = WTERMSIG(status);
    } else {
      m_launched.exit_status = WEXITSTATUS(status);
    }
  }

  /// For processes that use PyTorch without the hook.
  void look(Nanoseconds now) {
    if (now < m_next_look) return;
    m_next_look = now + to_nanoseconds(m_launched.heard ? later_look_seconds : look_seconds);
    if (m_tracer) m_tracer->look(m_tree);
    if (m_settings.mode == AttachMode::phases) watch_processes();
    if (m_launched.heard) return;
    if (m_settings.mode == AttachMode::phases) check_hook();
    for (TreeProcess& process : m_tree.living()) {
      if (!m_tree.maps(process.pid, "libtorch") || imports_with_hook(m_settings.folder, process.pid)) continue;
      if (!m_deaf || m_deaf->pid != process.pid) m_deaf_since = now;
      m_deaf = std::move(process);
      return;
    }
  }

  void look_at_memory(Nanoseconds now) {
    if (!m_launched.heard || now < m_next_memory_look) return;
    const Nanoseconds used_before = thread_cpu_time();
    m_memory.look(m_tree);
    m_next_memory_look = m_clock.now() + std::max(to_nanoseconds(memory_seconds), looks_apart * (thread_cpu_time() - used_before));
  }

  /// Fails where the hook could not be installed in a process: it has left the reason, and may have ended since.
  void check_hook() {
    for (const auto& [process, fault] : faults_of_hooks(m_settings.folder))
      fail(fmt::format("process {} uses PyTorch, and dsanalyze's hook cannot work there: {}. PyTorch 1.13 and newer are supported", process, fault));
  }

  void check_start(Nanoseconds now) {
    if (m_launched.first_step_seconds > 0) return;
    if (!m_launched.heard && m_deaf && to_seconds(now - m_deaf_since) > deaf_seconds) throw Error(unheard_text(*m_deaf));
    const std::optional<SeenMessage>& seen = m_conductor.training().seen;
    // Batches without gradients alone may be a validation before the training.
    if (seen && (seen->with_gradients > 0 || seen->backward > 0 || seen->optimizer_steps > 0) && !m_train_like_since) m_train_like_since = now;
    if (m_train_like_since && to_seconds(now - *m_train_like_since) > m_settings.plan.seconds) {
      const std::string text =
          fmt::format("{} Where its steps take longer, pass a --time-budget of more than {:g} s", no_step_text(), m_settings.plan.seconds);
      if (seen->optimizer_steps > 0) throw Error(text);  // It goes on.
      throw StandsStill(text);
    }
    if (to_seconds(now - m_start) > m_settings.start_seconds)
      throw StandsStill(fmt::format("{} The command has run for {:.0f} s", no_step_text(), m_settings.start_seconds));
    const bool without_loader = seen && seen->batches == 0 && seen->optimizer_steps >= steps_alone;
    if (!m_said_waiting && (without_loader || to_seconds(now - m_start) > m_settings.plan.seconds)) {
      m_said_waiting = true;
      m_events.note(fmt::format("no training step was seen yet ({}): waiting for one, up to {:.0f} s from the command's start{}", seen_text(),
                                m_settings.start_seconds, m_launched.heard && !without_loader ? "" : ". " + watch_text()));
    }
  }

  [[nodiscard]] std::string seen_text() const {
    const std::optional<SeenMessage>& seen = m_conductor.training().seen;
    if (seen) return "seen: " + text_of(*seen);
    return m_launched.heard ? "seen: a process that uses PyTorch or dsanalyze.watch(), and no batch"
                            : "seen: no process that uses PyTorch's DataLoader or dsanalyze.watch()";
  }

  [[nodiscard]] std::string no_step_text() const { return unrecognised_text(seen_text()) + "."; }

  /// Whether a command that ended by itself did what was needed.
  void check_end() {
    if (m_conductor.finished()) return;
    const AttachedTraining& training = m_launched.training;
    const bool failed = m_launched.signal || m_launched.exit_status.value_or(0) != 0;
    const std::string hint = m_launched.sandbox ? m_launched.sandbox->way_out() : "";
    if (failed && training.measured()) {
      m_launched.failure = fmt::format("the command {} before all phases were measured{}{}", how_it_ended(m_launched), m_memory.kills_text(),
                                       hint.empty() ? "" : ". " + hint);
      return;
    }
    if (!m_launched.heard) check_hook();
    if (failed)
      throw Error(fmt::format("the command {} before it was profiled; run it alone to see why (here its standard input is empty){}{}",
                              how_it_ended(m_launched), m_memory.kills_text(), hint.empty() ? "" : ". " + hint));
    if (!m_launched.heard && m_deaf) throw Error(unheard_text(*m_deaf));
    if (!m_launched.heard)
      throw Error(
          fmt::format("the command ended without having used PyTorch's DataLoader. {}. A script cannot come by standard input, which is empty here",
                      watch_text()));
    if (training.phases.empty()) throw Error(fmt::format("the command ended before a training step was seen; {}", unrecognised_text(seen_text())));
  }

  const LaunchSettings& m_settings;
  const Clock& m_clock;
  HookServer m_server;
  ProcessTree m_tree;
  HostFacts m_host = read_host_facts();
  ProcessWatch m_watch;
  MemoryWatch m_memory;
  std::set<int> m_own;                   ///< descendants that were seen
  std::optional<AccessTracer> m_tracer;  ///< phases
  EventSink& m_events;
  Conductor m_conductor;
  LaunchedTraining m_launched;
  Nanoseconds m_start = 0;
  pid_t m_process = 0;
  std::optional<StartedGroup> m_group;  ///< phases
  std::optional<SignalRelay> m_relay;   ///< passive
  bool m_ended = false;
  bool m_over = false;
  std::optional<Nanoseconds> m_excused_since;  ///< no step comes, and batches are asked for
  std::set<int> m_spoken;                      ///< connections
  int m_open = 0;                              ///< of these, those that are not closed
  std::optional<TreeProcess> m_deaf;           ///< a process that uses PyTorch and has not spoken
  Nanoseconds m_deaf_since = 0;
  Nanoseconds m_next_look = 0;
  Nanoseconds m_next_memory_look = 0;
  std::optional<Nanoseconds> m_train_like_since;  ///< something was seen that a training does
  bool m_said_waiting = false;
};

}  // namespace

std::string python_path(const std::filesystem::path& hook) {
  const char* const given = std::getenv("PYTHONPATH");
  return fmt::format("PYTHONPATH={}{}{}", hook.native(), given != nullptr && *given != '\0' ? ":" : "", given != nullptr ? given : "");
}

LaunchedTraining launch_once(const LaunchSettings& settings, std::shared_ptr<const Sandbox> sandbox, EventSink& events, const std::stop_token& stop,
                             Timing timing, AttachedTraining so_far) {
  return Launch(settings, std::move(sandbox), events, timing, std::move(so_far)).run(stop);
}

}  // namespace dsanalyze
