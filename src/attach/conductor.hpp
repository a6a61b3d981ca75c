#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/process/process_tree.hpp"
#include "messages.hpp"
#include "training.hpp"

namespace dsanalyze {

/// A rank does not come to its next checkpoint. Its processes may say where they are (explain_standstill()).
class StandsStill : public Error {
 public:
  using Error::Error;
};

/// Leads the ranks of one start of a training through the phases full, cached, busy, synthetic and prep, at steps that all of them reach. Phases go
/// one way, and those that an earlier start has completed are passed over. It decides and keeps what was measured; it neither sends nor waits.
/// Threads: one at a time.
///
/// Each rank that comes to a checkpoint waits there. Once all ranks with a training loader stand at one, all get the same answer, so that no rank is
/// ever in another phase than the others, however many steps lie between two checkpoints.
class Conductor {
 public:
  enum class Phases {
    all,
    full_and_prep,  ///< those that an ordinary run of the command makes, too
    full            ///< the training as it is, for all of the time
  };
  struct Plan {
    Phases phases = Phases::all;
    double seconds = 180;              ///< for all phases, from the first checkpoint on
    double settling_seconds = 0;       ///< before them: the training takes steps that are not measured
    double hang_seconds = 60;          ///< the longest that one rank may keep the others waiting
    double follower_seconds = 10;      ///< a rank without a loader by then has none, and one without a process is elsewhere
    std::vector<int> worker_counts{};  ///< for which P is measured besides the job's own
    /// The share of the last second in which the GPUs of these UUIDs computed; nothing where that is not known.
    std::function<std::optional<double>(const std::string& gpus)> device_use{};
    Bytes subset_bytes = 0;             ///< at most, of what is read for prep and cached; 0: by take_room()
    Bytes kept_bytes = Bytes{1} << 30;  ///< at most, of the batches that are handed out again and their copies, each rank
  };
  /// `use`: what all processes of the training used up to now. `so_far`: what earlier starts of the command have measured.
  Conductor(Plan plan, std::function<TreeUse()> use, EventSink& events, AttachedTraining so_far = {});

  struct Addressed {
    int member = 0;
    Answer answer;
  };
  using Answers = std::vector<Addressed>;

  /// A message of the process behind connection `member`. Throws Error when the training cannot be profiled further.
  Answers receive(int member, const HookMessage& message, Nanoseconds now);
  /// Its connection is closed. A rank that ended so while others train ends the profile at the next tick(), which names all that did by then.
  Answers leave(int member, Nanoseconds now);
  /// To be called a few times a second: deadlines. Throws StandsStill that names the rank for which the others wait in vain, and Error where ranks
  /// run on other servers or one has ended.
  Answers tick(Nanoseconds now);

  /// What the page cache may use beside the training. A quarter of it is for the subset, where the plan does not say how much: what the kernel has
  /// found to be in use keeps its place in memory, and a subset that has no room would come from storage again.
  void take_room(Bytes usable) {
    constexpr Bytes part = 4;
    if (m_plan.subset_bytes == 0) m_plan.subset_bytes = usable / part;
  }

  /// All phases are over: every rank was told to end.
  [[nodiscard]] bool finished() const { return m_stage == Stage::done; }
  /// The training as found is measured, once at least.
  [[nodiscard]] bool has_left_full() const { return m_stage != Stage::full; }
  [[nodiscard]] const AttachedTraining& training() const { return m_training; }
  /// The start is over: what was measured. A phase that all of its steps were for is as complete as it can be.
  const AttachedTraining& end(Nanoseconds now);
  /// Those that are known to train: their ranks, by PID.
  [[nodiscard]] std::map<int, int> training_processes() const;

 private:
  enum class Stage { full, warm, cached, busy, synthetic, drains, done };
  static constexpr std::uint64_t warm_up_steps = 10;  ///< at least, where they fit half of a phase
  static constexpr std::uint64_t least_steps = 3;     ///< of a phase, however long they take
  static constexpr double window_seconds = 0.5;
  static constexpr std::size_t least_windows = 8;
  static constexpr double steps_share = 0.45;            ///< of the time budget, for the phases that take steps
  static constexpr std::uint64_t unbounded = 1'000'000;  ///< steps, or batches: as many as there are
  struct Member {
    std::optional<HelloMessage> hello;
    bool trains = false;    ///< has a primary loader
    bool said_bye = false;  ///< it ends by itself
    std::optional<CheckpointMessage> at;
    std::optional<DrainedMessage> drained;
    bool between_epochs = false;              ///< has ended an epoch and not begun the next
    std::uint64_t steps = 0;                  ///< seen so far
    bool epoch_starts = false;                ///< its next window's first step is the first after a gap
    Nanoseconds since = 0;                    ///< of its last message
    double drain_seconds = 0;                 ///< it was asked to drain for so long
    std::uint64_t pass_steps = 0;             ///< of the pass over its loader that goes on
    std::optional<StepWindow> window{};       ///< its steps since the last whole window, of several passes where these are short
    std::optional<Nanoseconds> full_since{};  ///< its last checkpoint of the phase full, while that goes on
    [[nodiscard]] bool waits() const { return at || drained; }
  };

  void take_hello(Member& sender, const HelloMessage& hello);
  [[nodiscard]] bool all_here(Nanoseconds now) const;
  Answers answer_all(const Answer& answer);
  Answers meet(Nanoseconds now);
  Answers let_finish_epoch();
  void find_hanging(Nanoseconds now) const;
  void look_at_device(Nanoseconds now);
  void find_elsewhere(Nanoseconds now);
  Answers decide(Nanoseconds now);
  void take_kept();
  Answer next_steps(Nanoseconds now);
  Answer next_stage(Nanoseconds now);
  Answer start_following(Nanoseconds now);
  [[nodiscard]] bool is_wanted(Stage stage) const;
  [[nodiscard]] std::size_t phases_with_steps() const;
  Answer warm_up(Nanoseconds now);
  Answer next_window();
  Answer start_stage(Stage stage, Nanoseconds now);
  Answer next_drain(Nanoseconds now);
  [[nodiscard]] std::string waiting_text() const;
  void say_phase() const;
  void say_time() const;
  void say_prep() const;
  void take_windows();
  [[nodiscard]] bool counts_next() const;
  void count_steps(Member& member, const std::optional<StepWindow>& window, std::uint64_t before_the_first);
  void take_gap(Member& member, const std::optional<EpochGap>& between, std::optional<StepWindow>& window);
  void take_spent(Member& member);
  [[nodiscard]] std::optional<int> more_workers() const;
  [[nodiscard]] bool another_drain_fits(Nanoseconds now) const;
  DrainMeasurement& drain();
  DrainLoader start_drain(std::vector<DrainMeasurement>& drains, int workers, double seconds) const;
  void take_drains();
  [[nodiscard]] double typical_step_seconds(const StepWindow& window) const;
  [[nodiscard]] std::uint64_t unmeasured_steps() const;
  [[nodiscard]] bool fits(Stage stage, Nanoseconds now) const;
  [[nodiscard]] bool late(Nanoseconds now) const;
  static void add_steps(Member& member);
  [[nodiscard]] bool enough(Nanoseconds now);
  [[nodiscard]] std::uint64_t whole_cycles(std::uint64_t steps, std::uint64_t limit) const;
  [[nodiscard]] std::uint64_t steps_on_device() const;
  [[nodiscard]] std::uint64_t window_steps() const;
  [[nodiscard]] AttachPhase phase() const;
  PhaseMeasurement& measurement();
  [[nodiscard]] bool is_draining() const { return m_stage == Stage::warm || m_stage == Stage::drains; }
  [[nodiscard]] double stage_seconds(Stage stage) const;
  [[nodiscard]] double warm_seconds() const;
  void plan_steps();
  void refuse_second_training(const Member& member);

  Plan m_plan;
  std::function<TreeUse()> m_use;
  EventSink& m_events;
  std::map<int, Member> m_members;
  AttachedTraining m_training;
  std::map<int, int> m_trainers;                   ///< the process that trains, by rank
  std::optional<Nanoseconds> m_elsewhere_since{};  ///< ranks are missing of which it is certain that they do not start here any more
  Stage m_stage = Stage::full;
  bool m_warming_up = true;          ///< the phase's first steps, which are not measured
  std::uint64_t m_window_steps = 1;  ///< of the window that goes on
  bool m_counts = false;             ///< it is to be counted alone
  bool m_can_count = true;           ///< in all ranks nothing but steps happens in a window, as far as is known
  std::uint64_t m_pass_steps = 0;    ///< of the last whole pass that was seen
  bool m_rank_failed = false;        ///< ended by an exception of its own
  std::set<std::string> m_killed;    ///< who ended without a word while others trained
  Nanoseconds m_now = 0;
  std::optional<Nanoseconds> m_begin;  ///< of the first phase
  Nanoseconds m_stage_begin = 0;
  TreeUse m_stage_use;              ///< at that time
  std::uint64_t m_stage_steps = 0;  ///< taken in this stage
  std::uint64_t m_most_steps = 0;   ///< of one stage, where an earlier start had too few for all; 0: no limit
  bool m_is_first = true;           ///< of the start's stages that take steps
  bool m_is_warm = false;           ///< this start has read the subset into memory
  Nanoseconds m_device_look = 0;    ///< the last one
  std::uint64_t m_copies = 0;       ///< of kept batches, for which there is memory
  double m_step_seconds = 0;        ///< of the last window, one rank's
  Nanoseconds m_drains_begin = 0;
  std::size_t m_next_drain = 0;
  std::vector<int> m_drain_workers;
};

}  // namespace dsanalyze
