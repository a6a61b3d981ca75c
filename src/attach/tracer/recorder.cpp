#undef _FILE_OFFSET_BITS
#include "recorder.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>

#include "raw.hpp"

namespace dsanalyze::tracing {
namespace {

/// Of one process. In a page that the kernel empties in the child of a fork (MADV_WIPEONFORK), however the fork was made.
struct ProcessState {
  int process;  ///< 0: another process made this page
  RingHeader* ring;
  uint32_t making;                    ///< a thread is
  uint32_t off;                       ///< there is no launcher, or no memory
  uint64_t next_try;                  ///< of reaching the launcher, whose queue was full
  uint64_t lost_records, lost_bytes;  ///< while there is no ring
};

/// What a descriptor is. Any thread reads and writes both words.
struct Descriptor {
  int known_in;   ///< the process that has said so to the launcher; 0: none has. A child says anew what it inherited
  uint32_t open;  ///< 0: no file
};

constexpr int most_descriptors = 1 << 16;
Descriptor descriptors[most_descriptors];
ProcessState* state = nullptr;
sockaddr_un launcher;
uint32_t openings = 0;
int beyond_known = 0;  ///< descriptors from here on are not known

int own_number() { return static_cast<int>(raw(SYS_getpid)); }

/// The child of a vfork has our memory, and must not write there.
bool in_anothers_memory() {
  const int process = load(state->process);
  return process != 0 && process != own_number();
}

constexpr uint64_t try_again_nanoseconds = 5'000'000;

long close_raw(long descriptor) { return raw(SYS_close, descriptor); }

uint64_t monotonic_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

/// Hands the ring's memory to the launcher; negative errors.
long hand_over(long memory) {
  const long connection = raw(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection < 0) return connection;
  long result = raw(SYS_connect, connection, word(&launcher), sizeof launcher);
  if (result == 0) {
    char greeting = 'r';
    iovec text{&greeting, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = static_cast<int>(memory);
    result = raw(SYS_sendmsg, connection, word(&message), MSG_NOSIGNAL);
    if (result == 1) result = 0;
  }
  close_raw(connection);
  return result;
}

/// A signal that a full limit raises must not end the program.
bool files_may_grow() {
  rlimit limit{};
  if (raw(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, word(&limit)) != 0) return false;
  return limit.rlim_cur >= ring_bytes;
}

RingHeader* made_ring(ProcessState& process) {
  if (!files_may_grow()) {
    store(process.off, 1U);
    return nullptr;
  }
  const long memory = raw(SYS_memfd_create, word("dsanalyze-trace"), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) {
    store(process.off, 1U);
    return nullptr;
  }
  RingHeader* ring = nullptr;
  if (raw(SYS_ftruncate, memory, ring_bytes) == 0 && raw(SYS_fcntl, memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    const long mapping = raw(SYS_mmap, 0, ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (mapping > 0 || mapping < -4095) ring = pointer<RingHeader>(mapping);
  }
  long result = -ENOMEM;
  if (ring != nullptr) {
    for (size_t i = 0; i < sizeof ring_magic; ++i) ring->magic[i] = ring_magic[i];
    ring->version = ring_version;
    ring->slots = ring_slots;
    result = hand_over(memory);
  }
  close_raw(memory);
  if (result == 0) return ring;
  if (ring != nullptr) raw(SYS_munmap, word(ring), ring_bytes);
  // The launcher's queue is full for a moment, in a storm of forks for one; any other error means that there is none.
  if (result == -EAGAIN)
    process.next_try = monotonic_now() + try_again_nanoseconds;
  else
    store(process.off, 1U);
  return nullptr;
}

/// While another thread makes it, for some milliseconds: this may be a signal handler that has interrupted that thread.
RingHeader* ring_that_is_made(const ProcessState& process) {
  const uint64_t until = monotonic_now() + try_again_nanoseconds;
  RingHeader* ring = nullptr;
  while ((ring = load(process.ring)) == nullptr && load(process.making) != 0 && monotonic_now() < until) raw(SYS_sched_yield);
  return ring;
}

/// This process's ring, made where there is none yet; nullptr where there is none to write into.
RingHeader* ring_of_process() {
  ProcessState* const process = state;
  if (process == nullptr || load(process->off) != 0) return nullptr;
  if (in_anothers_memory()) return nullptr;
  if (load(process->process) == 0) store(process->process, own_number());
  if (RingHeader* const ring = load(process->ring); ring != nullptr) return ring;
  uint32_t none = 0;
  if (!__atomic_compare_exchange_n(&process->making, &none, 1U, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return ring_that_is_made(*process);
  RingHeader* ring = load(process->ring);
  if (ring == nullptr && (process->next_try == 0 || monotonic_now() >= process->next_try)) {
    ring = made_ring(*process);
    if (ring != nullptr) {
      store(process->ring, ring);
      add(ring->lost_records, take(process->lost_records));
      add(ring->lost_bytes, take(process->lost_bytes));
    }
  }
  store(process->making, 0U);
  return ring;
}

void lose(RingHeader* ring, uint64_t bytes) {
  if (ring != nullptr) {
    add(ring->lost_records, uint64_t{1});
    add(ring->lost_bytes, bytes);
  } else if (state != nullptr) {
    add(state->lost_records, uint64_t{1});
    add(state->lost_bytes, bytes);
  }
}

constexpr uint64_t no_place = UINT64_MAX;

/// Where `slots` slots may be written; no_place when the launcher has not taken what lies there.
uint64_t claim(RingHeader& ring, uint32_t slots) {
  uint64_t head = load(ring.head);
  do {
    // What the launcher writes is compared so that no garbage makes us write over what it has not read, or beyond the ring.
    const uint64_t waiting = head - load(ring.tail);
    if (waiting > ring_slots || waiting + slots > ring_slots) return no_place;
  } while (!__atomic_compare_exchange_n(&ring.head, &head, head + slots, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return head;
}

Slot& slot_at(RingHeader& ring, uint64_t place) {
  return reinterpret_cast<Slot*>(reinterpret_cast<char*>(&ring) + ring_header_bytes)[place % ring_slots];
}

uint32_t details_of(RecordKind kind, uint64_t begin, uint64_t end) {
  constexpr uint32_t most = (1U << (32 - kind_bits)) - 1;
  const uint64_t duration = end > begin && begin != 0 ? (end - begin) / duration_unit : 0;
  return static_cast<uint32_t>(kind) | (duration > most ? most : static_cast<uint32_t>(duration)) << kind_bits;
}

bool write_record(RingHeader& ring, RecordKind kind, uint32_t open, uint64_t offset, uint32_t amount, uint64_t begin) {
  const uint64_t place = claim(ring, 1);
  if (place == no_place) return false;
  Slot& slot = slot_at(ring, place);
  const uint64_t end = monotonic_now();
  slot.open = open;
  slot.time = end;
  slot.offset = offset;
  slot.amount = amount;
  slot.details = details_of(kind, begin, end);
  store(slot.commit, commit_word(place));
  return true;
}

struct PathParts {
  const char* first = "";
  uint32_t first_length = 0;
  const char* second = "";
  uint32_t second_length = 0;
  [[nodiscard]] uint32_t length() const { return first_length + second_length; }
  [[nodiscard]] char at(uint32_t i) const { return i < first_length ? first[i] : second[i - first_length]; }
};

bool write_file(RingHeader& ring, RecordKind kind, uint32_t open, const struct stat& facts, const PathParts& path, uint64_t begin) {
  const uint32_t slots = path_slots(path.length());
  const uint64_t place = claim(ring, slots);
  if (place == no_place) return false;
  auto& file = reinterpret_cast<FileSlot&>(slot_at(ring, place + 1));
  file = {facts.st_dev, facts.st_ino};
  for (uint32_t i = 0; i < path.length(); ++i) reinterpret_cast<char*>(&slot_at(ring, place + 2 + i / sizeof(Slot)))[i % sizeof(Slot)] = path.at(i);
  Slot& slot = slot_at(ring, place);
  slot.open = open;
  slot.time = monotonic_now();
  slot.offset = static_cast<uint64_t>(facts.st_size);
  slot.amount = path.length();
  slot.details = details_of(kind, begin, slot.time);
  store(slot.commit, commit_word(place));
  return true;
}

uint32_t length_of(const char* text) {
  uint32_t length = 0;
  while (length < most_path_bytes - 1 && text[length] != '\0') ++length;
  return length;
}

/// "/proc/self/fd/N".
void descriptor_path(int descriptor, char* text) {
  const char* const folder = "/proc/self/fd/";
  size_t at = 0;
  while (folder[at] != '\0') {
    text[at] = folder[at];
    ++at;
  }
  char digits[12];
  size_t count = 0;
  do digits[count++] = static_cast<char>('0' + descriptor % 10);
  while ((descriptor /= 10) > 0);
  while (count > 0) text[at++] = digits[--count];
  text[at] = '\0';
}

constexpr size_t most_folder_bytes = 1024;

/// The path, in `buffer` where it is not the one that was passed.
PathParts parts_of(int descriptor, const char* path, bool in_folder, char* buffer) {
  PathParts parts;
  if (path != nullptr && path[0] == '/') {
    parts.first = path;
    parts.first_length = length_of(path);
    return parts;
  }
  if (path != nullptr && !in_folder) {
    const long length = raw(SYS_getcwd, word(buffer), most_folder_bytes - 1);
    if (length > 1) {  // with the zero at its end
      buffer[length - 1] = '/';
      parts.first = buffer;
      parts.first_length = static_cast<uint32_t>(buffer[0] == '/' && length == 2 ? 1 : length);
      parts.second = path;
      parts.second_length = length_of(path);
      if (parts.length() >= most_path_bytes) parts.second_length = most_path_bytes - parts.first_length;
      return parts;
    }
  }
  char link[40];
  descriptor_path(descriptor, link);
  const long length = raw(SYS_readlinkat, AT_FDCWD, word(link), word(buffer), most_folder_bytes);
  if (length > 0) {
    parts.first = buffer;
    parts.first_length = static_cast<uint32_t>(length);
  } else if (path != nullptr) {
    parts.first = path;
    parts.first_length = length_of(path);
  }
  return parts;
}

constexpr uint32_t network_socket = UINT32_MAX;  ///< in place of an opening's number

bool is_network_socket(int descriptor, uint32_t mode) {
  if (!S_ISSOCK(mode)) return false;
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (raw(SYS_getsockname, descriptor, word(&address), word(&length)) != 0) return false;
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

bool is_recorded(uint32_t mode) { return S_ISREG(mode) || S_ISBLK(mode); }

void know(int descriptor, int process) {
  for (int beyond = load(beyond_known); beyond <= descriptor;)
    if (__atomic_compare_exchange_n(&beyond_known, &beyond, descriptor + 1, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
  store(descriptors[descriptor].known_in, process);
}

/// Says what a descriptor is; 0 where it is no file, or could not be said. Of a network socket nothing is said.
uint32_t announce(RingHeader& ring, RecordKind kind, int descriptor, const char* path, bool in_folder, uint64_t begin) {
  struct stat facts {};
  Descriptor& entry = descriptors[descriptor];
  const int mine = load(state->process);
  if (raw(SYS_fstat, descriptor, word(&facts)) != 0) return 0;
  if (!is_recorded(facts.st_mode)) {
    const uint32_t open = is_network_socket(descriptor, facts.st_mode) ? network_socket : 0;
    store(entry.open, open);
    know(descriptor, mine);
    return open;
  }
  char buffer[most_folder_bytes];
  const uint32_t open = add(openings, 1U) + 1;
  if (!write_file(ring, kind, open, facts, parts_of(descriptor, path, in_folder, buffer), begin)) {
    lose(&ring, 0);
    store(entry.known_in, 0);
    return 0;
  }
  store(entry.open, open);
  know(descriptor, mine);
  return open;
}

bool in_table(int descriptor) { return descriptor >= 0 && descriptor < most_descriptors; }

/// The number of the file's opening, or network_socket; 0 where it is neither. `said` is false where it is not known, as it could not be said.
uint32_t opening_of(RingHeader& ring, int descriptor, bool& said) {
  said = true;
  const Descriptor& entry = descriptors[descriptor];
  if (load(entry.known_in) == load(state->process)) return load(entry.open);
  const uint32_t open = announce(ring, RecordKind::inherited, descriptor, nullptr, false, 0);
  said = load(entry.known_in) == load(state->process);
  return open;
}

void record(int descriptor, int64_t bytes, int64_t offset, bool here, uint64_t begin, RecordKind kind) {
  if (bytes <= 0 || state == nullptr) return;
  const auto amount = static_cast<uint64_t>(bytes);
  RingHeader* const ring = ring_of_process();
  if (ring == nullptr) {
    if (load(state->off) == 0 && !in_anothers_memory()) lose(nullptr, amount);
    return;
  }
  if (!in_table(descriptor)) {
    lose(ring, amount);
    return;
  }
  bool said = true;
  const uint32_t open = opening_of(*ring, descriptor, said);
  if (open == network_socket) add(ring->network_bytes, amount);
  if (open == 0 || open == network_socket) {
    if (said)
      add(ring->other_bytes, amount);
    else
      lose(ring, amount);
    return;
  }
  if (here) {
    const long end = raw(SYS_lseek, descriptor, 0, SEEK_CUR);
    offset = end >= bytes ? end - bytes : 0;
  }
  // A record holds less than 4 GiB.
  for (uint64_t done = 0; done < amount;) {
    const uint64_t part = amount - done > UINT32_MAX ? UINT32_MAX : amount - done;
    if (!write_record(*ring, kind, open, static_cast<uint64_t>(offset) + done, static_cast<uint32_t>(part), begin)) lose(ring, part);
    done += part;
  }
}

}  // namespace

void begin_recording(const char* socket) {
  size_t length = 0;
  while (socket[length] != '\0') {
    if (length + 1 >= sizeof launcher.sun_path) return;
    launcher.sun_path[length] = socket[length];
    ++length;
  }
  if (length == 0) return;
  launcher.sun_family = AF_UNIX;
  constexpr size_t page = 4096;
  const long memory = raw(SYS_mmap, 0, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory < 0 && memory >= -4095) return;
  raw(SYS_madvise, memory, page, MADV_WIPEONFORK);
  auto* const process = pointer<ProcessState>(memory);
  process->process = own_number();
  store(state, process);
  // Now, where no other thread can be waiting, and before the program takes rights from itself.
  ring_of_process();
}

/// Kernels before 4.14 do not empty the page.
void begin_in_child() {
  if (state != nullptr && in_anothers_memory()) *state = {};
}

uint64_t time_of_call() { return state == nullptr || load(state->off) != 0 ? 0 : monotonic_now(); }

void opened(int descriptor, const char* path, bool in_folder, uint64_t begin) {
  if (state == nullptr || !in_table(descriptor) || in_anothers_memory()) return;
  RingHeader* const ring = ring_of_process();
  if (ring != nullptr) {
    announce(*ring, RecordKind::open, descriptor, path, in_folder, begin);
    return;
  }
  store(descriptors[descriptor].known_in, 0);
  if (load(state->off) == 0) lose(nullptr, 0);
}

void duplicated(int descriptor, int copy) {
  if (state == nullptr || !in_table(copy) || in_anothers_memory()) return;
  Descriptor& entry = descriptors[copy];
  store(entry.known_in, 0);
  if (!in_table(descriptor)) return;
  store(entry.open, load(descriptors[descriptor].open));
  know(copy, load(descriptors[descriptor].known_in));
}

void closing(int descriptor) {
  if (state == nullptr || !in_table(descriptor) || load(descriptors[descriptor].known_in) == 0 || in_anothers_memory()) return;
  store(descriptors[descriptor].known_in, 0);
}

void closing_from(unsigned first, unsigned last) {
  const auto beyond = static_cast<unsigned>(load(beyond_known));
  for (unsigned i = first; i <= last && i < beyond; ++i) closing(static_cast<int>(i));
}

void read_here(int descriptor, int64_t bytes, uint64_t begin, RecordKind kind) { record(descriptor, bytes, 0, true, begin, kind); }

void read_at(int descriptor, int64_t bytes, int64_t offset, uint64_t begin, RecordKind kind) {
  record(descriptor, bytes, offset, false, begin, kind);
}

void received(int descriptor, int64_t bytes) {
  if (bytes <= 0 || state == nullptr || !in_table(descriptor)) return;
  RingHeader* const ring = ring_of_process();
  if (ring == nullptr) return;
  bool said = true;
  if (opening_of(*ring, descriptor, said) == network_socket) add(ring->network_bytes, static_cast<uint64_t>(bytes));
}

void mapped(int descriptor, uint64_t offset, uint64_t bytes, uint64_t begin) {
  if (state == nullptr || bytes == 0 || !in_table(descriptor)) return;
  RingHeader* const ring = ring_of_process();
  if (ring == nullptr) return;
  bool said = true;
  const uint32_t open = opening_of(*ring, descriptor, said);
  const uint64_t pages = (bytes + mapped_page - 1) / mapped_page;
  if (open != 0 && open != network_socket &&
      !write_record(*ring, RecordKind::mapped, open, offset, static_cast<uint32_t>(pages > UINT32_MAX ? UINT32_MAX : pages), begin))
    lose(ring, 0);
}

int64_t position_of(int descriptor) {
  if (state == nullptr || load(state->off) != 0 || !in_table(descriptor)) return -1;
  return raw(SYS_lseek, descriptor, 0, SEEK_CUR);
}

}  // namespace dsanalyze::tracing
