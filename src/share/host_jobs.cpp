#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "base/text/text.hpp"
#include "host_impl.hpp"
#include "terms.hpp"

namespace dsanalyze {

using group_protocol::Kind;

namespace {

constexpr double take_memory_seconds = 60;  // for a slab of many GiB

std::string in_seconds(Nanoseconds wait) { return wait < 0 ? "not known how long" : "about " + format_seconds(to_seconds(wait)); }

}  // namespace

void GroupHost::Impl::emit(GroupEvent::Kind kind, std::uint32_t at, std::int64_t of_process, std::string text) noexcept {
  if (!parts.events) return;
  try {
    parts.events({kind, at, of_process, progress.next_epoch, std::move(text)});
  } catch (const std::exception&) {
    return;  // what becomes of an event is not the group's affair
  }
}

void GroupHost::Impl::say(Connection& to, const Head& head, const std::string& text, const Attachments& attached) {
  if (!to.send(head, text, attached)) line_ended(to);
}

void GroupHost::Impl::refuse(Connection& connection, const std::string& why) {
  if (connection.stage == Stage::gone) return;
  emit(GroupEvent::Kind::refused, connection.place, connection.process(), why);
  say(connection, {.kind = Kind::refused}, why.substr(0, group_protocol::most_text));
  line_ended(connection);
}

void GroupHost::Impl::greet(Connection& connection, const Message& message, const MessageSender& sender) {
  if (const std::string_view unseen = connection.watch(sender.process); !unseen.empty()) return refuse(connection, std::string(unseen));
  if (const std::string differs = refusal(parts.terms, group_protocol::parse_demands(message.text)); !differs.empty()) {
    return refuse(connection, differs);
  }
  connection.command = message.head.epoch;
  Head head{.kind = Kind::terms};
  std::vector<FileDescriptor> descriptors;
  descriptors.push_back(second_descriptor(coordinator.board()));
  if (index_segment.size() > 0) {
    head.attached |= group_protocol::has_index;
    descriptors.push_back(second_descriptor(index_segment.descriptor()));
  }
  if (parts.server != nullptr) {
    // Each has a thread until it closes its end, also where its line to this host is gone long since.
    if (parts.server->clients() >= static_cast<int>(most_connections)) {
      return refuse(connection, "the host's cache has as many processes as it serves at once");
    }
    auto [mine, theirs] = socket_pair();
    parts.server->serve(std::move(mine));
    head.attached |= group_protocol::has_server;
    descriptors.push_back(std::move(theirs));
  }
  connection.stage = Stage::greeted;
  say(connection, head, group_protocol::to_text(parts.terms), std::make_shared<const std::vector<FileDescriptor>>(std::move(descriptors)));
}

std::uint32_t GroupHost::Impl::occupied() const {
  const auto taken = std::ranges::count_if(places, [](const auto& job) { return job.has_value(); });
  const auto kept = std::ranges::count_if(connections, [](const Connection& connection) { return connection.stage == Stage::called; });
  return static_cast<std::uint32_t>(taken + kept);
}

Nanoseconds GroupHost::Impl::until_next_epoch() const {
  return progress.next_epoch == parts.terms.staging.first_epoch ? -1 : pace.expected(progress.until_next);
}

void GroupHost::Impl::let_in() {
  while (!ended) {
    Connection* first = nullptr;
    for (Connection& connection : connections) {
      if (connection.stage == Stage::asking && (first == nullptr || connection.asked < first->asked)) first = &connection;
    }
    if (first == nullptr || occupied() >= parts.terms.staging.jobs) break;
    first->stage = Stage::called;
    first->deadline = parts.timing.clock->after(take_memory_seconds);
    say(*first, {.kind = Kind::come});
  }
  for (Connection& connection : connections) {
    if (ended || connection.stage != Stage::asking || connection.told_epoch == progress.next_epoch) continue;
    const Nanoseconds wait = until_next_epoch();
    if (connection.told_epoch == UINT64_MAX) {
      emit(GroupEvent::Kind::waiting, staging_most_jobs, connection.process(),
           fmt::format("the group has its {} jobs: it waits for a place, until epoch {} opens at least ({})", parts.terms.staging.jobs,
                       progress.next_epoch, in_seconds(wait)));
    }
    connection.told_epoch = progress.next_epoch;
    say(connection, {.kind = Kind::waiting, .epoch = progress.next_epoch, .wait = wait});
  }
}

void GroupHost::Impl::place(Connection& connection, Message& message) {
  FileDescriptor page = message.take(group_protocol::has_page);
  FileDescriptor slab = message.take(group_protocol::has_slab);
  Placed job;
  std::vector<FileDescriptor> segments;
  for (const auto& [descriptor, flag] : {std::pair(&page, group_protocol::has_page), std::pair(&slab, group_protocol::has_slab)}) {
    if (!descriptor->valid()) continue;
    job.attached |= flag;
    job.bytes += segment_bytes(descriptor->get());
    segments.push_back(second_descriptor(descriptor->get()));
  }
  job.segments = std::make_shared<const std::vector<FileDescriptor>>(std::move(segments));
  job.process = connection.process();
  const std::uint32_t at = coordinator.admit(std::move(page), std::move(slab));
  progress = coordinator.progress();
  job.first_epoch = progress.next_epoch;
  // The process waits for the answer to this message, so its number is still its own.
  const GroupJobOrigin origin{connection.command, ::getpgid(static_cast<pid_t>(job.process))};
  {
    const std::scoped_lock lock(mutex);
    job.account = accounts.size();
    accounts.push_back({at, job.process, job.first_epoch, GroupJobAccount::End::none, {}, origin});
  }
  places[at] = std::move(job);
  connection.place = at;
  connection.stage = Stage::placed;
  ++joined;
  next_survey = 0;  // it may be the one that the first epoch waits for
  const Nanoseconds wait = until_next_epoch();
  emit(GroupEvent::Kind::joined, at, connection.process(), fmt::format("process {} is job {}", connection.process(), at));
  if (progress.next_epoch != parts.terms.staging.first_epoch) {
    emit(GroupEvent::Kind::waiting, at, connection.process(),
         fmt::format("job {} came in mid-epoch: it takes part from epoch {} on ({})", at, progress.next_epoch, in_seconds(wait)));
  }
  say(connection, {.kind = Kind::placed, .place = at, .epoch = progress.next_epoch, .wait = wait});
  introduce_all(connection);
}

void GroupHost::Impl::introduce(Connection& to, std::uint32_t at) {
  say(to, {.kind = Kind::introduce, .place = at, .attached = places[at]->attached}, {}, places[at]->segments);
}

void GroupHost::Impl::introduce_all(Connection& newcomer) {
  if (own_slab != nullptr) {
    say(newcomer, {.kind = Kind::introduce, .place = staging_most_jobs, .attached = group_protocol::has_slab}, {}, own_slab);
  }
  // Those that went too, while their batches are read.
  for (std::uint32_t at = 0; at < places.size(); ++at) {
    if (places[at] && at != newcomer.place) introduce(newcomer, at);
  }
  for (Connection& other : connections) {
    if (&other != &newcomer && other.stage == Stage::placed) introduce(other, newcomer.place);
  }
}

void GroupHost::Impl::note_departure(const StagingRound::Departed& departed, const StagingCounts& counts) {
  using End = GroupJobAccount::End;
  Placed& job = *places[departed.place];
  job.departed = true;
  for (Connection& connection : connections) {
    if (connection.stage != Stage::placed || connection.place != departed.place) continue;
    connection.stage = Stage::done;
    connection.forget_process();
    if (connection.socket() < 0) connection.stage = Stage::gone;
  }
  const auto tell = [&](End end, GroupEvent::Kind kind, std::string_view what) {
    {
      const std::scoped_lock lock(mutex);
      accounts[job.account].end = end;
      if (end != End::garbage) accounts[job.account].counts = counts;
    }
    emit(kind, departed.place, job.process, fmt::format("job {} (process {}) {}", departed.place, job.process, what));
  };
  if (departed.why == StagingDeparture::garbage) {
    return tell(End::garbage, GroupEvent::Kind::garbage,
                "wrote into its shared memory what no working process writes: it was put out, its batches are made anew");
  }
  if (departed.why == StagingDeparture::left) return tell(End::left, GroupEvent::Kind::left, "left");
  if (!job.process_ended) {
    return tell(End::left, GroupEvent::Kind::left, "closed its line to the group without leaving: what it had not made is made by others");
  }
  tell(End::died, GroupEvent::Kind::died, "died: what it had not made is made by others");
}

bool GroupHost::Impl::while_starting(const StagingRound::Late& late) const {
  const StagingFacts& facts = parts.terms.staging;
  const bool responsible_is_placed = late.responsible < places.size() && places[late.responsible];
  // Who takes batches from now on, and who makes them: the later of the two.
  std::uint64_t began = places[late.waiting] ? places[late.waiting]->first_epoch : facts.first_epoch;
  if (responsible_is_placed) began = std::max(began, places[late.responsible]->first_epoch);
  return late.sequence < began * facts.batches_per_epoch + facts.window();
}

std::uint64_t GroupHost::Impl::ended_epochs() const { return progress.released / parts.terms.staging.batches_per_epoch; }

void GroupHost::Impl::survey() {
  const StagingRound found = coordinator.survey();
  for (std::size_t i = 0; i < found.departed.size(); ++i) note_departure(found.departed[i], found.counts[i]);
  for (const auto& late : found.late) {
    emit(while_starting(late) ? GroupEvent::Kind::slow_start : GroupEvent::Kind::late, late.responsible,
         late.responsible < places.size() && places[late.responsible] ? places[late.responsible]->process : 0,
         fmt::format("job {} waits for batch {}, which {}: late, not lost", late.waiting, late.sequence,
                     late.responsible == staging_most_jobs ? "the coordinator is to make"
                     : late.responsible == late.waiting    ? "it is to make itself; it has no slot for it until others release theirs"
                                                           : fmt::format("job {} is to make", late.responsible)));
  }
  for (const std::uint32_t at : found.vacated) {
    places[at].reset();
    for (Connection& connection : connections) {
      if (connection.stage == Stage::placed) say(connection, {.kind = Kind::vacated, .place = at});
    }
  }
  const std::uint64_t opened_before = progress.next_epoch;
  const std::uint64_t ended_before = ended_epochs();
  progress = coordinator.progress();
  pace.saw(parts.timing.clock->now(), progress.released, progress.next_epoch);
  if (progress.next_epoch != opened_before) emit(GroupEvent::Kind::epoch_opened, 0, 0, fmt::format("epoch {} opened", progress.next_epoch - 1));
  for (std::uint64_t epoch = ended_before; epoch < ended_epochs(); ++epoch) {
    emit(GroupEvent::Kind::epoch_ended, 0, 0, fmt::format("epoch {} ended", epoch));
  }
  const StagingFacts& facts = parts.terms.staging;
  if (ended || (!ending && (facts.epochs == 0 || progress.next_epoch - facts.first_epoch < facts.epochs))) return;
  ended = true;
  for (Connection& connection : connections) {
    if (connection.stage != Stage::fresh) say(connection, {.kind = Kind::ended});
  }
  emit(GroupEvent::Kind::ended, 0, 0, "no epoch will open any more");
}

void GroupHost::Impl::publish_state() {
  State now;
  bool any = false;
  now.shared_bytes = fixed_bytes;
  for (const auto& job : places) {
    if (!job) continue;
    now.shared_bytes += job->bytes;
    if (job->departed) continue;
    any = true;
    ++(job->first_epoch < progress.next_epoch ? now.jobs : now.waiting);
  }
  now.waiting += static_cast<std::uint32_t>(std::ranges::count_if(
      connections, [](const Connection& connection) { return connection.stage == Stage::asking || connection.stage == Stage::called; }));
  now.joined = joined;
  now.opened_epochs = progress.next_epoch - parts.terms.staging.first_epoch;
  now.over = ended && !any;
  {
    const std::scoped_lock lock(mutex);
    for (std::uint32_t at = 0; at < places.size(); ++at) {
      if (places[at] && !places[at]->departed) accounts[places[at]->account].counts = coordinator.counts(at);
    }
    state = now;
    nobody_left = joined > 0 && now.jobs + now.waiting == 0;
  }
  changes.fetch_add(1, std::memory_order_release);
  parts.timing.waiter->wake(changes, INT32_MAX);
}

}  // namespace dsanalyze
