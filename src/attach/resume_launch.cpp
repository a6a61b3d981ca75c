#include "resume_launch.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/process/process_tree.hpp"
#include "base/process/processes.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "guardian.hpp"
#include "hook_signs.hpp"
#include "launch.hpp"

namespace dsanalyze {
namespace {

constexpr double answer_look_seconds = 0.05;
constexpr double tree_look_seconds = 1;
constexpr double unheard_seconds = 10;  ///< until a process that uses PyTorch and has not loaded the hook is told
constexpr double end_patience_seconds = 2;
constexpr Bytes most_answer_bytes = Bytes{1} << 20;

std::string options_text(const ResumeSettings& settings) {
  return fmt::format(R"({{"epochs": {}, "runs": {}, "stops": {}, "workers": [{}], "seed": {}}})", settings.epochs, settings.runs, settings.stops,
                     fmt::join(settings.workers, ", "), settings.seed);
}

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

/// One command, from its start to its answer.
class Proof {
 public:
  Proof(const ResumeLaunch& launch, const Sandbox* sandbox, Timing timing)
      : m_launch(launch), m_sandbox(sandbox), m_timing(timing), m_answer(launch.folder / "attach.resume"), m_tree(::getpid()) {
    SpawnWay way;
    way.output = launch.output;
    if (sandbox != nullptr) way.enter = [sandbox] { return sandbox->enter(); };
    const std::vector<std::string> environment{python_path(launch.hook), "DSANALYZE_ATTACH=" + (launch.folder / "attach").native(),
                                               "DSANALYZE_ATTACH_MODE=resume", "DSANALYZE_RESUME=" + options_text(launch.settings)};
    m_group.emplace([&] { return m_process = spawn_command(launch.command, environment, way); });
  }
  ~Proof() { end_descendants(end_patience_seconds); }
  Proof(const Proof&) = delete;
  Proof& operator=(const Proof&) = delete;

  ResumeResult wait(const std::stop_token& stop) {
    const Deadline deadline = m_timing.clock->after(m_launch.most_seconds);
    while (!is_there(m_answer)) {
      if (stop.stop_requested()) throw Interrupted();
      look();
      if (m_timing.clock->now() >= deadline.at)
        throw Error(fmt::format("the loader was not stopped and resumed within {:.0f} s: pass a longer --time-budget, or fewer --runs",
                                m_launch.most_seconds));
      m_timing.waiter->sleep_until(m_timing.clock->after(answer_look_seconds).at);
    }
    return resume_result_of(read_file(m_answer, most_answer_bytes));
  }

 private:
  /// Throws where no answer is to come.
  void look() {
    if (!m_status) m_status = collect_children(m_process);
    if (m_status && !is_there(m_answer)) ended(*m_status);
    const Nanoseconds now = m_timing.clock->now();
    if (now < m_next_look) return;
    m_next_look = m_timing.clock->after(tree_look_seconds).at;
    for (const auto& [process, fault] : faults_of_hooks(m_launch.folder)) throw Error("dsanalyze's hook cannot work in the command: " + fault);
    for (const TreeProcess& process : m_tree.living()) {
      if (!m_tree.maps(process.pid, "libtorch") || imports_with_hook(m_launch.folder, process.pid)) continue;
      if (!m_unheard) m_unheard = {process.pid, now};
      if (m_unheard->pid != process.pid || to_seconds(now - m_unheard->since) < unheard_seconds || is_child_of_heard(process)) continue;
      throw Error(unheard_text(process));
    }
  }

  /// Forked by one that has the hook, and so has it too.
  bool is_child_of_heard(const TreeProcess& process) const { return imports_with_hook(m_launch.folder, process.parent); }

  void ended(int status) const {
    const std::string alone = fmt::format("before it iterated a loader with a state; run it alone to see why (here its standard input is empty){}",
                                          m_sandbox != nullptr ? ". " + m_sandbox->way_out() : "");
    if (WIFSIGNALED(status))
      throw Error(fmt::format("the command was killed by signal {} ({}) {}", WTERMSIG(status), ::strsignal(WTERMSIG(status)), alone));
    if (WEXITSTATUS(status) != 0) throw Error(fmt::format("the command ended with exit status {} {}", WEXITSTATUS(status), alone));
    throw Error(
        "no loader with a state was iterated before the command ended: verify-resume needs a loader with state_dict() and load_state_dict(), such as "
        "torchdata's StatefulDataLoader or dsanalyze.Loader");
  }

  struct Unheard {
    int pid = 0;
    Nanoseconds since = 0;
  };

  const ResumeLaunch& m_launch;
  const Sandbox* m_sandbox;  ///< nullptr: there is none
  Timing m_timing;
  std::filesystem::path m_answer;
  ProcessTree m_tree;
  int m_process = 0;
  std::optional<StartedGroup> m_group;  ///< a second signal ends it at once
  std::optional<int> m_status;
  std::optional<Unheard> m_unheard;
  Nanoseconds m_next_look = 0;
};

}  // namespace

ResumeResult prove_resume(const ResumeLaunch& launch, const std::stop_token& stop, Timing timing) {
  adopt_orphans();
  const GuardedSandbox guarded(launch.sandbox, launch.folder);
  ResumeResult result = Proof(launch, guarded.sandbox(), timing).wait(stop);
  result.tool = this_tool();
  result.command = launch.command;
  result.settings = launch.settings;
  return result;
}

}  // namespace dsanalyze
