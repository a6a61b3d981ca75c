#include "access_tracer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_accesses = std::size_t{1} << 22;
constexpr std::size_t most_files = std::size_t{1} << 21;
constexpr std::size_t most_path_bytes = std::size_t{1} << 28;
constexpr std::size_t most_openings = std::size_t{1} << 20;  ///< of one process, that are remembered
constexpr std::size_t most_processes = 2048;                 ///< that are traced at once
constexpr std::size_t most_known_processes = std::size_t{1} << 18;
constexpr double drain_seconds = 0.1;
constexpr double patience_with_newcomers = 1;
constexpr std::uint32_t no_file = UINT32_MAX;

bool lives(int pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

std::string command_of(int pid) {
  try {
    std::string text = read_file(fmt::format("/proc/{}/comm", pid));
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const Error&) {
    return "";
  }
}

std::string with_more(const char* name, const std::string& first, char between, const std::string& last) {
  const char* const given = std::getenv(name);
  const std::string there = given == nullptr ? "" : given;
  std::string value = first;
  for (const std::string& part : {there, last}) {
    if (!value.empty() && !part.empty()) value += between;
    value += part;
  }
  return fmt::format("{}={}", name, value);
}

/// The name of a library must hold nothing that separates names in LD_PRELOAD, or that the dynamic loader replaces.
std::filesystem::path preloadable(std::filesystem::path library, const std::filesystem::path& folder) {
  if (library.native().find_first_of(" :$") == std::string::npos) return library;
  std::filesystem::path link = folder / "libdsanalyze-trace.so";
  std::filesystem::create_symlink(library, link);
  return link;
}

FileDescriptor listening_at(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.native().size() >= sizeof address.sun_path) throw Error("the path of the socket is too long: " + socket.native());
  std::memcpy(address.sun_path, socket.c_str(), socket.native().size());
  FileDescriptor listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  constexpr int most_waiting = 1024;
  if (!listening.valid() || ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening.get(), most_waiting) != 0)
    throw_errno("cannot listen at", socket.native(), errno);
  return listening;
}

}  // namespace

AccessTracer::AccessTracer(std::filesystem::path library, const std::filesystem::path& folder, const Clock& clock)
    : m_library(preloadable(std::move(library), folder)), m_socket(folder / "reads"), m_clock(clock), m_listening(listening_at(m_socket)) {}

AccessTracer::~AccessTracer() = default;

std::vector<std::string> AccessTracer::environment() const {
  // The runtime of the address sanitizer ends a program before whose libraries another one stands. Behind it, the tracer keeps out of the way.
  return {with_more("LD_PRELOAD", m_library.native(), ':', ""), with_more("ASAN_OPTIONS", "", ':', "verify_asan_link_order=0"),
          "DSANALYZE_TRACE=" + m_socket.native()};
}

void AccessTracer::serve() {
  const Nanoseconds now = m_clock.now();
  accept_all(now);
  if (now < m_next_drain) return;
  m_next_drain = now + to_nanoseconds(drain_seconds);
  drain_all(now);
}

void AccessTracer::accept_all(Nanoseconds now) {
  constexpr std::size_t most_newcomers = 256;
  while (m_newcomers.size() < most_newcomers) {
    FileDescriptor connection(::accept4(m_listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.valid()) break;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) continue;
    m_newcomers.push_back({std::move(connection), peer.pid, now});
    if (hear(m_newcomers.back(), now)) m_newcomers.pop_back();
  }
  std::erase_if(m_newcomers, [&](const Newcomer& newcomer) { return hear(newcomer, now); });
}

bool AccessTracer::hear(const Newcomer& newcomer, Nanoseconds now) {
  char text = 0;
  iovec part{&text, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(newcomer.connection.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && errno == EINTR) return false;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return to_seconds(now - newcomer.since) > patience_with_newcomers;
  if (got <= 0) return true;
  std::vector<FileDescriptor> received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      received.emplace_back(descriptor);
    }
  }
  if (received.size() == 1) welcome(newcomer.pid, received.front(), now);
  return true;
}

void AccessTracer::welcome(int pid, const FileDescriptor& memory, Nanoseconds now) {
  std::optional<TraceRing> ring = TraceRing::open(memory);
  if (!ring) return;
  // A process that has become another program writes no more into the ring that it had.
  for (auto process = m_processes.begin(); process != m_processes.end();) {
    if (process->pid != pid) {
      ++process;
      continue;
    }
    drain(*process, now, true);
    count_out(*process);
    process = m_processes.erase(process);
  }
  if (m_processes.size() >= most_processes || m_trace.processes.size() >= most_known_processes) {
    ++m_trace.lost_accesses;
    return;
  }
  m_trace.processes.push_back({pid, command_of(pid)});
  m_processes.push_back({pid, static_cast<std::uint32_t>(m_trace.processes.size() - 1), std::move(*ring)});
}

void AccessTracer::drain_all(Nanoseconds now) {
  for (auto process = m_processes.begin(); process != m_processes.end();) {
    // What ends now has written all that it wrote before it was looked at.
    const bool ended = !lives(process->pid);
    drain(*process, now, ended);
    if (!ended) {
      ++process;
      continue;
    }
    count_out(*process);
    process = m_processes.erase(process);
  }
}

void AccessTracer::drain(Process& process, Nanoseconds now, bool ended) {
  RingRecord record;
  // A process that writes as fast as this reads must not keep the others waiting.
  constexpr int most_records = 1 << 17;
  for (int i = 0; i < most_records && process.ring.next(record, now, ended); ++i) keep(process, record);
}

void AccessTracer::count_out(const Process& process) {
  m_trace.lost_accesses += process.ring.lost_records();
  m_trace.lost_bytes += process.ring.lost_bytes();
  m_trace.other_bytes += process.ring.other_bytes();
  m_trace.network_bytes += process.ring.network_bytes();
}

std::uint32_t AccessTracer::file_number(TracedFile& file) {
  const auto known = m_files.find({file.device, file.inode});
  if (known != m_files.end())
    for (const std::uint32_t number : known->second)
      if (m_trace.files[number].path == file.path) return number;
  if (m_trace.files.size() >= most_files || m_path_bytes + file.path.size() > most_path_bytes)
    return known != m_files.end() ? known->second.front() : no_file;
  const auto number = static_cast<std::uint32_t>(m_trace.files.size());
  m_files[{file.device, file.inode}].push_back(number);
  m_path_bytes += file.path.size();
  m_trace.files.push_back(std::move(file));
  return number;
}

void AccessTracer::keep(Process& process, RingRecord& record) {
  if (record.kind == AccessKind::open || record.kind == AccessKind::inherited) {
    process.file_of_opening.erase(record.opening - static_cast<std::uint32_t>(most_openings));
    if (process.file_of_opening.size() < most_openings) process.file_of_opening[record.opening] = file_number(record.file);
    if (record.kind == AccessKind::inherited) return;
  }
  if (reads_bytes(record.kind)) m_trace.file_bytes += record.bytes;
  const auto file = process.file_of_opening.find(record.opening);
  if (file == process.file_of_opening.end() || file->second == no_file || m_trace.accesses.size() >= most_accesses) {
    ++m_trace.left_out;
    return;
  }
  m_trace.accesses.push_back(
      {record.end, record.offset, record.bytes, process.number, file->second, record.opening, record.nanoseconds, record.kind});
}

Bytes AccessTracer::traced_bytes() {
  const Nanoseconds now = m_clock.now();
  accept_all(now);
  drain_all(now);
  Bytes bytes = m_trace.file_bytes + m_trace.other_bytes;
  for (const Process& process : m_processes) bytes += process.ring.other_bytes();
  return bytes;
}

Bytes AccessTracer::network_bytes() const {
  Bytes bytes = m_trace.network_bytes;
  for (const Process& process : m_processes) bytes += process.ring.network_bytes();
  return bytes;
}

void AccessTracer::look(const ProcessTree& tree) {
  constexpr std::size_t most_untraced = 64;
  constexpr int sure_looks = 2;  // a program that is being started has not all of its libraries yet
  for (const TreeProcess& process : tree.living()) {
    const std::pair<int, std::string> name{process.pid, process.command};
    if (m_looked_at.contains(name)) continue;
    // By its memory: a program may have replaced a traced one as the same process.
    if (tree.maps(process.pid, "dsanalyze-trace") && !tree.maps(process.pid, "libasan") && !tree.maps(process.pid, "libtsan")) {
      if (++m_with_tracer[name] == sure_looks) m_looked_at.insert(name);
      continue;
    }
    if (++m_without_tracer[name] < sure_looks || m_trace.untraced.size() >= most_untraced) continue;
    m_looked_at.insert(name);
    m_trace.untraced.push_back({process.pid, process.command});
  }
}

AccessTrace AccessTracer::take() {
  const Nanoseconds now = m_clock.now();
  accept_all(now);
  for (Process& process : m_processes) {
    drain(process, now, true);
    count_out(process);
  }
  m_processes.clear();
  std::ranges::stable_sort(m_trace.accesses, {}, &FileAccess::end);
  return std::move(m_trace);
}

}  // namespace dsanalyze
