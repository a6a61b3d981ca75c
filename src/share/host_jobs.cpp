#include "host_jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "host_desk.hpp"
#include "host_lines.hpp"
#include "terms.hpp"

namespace dsanalyze {

namespace {

using group_protocol::Head;
using group_protocol::Kind;
using Stage = group_protocol::Connection::Stage;

constexpr double take_memory_seconds = 60;  // for a slab of many GiB

std::string in_seconds(Nanoseconds wait) { return wait < 0 ? "not known how long" : "about " + format_seconds(to_seconds(wait)); }

const GroupTerms& checked(const GroupHost::Parts& parts) {
  group_protocol::check_terms(parts.terms);
  if (parts.terms.staging.producers == Producers::jobs && parts.index == nullptr) {
    throw UsageError("a group whose jobs make the batches needs the dataset's index, to hand it to them");
  }
  return parts.terms;
}

/// Another descriptor of the same. Throws Error when none is available.
FileDescriptor second_descriptor(int first) {
  FileDescriptor copy(::fcntl(first, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) throw Error("the host has as many open files as it may have");
  return copy;
}

/// 0 for no segment.
Bytes segment_bytes(int descriptor) {
  struct stat facts {};
  return descriptor >= 0 && ::fstat(descriptor, &facts) == 0 ? static_cast<Bytes>(facts.st_size) : 0;
}

}  // namespace

HostJobs::HostJobs(const GroupHost::Parts& parts, HostDesk& desk, HostLines& lines)
    : m_parts(parts),
      m_desk(desk),
      m_lines(lines),
      m_coordinator(
          checked(parts).staging, [this](std::uint32_t at) { return m_places[at] && m_places[at]->lives; }, parts.timing, parts.observer,
          parts.slab) {
  if (parts.index_segment != nullptr) {
    m_index = parts.index_segment->descriptor();
  } else if (parts.index != nullptr) {
    m_own_index = share_index(*parts.index);
    m_index = m_own_index.descriptor();
  }
  const int slab = m_coordinator.slab(staging_most_jobs);
  m_fixed_bytes = segment_bytes(m_coordinator.board()) + segment_bytes(slab);
  if (slab >= 0) {
    std::vector<FileDescriptor> descriptors;
    descriptors.push_back(second_descriptor(slab));
    m_own_slab = std::make_shared<const std::vector<FileDescriptor>>(std::move(descriptors));
  }
  m_progress = m_coordinator.progress();
}

void HostJobs::handle(Connection& connection, Message& message, const MessageSender& sender) {
  try {
    if (message.head.kind == Kind::hello && connection.stage == Stage::fresh) {
      greet(connection, group_protocol::parse_demands(message.text), message.head.epoch, sender);
    } else if (message.head.kind == Kind::ask && connection.stage == Stage::greeted) {
      connection.stage = Stage::asking;
      connection.asked = ++m_asks;
      if (m_ended) m_lines.say(connection, {.kind = Kind::ended});
    } else if (message.head.kind == Kind::enter && connection.stage == Stage::called) {
      place(connection, message);
    } else {
      m_lines.refuse(connection, "it sent a message that makes no sense where it is");
    }
  } catch (const std::exception& error) {
    m_lines.refuse(connection, printable(error.what()));
  }
}

void HostJobs::greet(Connection& connection, const GroupDemands& demands, std::uint64_t command, const MessageSender& sender) {
  try {
    welcome(connection, demands, command, sender);
  } catch (const std::exception& error) {
    m_lines.refuse(connection, printable(error.what()));
  }
}

void HostJobs::process_ended(Connection& connection) { m_places[connection.place]->process_ended = true; }

void HostJobs::line_ended(Connection& connection) {
  Placed& job = *m_places[connection.place];
  if (job.line_ended == 0) job.line_ended = m_parts.timing.clock->now();
}

void HostJobs::settle_ended_lines() {
  const Nanoseconds now = m_parts.timing.clock->now();
  for (Connection& connection : m_lines.all()) {
    if (connection.stage != Stage::placed || connection.socket() >= 0) continue;
    Placed& job = *m_places[connection.place];
    // A process that is killed closes its lines a moment before it is seen to be gone. One that goes on has closed its line itself.
    const bool ends = job.process_ended || connection.process_descriptor() < 0;
    if (!ends && now - job.line_ended < m_parts.terms.staging.look_again) continue;
    job.lives = false;
    connection.stage = Stage::gone;
    m_next_survey = 0;
  }
}

void HostJobs::take_commands() {
  if (m_desk.take_begin()) m_coordinator.begin();
  if (!m_desk.asked_to_end() || m_ending) return;
  m_ending = true;
  m_coordinator.end();
  m_next_survey = 0;
}

void HostJobs::emit(GroupEvent::Kind kind, std::uint32_t at, std::int64_t of_process, std::string text) noexcept {
  if (!m_parts.events) return;
  try {
    m_parts.events({kind, at, of_process, m_progress.next_epoch, std::move(text)});
  } catch (const std::exception&) {
    return;  // what becomes of an event is not the group's affair
  }
}

void HostJobs::welcome(Connection& connection, const GroupDemands& demands, std::uint64_t command, const MessageSender& sender) {
  if (const std::string_view unseen = connection.watch(sender.process); !unseen.empty()) return m_lines.refuse(connection, std::string(unseen));
  if (const std::string differs = refusal(m_parts.terms, demands); !differs.empty()) {
    return m_lines.refuse(connection, differs);
  }
  connection.command = command;
  Head head{.kind = Kind::terms};
  std::vector<FileDescriptor> descriptors;
  descriptors.push_back(second_descriptor(m_coordinator.board()));
  if (m_index >= 0) {
    head.attached |= group_protocol::has_index;
    descriptors.push_back(second_descriptor(m_index));
  }
  if (m_parts.server != nullptr) {
    // Each has a thread until it closes its end, also where its line to this host is gone long since.
    if (m_parts.server->clients() >= static_cast<int>(most_connections)) {
      return m_lines.refuse(connection, "the host's cache has as many processes as it serves at once");
    }
    auto [mine, theirs] = socket_pair();
    m_parts.server->serve(std::move(mine));
    head.attached |= group_protocol::has_server;
    descriptors.push_back(std::move(theirs));
  }
  connection.stage = Stage::greeted;
  m_lines.say(connection, head, group_protocol::to_text(m_parts.terms), std::make_shared<const std::vector<FileDescriptor>>(std::move(descriptors)));
}

std::uint32_t HostJobs::occupied() const {
  const auto taken = std::ranges::count_if(m_places, [](const auto& job) { return job.has_value(); });
  const auto kept = std::ranges::count_if(m_lines.all(), [](const Connection& connection) { return connection.stage == Stage::called; });
  return static_cast<std::uint32_t>(taken + kept);
}

Nanoseconds HostJobs::until_next_epoch() const {
  return m_progress.next_epoch == m_parts.terms.staging.first_epoch ? -1 : m_pace.expected(m_progress.until_next);
}

void HostJobs::let_in() {
  while (!m_ended) {
    Connection* first = nullptr;
    for (Connection& connection : m_lines.all()) {
      if (connection.stage == Stage::asking && (first == nullptr || connection.asked < first->asked)) first = &connection;
    }
    if (first == nullptr || occupied() >= m_parts.terms.staging.jobs) break;
    first->stage = Stage::called;
    first->deadline = m_parts.timing.clock->after(take_memory_seconds);
    m_lines.say(*first, {.kind = Kind::come});
  }
  for (Connection& connection : m_lines.all()) {
    if (m_ended || connection.stage != Stage::asking || connection.told_epoch == m_progress.next_epoch) continue;
    const Nanoseconds wait = until_next_epoch();
    if (connection.told_epoch == UINT64_MAX) {
      emit(GroupEvent::Kind::waiting, staging_most_jobs, connection.process(),
           fmt::format("the group has its {} jobs: it waits for a place, until epoch {} opens at least ({})", m_parts.terms.staging.jobs,
                       m_progress.next_epoch, in_seconds(wait)));
    }
    connection.told_epoch = m_progress.next_epoch;
    m_lines.say(connection, {.kind = Kind::waiting, .epoch = m_progress.next_epoch, .wait = wait});
  }
}

void HostJobs::place(Connection& connection, Message& message) {
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
  const std::uint32_t at = m_coordinator.admit(std::move(page), std::move(slab));
  m_progress = m_coordinator.progress();
  job.first_epoch = m_progress.next_epoch;
  // The process waits for the answer to this message, so its number is still its own.
  const GroupJobOrigin origin{connection.command, ::getpgid(static_cast<pid_t>(job.process))};
  job.account = m_desk.open_account({at, job.process, job.first_epoch, GroupJobAccount::End::none, {}, origin});
  m_places[at] = std::move(job);
  connection.place = at;
  connection.stage = Stage::placed;
  ++m_joined;
  m_next_survey = 0;  // it may be the one that the first epoch waits for
  const Nanoseconds wait = until_next_epoch();
  emit(GroupEvent::Kind::joined, at, connection.process(), fmt::format("process {} is job {}", connection.process(), at));
  if (m_progress.next_epoch != m_parts.terms.staging.first_epoch) {
    emit(GroupEvent::Kind::waiting, at, connection.process(),
         fmt::format("job {} came in mid-epoch: it takes part from epoch {} on ({})", at, m_progress.next_epoch, in_seconds(wait)));
  }
  m_lines.say(connection, {.kind = Kind::placed, .place = at, .epoch = m_progress.next_epoch, .wait = wait});
  introduce_all(connection);
}

void HostJobs::introduce(Connection& to, std::uint32_t at) {
  m_lines.say(to, {.kind = Kind::introduce, .place = at, .attached = m_places[at]->attached}, {}, m_places[at]->segments);
}

void HostJobs::introduce_all(Connection& newcomer) {
  if (m_own_slab != nullptr) {
    m_lines.say(newcomer, {.kind = Kind::introduce, .place = staging_most_jobs, .attached = group_protocol::has_slab}, {}, m_own_slab);
  }
  // Those that went too, while their batches are read.
  for (std::uint32_t at = 0; at < m_places.size(); ++at) {
    if (m_places[at] && at != newcomer.place) introduce(newcomer, at);
  }
  for (Connection& other : m_lines.all()) {
    if (&other != &newcomer && other.stage == Stage::placed) introduce(other, newcomer.place);
  }
}

void HostJobs::note_departure(const StagingRound::Departed& departed, const StagingCounts& counts) {
  using End = GroupJobAccount::End;
  Placed& job = *m_places[departed.place];
  job.departed = true;
  for (Connection& connection : m_lines.all()) {
    if (connection.stage != Stage::placed || connection.place != departed.place) continue;
    connection.stage = Stage::done;
    connection.forget_process();
    if (connection.socket() < 0) connection.stage = Stage::gone;
  }
  const auto tell = [&](End end, GroupEvent::Kind kind, std::string_view what) {
    m_desk.close_account(job.account, end, end == End::garbage ? std::nullopt : std::optional(counts));
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

bool HostJobs::while_starting(const StagingRound::Late& late) const {
  const StagingFacts& facts = m_parts.terms.staging;
  const bool responsible_is_placed = late.responsible < m_places.size() && m_places[late.responsible];
  // Who takes batches from now on, and who makes them: the later of the two.
  std::uint64_t began = m_places[late.waiting] ? m_places[late.waiting]->first_epoch : facts.first_epoch;
  if (responsible_is_placed) began = std::max(began, m_places[late.responsible]->first_epoch);
  return late.sequence < began * facts.batches_per_epoch + facts.window();
}

std::uint64_t HostJobs::ended_epochs() const { return m_progress.released / m_parts.terms.staging.batches_per_epoch; }

void HostJobs::note_late(const StagingRound::Late& late) {
  emit(while_starting(late) ? GroupEvent::Kind::slow_start : GroupEvent::Kind::late, late.responsible,
       late.responsible < m_places.size() && m_places[late.responsible] ? m_places[late.responsible]->process : 0,
       fmt::format("job {} waits for batch {}, which {}: late, not lost", late.waiting, late.sequence,
                   late.responsible == staging_most_jobs ? "the coordinator is to make"
                   : late.responsible == late.waiting    ? "it is to make itself; it has no slot for it until others release theirs"
                                                         : fmt::format("job {} is to make", late.responsible)));
}

void HostJobs::vacate(std::uint32_t at) {
  m_places[at].reset();
  for (Connection& connection : m_lines.all()) {
    if (connection.stage == Stage::placed) m_lines.say(connection, {.kind = Kind::vacated, .place = at});
  }
}

void HostJobs::survey() {
  m_next_survey = m_parts.timing.clock->now() + m_parts.terms.staging.look_again;
  const StagingRound found = m_coordinator.survey();
  for (std::size_t i = 0; i < found.departed.size(); ++i) note_departure(found.departed[i], found.counts[i]);
  for (const StagingRound::Late& late : found.late) note_late(late);
  for (const std::uint32_t at : found.vacated) vacate(at);
  const std::uint64_t opened_before = m_progress.next_epoch;
  const std::uint64_t ended_before = ended_epochs();
  m_progress = m_coordinator.progress();
  m_pace.saw(m_parts.timing.clock->now(), m_progress.released, m_progress.next_epoch);
  if (m_progress.next_epoch != opened_before) emit(GroupEvent::Kind::epoch_opened, 0, 0, fmt::format("epoch {} opened", m_progress.next_epoch - 1));
  for (std::uint64_t epoch = ended_before; epoch < ended_epochs(); ++epoch) {
    emit(GroupEvent::Kind::epoch_ended, 0, 0, fmt::format("epoch {} ended", epoch));
  }
  end_when_due();
}

void HostJobs::end_when_due() {
  const StagingFacts& facts = m_parts.terms.staging;
  if (m_ended || (!m_ending && (facts.epochs == 0 || m_progress.next_epoch - facts.first_epoch < facts.epochs))) return;
  m_ended = true;
  for (Connection& connection : m_lines.all()) {
    if (connection.stage != Stage::fresh) m_lines.say(connection, {.kind = Kind::ended});
  }
  emit(GroupEvent::Kind::ended, 0, 0, "no epoch will open any more");
}

void HostJobs::publish_state() {
  GroupHost::State now;
  std::vector<std::pair<std::size_t, StagingCounts>> counts;
  now.shared_bytes = m_fixed_bytes;
  for (std::uint32_t at = 0; at < m_places.size(); ++at) {
    const auto& job = m_places[at];
    if (!job) continue;
    now.shared_bytes += job->bytes;
    if (job->departed) continue;
    counts.emplace_back(job->account, m_coordinator.counts(at));
    ++(job->first_epoch < m_progress.next_epoch ? now.jobs : now.waiting);
  }
  now.over = m_ended && counts.empty();
  now.waiting += static_cast<std::uint32_t>(std::ranges::count_if(
      m_lines.all(), [](const Connection& connection) { return connection.stage == Stage::asking || connection.stage == Stage::called; }));
  now.joined = m_joined;
  now.lines = static_cast<std::uint32_t>(std::ranges::count_if(m_lines.all(), [](const Connection& connection) { return connection.socket() >= 0; }));
  now.opened_epochs = m_progress.next_epoch - m_parts.terms.staging.first_epoch;
  m_desk.publish(now, m_joined > 0 && now.jobs + now.waiting == 0, counts);
}

}  // namespace dsanalyze
