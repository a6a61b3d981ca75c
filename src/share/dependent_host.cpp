#include "dependent_host.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "dependent_callers.hpp"
#include "loaders/dataset/dataset.hpp"
#include "terms.hpp"

namespace dsanalyze {
namespace {

constexpr double hung_up_seconds = 2;  // after which one that was let in and has no line is gone
constexpr double enter_seconds = 60;   // from hello to a job that takes part
constexpr double look_again_seconds = 0.02;
constexpr double last_batch_seconds = 1;  // to take what was announced, when the group is saved

}  // namespace

struct DependentHost::Impl {
  using Caller = DependentCaller;
  /// A job that was let in, until nothing of it is needed any more.
  struct Served {
    std::uint64_t order = 0;  ///< in which they came
    Deadline enter_until;
    bool departed = false;
    bool put_out = false;
    std::string name;            ///< empty: it does not come again
    DependentPosition as_asked;  ///< of the job: batch size, subset and epochs
    std::uint64_t batches_per_epoch = 1;
    std::uint64_t first = 0;  ///< number of its first batch
    std::unique_ptr<GroupHost> host;
  };
  struct Past {
    std::uint64_t order = 0;
    GroupJobAccount account;
  };

  explicit Impl(Parts given)
      : parts(std::move(given)),
        index(share_index(*parts.index)),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        callers(parts.socket, parts.timing),
        positions(std::move(parts.positions)) {
    if (!wake.valid()) throw_errno("cannot make", "an event descriptor", errno);
    thread = std::jthread([this] { run(); });
  }
  ~Impl() {
    end_thread();
    for (std::uint32_t number = 0; number < jobs.size(); ++number) {
      parts.feed->remove(number);
      if (jobs[number]) std::exchange(jobs[number]->host, nullptr).reset();
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void end_thread() {
    stopping.store(true);
    wake_up();
    if (thread.joinable()) thread.join();
  }

  void wake_up() const {
    const std::uint64_t one = 1;
    while (::write(wake.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
  }

  void run() {
    while (!stopping.load()) {
      try {
        wait();
        callers.accept_all();
        for (Caller& caller : callers.all()) look_at(caller);
        callers.drop_done();
        for (std::uint32_t number = 0; number < jobs.size(); ++number) look_at(number);
        publish();
      } catch (const std::exception&) {
        // Without memory: what this round could not do the next one will.
        parts.timing.waiter->sleep_until(parts.timing.clock->after(look_again_seconds).at);
      }
    }
  }

  void wait() {
    polled.clear();
    polled.push_back({wake.get(), POLLIN, 0});
    callers.add_to(polled);
    const auto timeout = static_cast<int>(look_again_seconds * 1000);
    if (::poll(polled.data(), polled.size(), timeout) > 0 && polled[0].revents != 0) {
      std::uint64_t count = 0;
      while (::read(wake.get(), &count, sizeof count) < 0 && errno == EINTR) continue;
    }
  }

  FileDescriptor connect() {
    FileDescriptor line = callers.connect();
    wake_up();
    return line;
  }

  void look_at(Caller& caller) {
    if (!caller.demands) {
      if (const std::string why = callers.hear(caller); !why.empty()) refuse(caller, why);
    }
    if (caller.done) return;
    const bool late = parts.timing.clock->now() >= caller.deadline.at;
    if (!caller.demands) {
      if (late) refuse(caller, "it did not go on in time");
      return;
    }
    const bool another_has_name = caller.demands->name && has_job(*caller.demands->name);
    if (another_has_name && !caller.demands->name_is_given) caller.demands->name.reset();
    const bool waits_for_name = another_has_name && caller.demands->name;
    if (const std::optional<std::uint32_t> number = free_number(); number && !waits_for_name) return let_in(caller, *number);
    if (late && waits_for_name) {
      refuse(caller,
             fmt::format("a job named \"{}\" takes part: come again when it has ended, or under another name", printable(*caller.demands->name)));
    } else if (late) {
      refuse(caller, fmt::format("the group has its {} jobs: come again when one has left, or share with more --jobs", parts.most_jobs));
    }
  }

  void refuse(Caller& caller, const std::string& why) {
    emit({GroupEvent::Kind::refused, 0, caller.sender.process, 0, why});
    DependentCallers::dismiss(caller, group_protocol::Kind::refused, why);
  }

  /// It is among the accounts all the same: a command that comes again has done nothing wrong.
  void say_that_all_is_had(Caller& caller, const std::string& why) {
    GroupJobAccount account;
    account.process = caller.sender.process;
    account.end = JobEnd::finished;
    account.origin = {caller.command, std::max<std::int64_t>(::getpgid(static_cast<pid_t>(caller.sender.process)), 0)};
    {
      const std::scoped_lock lock(mutex);
      past.push_back({++came, account});
    }
    emit({GroupEvent::Kind::left, 0, account.process, 0, fmt::format("process {} comes again: {}", account.process, why)});
    DependentCallers::dismiss(caller, group_protocol::Kind::ended, why);
  }

  [[nodiscard]] std::optional<std::uint32_t> free_number() const {
    for (std::uint32_t number = 0; number < parts.most_jobs; ++number) {
      if (!jobs[number]) return number;
    }
    return {};
  }

  /// A job that was let in, and has not been let go of.
  [[nodiscard]] bool has_job(const std::string& name) const {
    return std::ranges::any_of(jobs, [&](const auto& job) { return job && job->name == name; });
  }

  [[nodiscard]] DependentPositions::iterator position_of(const std::string& name) {
    return name.empty() ? positions.end() : std::ranges::find(positions, name, &DependentPositions::value_type::first);
  }

  void let_in(Caller& caller, std::uint32_t number) {
    caller.done = true;
    try {
      const std::string name = caller.demands->name.value_or("");
      const auto position = position_of(name);
      const bool goes_on = position != positions.end();
      DependentTerms::Job job = parts.terms->of(*caller.demands, goes_on ? &position->second : nullptr);
      GroupDemands demands = std::move(*caller.demands);
      const StagingFacts& staging = job.terms.staging;
      Served served;
      served.name = name;
      served.as_asked = {job.job.batch_size, goes_on ? position->second.subset : demands.subset.value_or(""),
                         staging.epochs == 0 ? 0 : staging.first_epoch + staging.epochs};
      served.batches_per_epoch = staging.batches_per_epoch;
      served.first = job.job.first;
      job.job.comes_again = !name.empty();
      demands.subset.reset();  // the terms have it
      demands.epochs.reset();
      if (const std::string differs = refusal(job.terms, demands); !differs.empty()) return refuse(caller, differs);
      GroupHost::Parts of_host{job.terms, {}, parts.index, parts.server, parts.timing, {}, {}, &index};
      const std::string words = fmt::format(
          "batches of {}, {} samples an epoch{}{}", job.job.batch_size, job.terms.samples,
          staging.epochs == 0 ? "" : fmt::format(", epochs: {}", staging.epochs),
          goes_on ? fmt::format("; \"{}\" goes on with batch {} of epoch {}", printable(name), staging.first_batch, staging.first_epoch) : "");
      served.order = ++came;
      of_host.events = [this, number, words, order = served.order](const GroupEvent& event) { saw(number, order, words, event); };
      // Other jobs are not to wait for the memory of this one's slots, which may be GiBs: a thread of its host's takes it meanwhile.
      of_host.slab = {true, promised_bytes(), parts.before_piece};
      served.host = std::make_unique<GroupHost>(std::move(of_host));
      served.enter_until = parts.timing.clock->after(enter_seconds);
      GroupHost& host = *served.host;
      {
        const std::scoped_lock lock(mutex);
        jobs[number] = std::move(served);
      }
      if (goes_on) positions.erase(position);
      parts.feed->add(number, std::move(job.job), host.producer());
      host.adopt(std::move(caller.line), std::move(demands), caller.command, caller.sender);
    } catch (const EpochsOverError& error) {
      say_that_all_is_had(caller, error.what());
    } catch (const std::exception& error) {
      if (caller.line.valid()) refuse(caller, printable(error.what()));
    }
  }

  /// Memory of the jobs' slots that their hosts have not taken from the system yet.
  [[nodiscard]] Bytes promised_bytes() const {
    Bytes promised = 0;
    for (const auto& job : jobs) promised += job ? job->host->promised_bytes() : 0;
    return promised;
  }

  void saw(std::uint32_t number, std::uint64_t order, const std::string& words, const GroupEvent& event) {
    using Kind = GroupEvent::Kind;
    const auto tell = [&](std::string text) { emit({event.kind, number, event.process, event.epoch, std::move(text)}); };
    const std::string who = fmt::format("job {} (process {})", number, event.process);
    switch (event.kind) {
      case Kind::joined:
        return tell(fmt::format("process {} is job {}: {}", event.process, number, words));
      case Kind::left:
        depart(number, order, event.kind);
        return tell(who + " left");
      case Kind::died:
        depart(number, order, event.kind);
        return tell(who + " died: its samples leave the draws");
      case Kind::garbage:
        depart(number, order, event.kind);
        return tell(who + " wrote into its shared memory what no working process writes: it was put out");
      case Kind::late:
      case Kind::slow_start:
        return tell(fmt::format("job {} waits longer than ten of its iterations for a batch: late, not lost", number));
      case Kind::refused:
        return tell(event.text);
      default:
        return;
    }
  }

  /// By the job's host, whose thread this is.
  void depart(std::uint32_t number, std::uint64_t order, GroupEvent::Kind why) {
    {
      const std::scoped_lock lock(mutex);
      if (!jobs[number] || jobs[number]->order != order) return;
      parts.feed->end(number);
      jobs[number]->departed = true;
      jobs[number]->put_out = why == GroupEvent::Kind::garbage;
    }
    wake_up();
  }

  /// Lets go of a job that departed, or never came. One that was put out hears so from its host, for as long as it is there.
  void look_at(std::uint32_t number) {
    GroupHost* host = nullptr;
    bool departed = false;
    bool put_out = false;
    {
      const std::scoped_lock lock(mutex);
      if (!jobs[number]) return;
      host = jobs[number]->host.get();
      departed = jobs[number]->departed;
      put_out = jobs[number]->put_out;
    }
    const GroupHost::State there = host->state();
    const Nanoseconds now = parts.timing.clock->now();
    // A line that was adopted is among those of the state a round later.
    const Nanoseconds came_at = jobs[number]->enter_until.at - to_nanoseconds(enter_seconds);
    const bool hung_up = there.joined == 0 && there.lines == 0 && now > came_at + to_nanoseconds(hung_up_seconds);
    const bool too_late = there.joined == 0 && now >= jobs[number]->enter_until.at;
    if (departed ? put_out && there.lines > 0 : !hung_up && !too_late) return;
    parts.feed->end(number);
    remember(number, 0);
    parts.feed->remove(number);
    std::unique_ptr<GroupHost> gone;
    const std::scoped_lock lock(mutex);
    for (GroupJobAccount account : host->accounts()) {
      account.place = number;
      past.push_back({jobs[number]->order, account});
    }
    past_joined += host->state().joined;
    most_epochs = std::max(most_epochs, host->state().opened_epochs);
    gone = std::move(jobs[number]->host);
    jobs[number].reset();
    leaving.push_back(std::move(gone));
  }

  /// Where a job with a name goes on, if it has not left and has something to come. `least`: batches of all epochs that it had in any case.
  void remember(std::uint32_t number, std::uint64_t least) {
    const Served& job = *jobs[number];
    if (job.name.empty()) return;
    const std::vector<GroupJobAccount> of_host = job.host->accounts();
    const bool took_part = !of_host.empty();
    if (took_part && of_host.back().end == JobEnd::garbage) return;
    const bool left = took_part && of_host.back().end == JobEnd::left;
    const std::uint64_t had = job.first + (took_part ? of_host.back().counts.batches_taken : 0);
    DependentFeed::Rest rest = parts.feed->rest(number, std::max(had, least));
    DependentPosition position = job.as_asked;
    position.epoch = rest.next / job.batches_per_epoch;
    position.batch = rest.next % job.batches_per_epoch;
    position.samples = std::move(rest.samples);
    const bool done = position.epochs != 0 && position.epoch >= position.epochs;
    if (rest.next == 0 || (left && !done)) return;
    keep(done ? finished : positions, job.name, std::move(position));
  }

  static void keep(DependentPositions& among, const std::string& name, DependentPosition position) {
    std::erase_if(among, [&](const auto& each) { return each.first == name; });
    if (among.size() >= most_positions / 2) among.erase(among.begin());
    among.emplace_back(name, std::move(position));
  }

  [[nodiscard]] bool has_had(const Served& job, std::uint64_t batches) const {
    const std::vector<GroupJobAccount> of_host = job.host->accounts();
    return of_host.empty() || of_host.back().end != JobEnd::none || job.first + of_host.back().counts.batches_taken >= batches;
  }

  DependentPositions stop() {
    end_thread();
    parts.feed->freeze();
    std::array<std::uint64_t, most_dependent_jobs> had{};
    for (std::uint32_t number = 0; number < jobs.size(); ++number)
      if (jobs[number]) had.at(number) = jobs[number]->host->withdraw();
    const Deadline deadline = parts.timing.clock->after(last_batch_seconds);
    for (std::uint32_t number = 0; number < jobs.size(); ++number) {
      if (!jobs[number]) continue;
      while (!has_had(*jobs[number], had.at(number)) && parts.timing.clock->now() < deadline.at)
        parts.timing.waiter->sleep_until(parts.timing.clock->after(look_again_seconds / 10).at);
      const std::vector<GroupJobAccount> of_host = jobs[number]->host->accounts();
      // One that is there and has not looked yet finds its batch when it does.
      const bool there = !of_host.empty() && of_host.back().end == JobEnd::none;
      remember(number, there ? had.at(number) : 0);
    }
    for (auto& [name, position] : finished)
      if (position_of(name) == positions.end()) positions.emplace_back(name, std::move(position));
    return std::exchange(positions, {});
  }

  void publish() {
    leaving.clear();  // without the lock: a host's thread may be in depart()
    GroupHost::State now;
    {
      const std::scoped_lock lock(mutex);
      now.joined = past_joined;
      now.opened_epochs = most_epochs;
      bool any = callers.any();  // one that was let in may not take part yet
      for (const auto& job : jobs) {
        if (!job) continue;
        any = any || !job->departed;
        const GroupHost::State of = job->host->state();
        now.jobs += job->departed ? 0 : of.jobs;
        now.waiting += job->departed ? 0 : of.waiting;
        now.joined += of.joined;
        now.lines += of.lines;
        now.opened_epochs = std::max(now.opened_epochs, of.opened_epochs);
        now.shared_bytes += of.shared_bytes;
      }
      now.over = now.joined > 0 && !any;
      state = now;
    }
    changes.fetch_add(1, std::memory_order_release);
    parts.timing.waiter->wake(changes, INT32_MAX);
  }

  void emit(const GroupEvent& event) noexcept {
    if (!parts.events) return;
    try {
      const std::scoped_lock lock(events_mutex);
      parts.events(event);
    } catch (const std::exception&) {
      return;  // what becomes of an event is not the group's affair
    }
  }

  Parts parts;
  MemorySegment index;
  FileDescriptor wake;
  std::atomic<bool> stopping{false};

  // Of the thread alone.
  DependentCallers callers;  ///< connect() is of any thread
  std::vector<pollfd> polled;
  std::uint64_t came = 0;
  std::vector<std::unique_ptr<GroupHost>> leaving;
  DependentPositions positions;  ///< of jobs that do not take part
  DependentPositions finished;   ///< of those that had all their epochs: in this group such a name may begin anew, not in one that goes on

  mutable std::mutex mutex;
  std::array<std::optional<Served>, most_dependent_jobs> jobs;  ///< by number; emplaced and reset by the thread alone
  std::vector<Past> past;
  std::uint64_t past_joined = 0;
  std::uint64_t most_epochs = 0;
  GroupHost::State state;
  std::atomic<std::uint32_t> changes{0};
  std::mutex events_mutex;

  std::jthread thread;  ///< last: it uses all of the above
};

DependentHost::DependentHost(Parts parts) {
  if (parts.most_jobs < 1 || parts.most_jobs > most_dependent_jobs)
    throw UsageError(fmt::format("a dependent group has 1 to {} jobs at once, not {}", most_dependent_jobs, parts.most_jobs));
  m_impl = std::make_unique<Impl>(std::move(parts));
}
DependentHost::~DependentHost() = default;

FileDescriptor DependentHost::connect() { return m_impl->connect(); }

std::string DependentHost::address() const { return m_impl->callers.address(); }

GroupHost::State DependentHost::state() const {
  const std::scoped_lock lock(m_impl->mutex);
  return m_impl->state;
}

std::vector<GroupJobAccount> DependentHost::accounts() const {
  std::vector<Impl::Past> all;
  {
    const std::scoped_lock lock(m_impl->mutex);
    all = m_impl->past;
    for (std::uint32_t number = 0; number < m_impl->jobs.size(); ++number) {
      const auto& job = m_impl->jobs[number];
      if (!job) continue;
      for (GroupJobAccount account : job->host->accounts()) {
        account.place = number;
        all.push_back({job->order, account});
      }
    }
  }
  std::ranges::sort(all, {}, &Impl::Past::order);
  std::vector<GroupJobAccount> accounts;
  accounts.reserve(all.size());
  for (const Impl::Past& each : all) accounts.push_back(each.account);
  return accounts;
}

DependentPositions DependentHost::stop() { return m_impl->stop(); }

bool DependentHost::wait_over(Deadline deadline) {
  Impl& impl = *m_impl;
  while (true) {
    const std::uint32_t seen = impl.changes.load(std::memory_order_acquire);
    if (state().over) return true;
    if (impl.parts.timing.clock->now() >= deadline.at) return false;
    impl.parts.timing.waiter->wait(impl.changes, seen, deadline);
  }
}

}  // namespace dsanalyze
