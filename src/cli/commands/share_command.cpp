#include "command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "cli/attach_watch.hpp"
#include "cli/options/share_options.hpp"
#include "cli/process/data_files.hpp"
#include "share/dependent_run.hpp"
#include "share/group_run.hpp"
#include "started_commands.hpp"
#include "transport/rendezvous/launch.hpp"

namespace dsanalyze::cli {
namespace {

constexpr double look_again_seconds = 0.1;
constexpr double seen_within_seconds = 1;    ///< jobs whose commands have ended; others may have attached too
constexpr double ended_within_seconds = 10;  ///< commands that were asked to end, before they are killed

/// Foreign processes prepare where the jobs do, and what the kernel refuses one of them cannot be asked here: threads read anywhere.
FetchWay share_way(const ProfileSettings& settings) {
  FetchWay way{IoEngine::pread, settings.read_mode};
  if (settings.storage != Seam::real || settings.io == IoEngine::pread) return way;
  if (settings.io == IoEngine::automatic && settings.producers == Producers::jobs) return way;
  const IoSupport support = uring_support();
  if (support.usable) {
    way.engine = IoEngine::uring;
  } else if (settings.io == IoEngine::uring) {
    throw UsageError(fmt::format("--io uring: {}; pass --io auto or pread", support.reason));
  }
  return way;
}

/// What jobs do, for the person who watches.
class GroupNotes {
 public:
  explicit GroupNotes(EventSink& events) : m_events(events) {}
  void operator()(const GroupEvent& event) {
    // A job that hangs is reported again and again by all others: once an epoch will do.
    if (event.kind == GroupEvent::Kind::late && m_told_late == event.epoch) return;
    if (event.kind == GroupEvent::Kind::late) m_told_late = event.epoch;
    m_events.note(event.kind == GroupEvent::Kind::refused ? "refused a process: " + event.text : event.text);
  }

 private:
  EventSink& m_events;
  std::optional<std::uint64_t> m_told_late;
};

bool is_pipe(int descriptor) {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 && S_ISFIFO(facts.st_mode);
}

/// The pipe that is stdin has no process any more that could write to it.
bool stdin_is_closed() {
  pollfd pipe{STDIN_FILENO, 0, 0};
  return ::poll(&pipe, 1, 0) > 0 && (pipe.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

/// A process that reads this program's stdout to its end, as eval "$(dsanalyze share ... &)" does, goes on from here.
void let_go_of_output() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, STDOUT_FILENO);
  ::close(nothing);
}

class ShareCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    const ShareOptions options(context.typed);
    m_words = context.typed.words();
    m_save_state = options.terms().save_state;
    m_ends_with_stdin = context.typed.given("--end-with-stdin");
    if (m_ends_with_stdin && !m_words.empty())
      throw UsageError("--end-with-stdin: a group with a COMMAND ends with its commands; leave one of them out");
    // Who reads the notes may be gone before the group's end, which is to leave nothing all the same.
    if (m_ends_with_stdin) ::signal(SIGPIPE, SIG_IGN);
    const std::array outputs{OutputFile{"-o", context.options.output.value_or("")}, OutputFile{"--trace", options.trace()},
                             OutputFile{"--save-state", m_save_state}};
    check_outputs(outputs, options.inputs());
    std::filesystem::path socket = options.socket();
    ProfileInputs inputs = options.resolve(context.options.seed, context.events, context.stop);
    const Bytes cache_bytes = plan_profile(inputs).cache_bytes;
    std::optional<PrivateFolder> folder;
    if (socket.empty()) socket = folder.emplace().path() / "group";

    const auto started = std::chrono::system_clock::now();
    const Timing timing = system_timing();
    const Nanoseconds begun = timing.clock->now();
    GroupNotes notes(context.events);
    const std::unique_ptr<ShareRun> run = make_run(options, inputs, cache_bytes, socket, timing, [&notes](const GroupEvent& event) { notes(event); });
    ShareRun& group = *run;
    const NamedPlace named(socket);
    const auto library = find_client_library(client_library_places(own_program()));
    std::vector<std::string> environment{"DSANALYZE_GROUP=" + group.address()};
    if (library) std::ranges::copy(library_environment(*library, process_environment()), std::back_inserter(environment));
    announce(environment, context);
    StartedCommands commands(m_words, context.options.json ? SpawnWay::Output::to_stderr : SpawnWay::Output::own);
    if (!m_words.empty()) start(commands, inputs.settings.jobs, environment);

    AttachWatch watch(command_line(), timing.clock->now());
    std::string end;
    while (end.empty()) end = look(group, commands, watch, context, timing);
    if (end == "interrupted") {
      save(group, context);
      stop(commands, timing);
    }
    if (!m_words.empty()) static_cast<void>(group.wait_over(timing.clock->after(seen_within_seconds)));
    if (end != "interrupted") save(group, context);
    commands.look_at(group.jobs());
    ShareResult result = group.finish();
    if (const std::string failure = group.trace_failure(); !failure.empty())
      context.events.finding({"trace-not-written", Finding::Severity::warning, "the group was served, its trace is lost: " + failure});
    result.tool = this_tool();
    result.started_utc = utc_text(started);
    result.seconds = to_seconds(timing.clock->now() - begun);
    result.end = end;
    result.commands = commands.records();
    if (end != "interrupted") {
      find_unattached(result.commands, commands.others(), library.has_value(), context.events);
      find_idle(result.commands, context.events);
    }
    return outcome(result, context);
  }

 private:
  static std::unique_ptr<ShareRun> make_run(const ShareOptions& options, const ProfileInputs& inputs, Bytes cache_bytes, std::filesystem::path socket,
                                            Timing timing, std::function<void(const GroupEvent&)> events) {
    const FetchWay way = share_way(inputs.settings);
    const ShareTerms terms = options.terms();
    if (terms.share == JobSharing::coordinated) {
      return std::make_unique<GroupRun>(GroupRun::Spec{inputs, way, cache_bytes, terms.epochs, terms.held, std::move(socket)}, timing,
                                        std::move(events));
    }
    return std::make_unique<DependentRun>(DependentRun::Spec{inputs, share_pipeline(inputs, way, cache_bytes), terms.epochs, terms.held,
                                                             std::move(socket), options.trace(), terms.resume},
                                          timing, std::move(events));
  }

  void save(ShareRun& group, const CommandContext& context) const {
    if (m_save_state.empty()) return;
    group.save_state(m_save_state);
    context.events.note(fmt::format("saved where the jobs are: --resume {} goes on from there", shell_word(m_save_state)));
  }

  /// `environment`: "NAME=value" each, that jobs need.
  void announce(const std::vector<std::string>& environment, const CommandContext& context) {
    std::string lines;
    for (const std::string& each : environment) {
      if (!each.starts_with("DSANALYZE_")) continue;  // where a shell looks for libraries is its user's affair
      const std::size_t name = each.find('=') + 1;
      lines += fmt::format("export {}{}\n", each.substr(0, name), shell_word(each.substr(name)));
    }
    if (!m_words.empty() || context.options.json) {
      context.events.note(lines.substr(0, lines.size() - 1));
      return;
    }
    context.say(lines);
    if (!is_pipe(STDOUT_FILENO)) return;
    let_go_of_output();
    m_let_go = true;
  }

  static void start(StartedCommands& commands, int jobs, const std::vector<std::string>& environment) {
    for (int job = 0; job < jobs; ++job) {
      std::vector<std::string> added = environment;
      added.push_back(fmt::format("DSANALYZE_JOB={}", job));
      commands.start(added);
    }
  }

  /// How it ended; empty while it goes on.
  std::string look(ShareRun& group, StartedCommands& commands, AttachWatch& watch, const CommandContext& context, Timing timing) {
    const bool over = group.wait_over(timing.clock->after(look_again_seconds));
    if (context.stop.stop_requested()) return "interrupted";
    const GroupHost::State state = group.state();
    if (m_words.empty()) {
      const std::uint64_t epochs = group.terms().staging.epochs;
      if (over && state.opened_epochs > 0) return epochs != 0 && state.opened_epochs >= epochs ? "finished" : "left";
      if (m_ends_with_stdin && state.jobs == 0 && state.lines == 0 && stdin_is_closed()) return "left";
      if (over) pause(timing);  // those that came went before the first epoch; others may come
      return {};
    }
    const std::vector<std::size_t> all_ended = commands.collect();
    const std::vector<GroupJobAccount> jobs = group.jobs();
    commands.look_at(jobs);
    for (const std::size_t ended : all_ended) {
      const ShareCommandRecord command = commands.records()[ended];
      if (command.exit_status != 0 || command.attached == false)
        context.events.note(fmt::format("the command of job {} ended: {}", command.job, how_it_ended(command)));
    }
    if (commands.running() == 0) return "commands-ended";
    const std::string missing = watch.look(
        timing.clock->now(), jobs.empty() ? AttachWatch::Joined::none : AttachWatch::Joined::some,
        state.opened_epochs == 0 && group.first_epoch_waits_for() > 0 ? AttachWatch::FirstEpoch::waits_for : AttachWatch::FirstEpoch::opened,
        commands.unattached());
    if (!missing.empty()) context.events.note(missing);
    // Some came to nothing before the first epoch, which waits for all.
    if (state.opened_epochs == 0 && commands.running() < group.first_epoch_waits_for() && state.waiting >= commands.running()) group.begin();
    if (over) pause(timing);  // jobs have left, and their commands not ended
    return {};
  }
  static void pause(Timing timing) { timing.waiter->sleep_until(timing.clock->after(look_again_seconds).at); }

  static void stop(StartedCommands& commands, Timing timing) {
    commands.signal(SIGTERM);
    const Deadline deadline = timing.clock->after(ended_within_seconds);
    for (commands.collect(); commands.running() > 0 && timing.clock->now() < deadline.at; commands.collect()) {
      timing.waiter->sleep_until(timing.clock->after(look_again_seconds / 5).at);
    }
    commands.signal(SIGKILL);
    while (commands.running() > 0) {
      commands.collect();
      timing.waiter->sleep_until(timing.clock->after(look_again_seconds / 50).at);
    }
  }

  /// Commands that ended well, and were no jobs: says what they lack. `others`: jobs that were no command's.
  void find_unattached(std::span<const ShareCommandRecord> commands, std::size_t others, bool library_is_there, EventSink& events) const {
    const std::vector<int> jobs = jobs_of(commands, [](const ShareCommandRecord& each) { return each.exit_status == 0 && each.attached == false; });
    if (jobs.empty()) return;
    std::string message = fmt::format(
        "the command {} (DSANALYZE_JOB {}) ended without having attached to the group: it trained on none of its batches. A job calls dsa_attach() "
        "of libdsanalyze, which finds the group by the environment variable DSANALYZE_GROUP; what starts the job has to hand that on. "
        "docs/client.md has whole programs in C, C++ and Python.",
        command_line(), fmt::join(jobs, ", "));
    if (others > 0) {
      message += fmt::format(
          " {} that did attach {} no command's: what starts a job in a session of its own has to hand DSANALYZE_COMMAND on too, so that its command "
          "is known.",
          others == 1 ? "One job" : fmt::format("{} jobs", others), others == 1 ? "was" : "were");
    }
    if (!library_is_there) message += " libdsanalyze.so.0 itself is not beside this program: build it (ninja -C build/release), or install it.";
    events.finding({"command-never-attached", Finding::Severity::error, message});
  }

  /// Commands that ended well, and whose jobs took nothing: the same for who wanted to train.
  void find_idle(std::span<const ShareCommandRecord> commands, EventSink& events) const {
    const std::vector<int> jobs = jobs_of(commands, [](const ShareCommandRecord& each) { return each.exit_status == 0 && took_nothing(each); });
    if (jobs.empty()) return;
    events.finding(
        {"command-took-no-batch", Finding::Severity::error,
         fmt::format("the command {} (DSANALYZE_JOB {}) attached to the group, took no batch and ended: it trained on nothing. A job calls "
                     "dsa_next() until that returns DSA_END; any other status but DSA_OK and DSA_TIMEOUT is a failure, which it has to end "
                     "with (dsa_last_error() has the words). A job that comes in after the last epoch has opened gets no batch. "
                     "docs/client.md has whole programs in C, C++ and Python.",
                     command_line(), fmt::join(jobs, ", "))});
  }

  template <typename Which>
  static std::vector<int> jobs_of(std::span<const ShareCommandRecord> commands, const Which& which) {
    std::vector<int> jobs;
    for (const ShareCommandRecord& each : commands) {
      if (which(each)) jobs.push_back(each.job);
    }
    return jobs;
  }

  [[nodiscard]] std::string command_line() const {
    std::vector<std::string> words;
    for (const std::string& word : m_words) words.push_back(shell_word(word));
    return fmt::format("{}", fmt::join(words, " "));
  }

  Outcome outcome(const ShareResult& result, const CommandContext& context) const {
    Outcome outcome{to_json(result), console_summary(result, context.style)};
    const bool failed = std::ranges::any_of(
        result.commands, [](const ShareCommandRecord& each) { return each.exit_status != 0 || each.attached == false || took_nothing(each); });
    if (failed) outcome.exit_code = exit_failed;
    if (result.end == "interrupted") outcome.exit_code = exit_interrupted;
    if (m_let_go) context.events.note(outcome.text);
    return outcome;
  }

  std::vector<std::string> m_words;
  std::string m_save_state;
  bool m_ends_with_stdin = false;
  bool m_let_go = false;  ///< of stdout
};

}  // namespace

std::unique_ptr<Command> make_share_command() { return std::make_unique<ShareCommand>(); }

}  // namespace dsanalyze::cli
