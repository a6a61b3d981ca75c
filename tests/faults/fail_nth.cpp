// Preloaded into a program, lets the Nth call of one kind fail:
//   FAIL_NTH=CALL:N:WHAT   WHAT is an error's number, or "short" (half of what a read would give) or "end" (a read finds the file's end)
//   FAIL_NTH_COUNTS=FILE   writes "CALL COUNT" lines there at the program's end
// Calls of io_uring are liburing's; uring_open and uring_read are entries that are handed to the kernel, which then fail there, with all that it does
// to the chain that they stand in.

// Both names of each call are defined here, the plain and the 64-bit one, so none may stand for the other.
#undef _FILE_OFFSET_BITS

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t size);                           // NOLINT(bugprone-reserved-identifier): glibc's own, behind its malloc()
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

enum Call : std::size_t {
  open_call,
  openat_call,
  fopen_call,
  read_call,
  pread_call,
  preadv2_call,
  write_call,
  pwrite_call,
  fsync_call,
  linkat_call,
  rename_call,
  fstat_call,
  stat_call,
  lstat_call,
  fstatat_call,
  fdopendir_call,
  readdir_call,
  mmap_call,
  ftruncate_call,
  memfd_create_call,
  fcntl_call,
  fadvise_call,
  madvise_call,
  eventfd_call,
  pthread_create_call,
  uring_init_call,
  uring_register_files_call,
  uring_register_update_call,
  uring_register_call,
  uring_submit_call,
  uring_wait_call,
  uring_open_call,
  uring_read_call,
  malloc_call,
  call_count
};
constexpr std::array<const char*, call_count> names{"open",
                                                    "openat",
                                                    "fopen",
                                                    "read",
                                                    "pread",
                                                    "preadv2",
                                                    "write",
                                                    "pwrite",
                                                    "fsync",
                                                    "linkat",
                                                    "rename",
                                                    "fstat",
                                                    "stat",
                                                    "lstat",
                                                    "fstatat",
                                                    "fdopendir",
                                                    "readdir",
                                                    "mmap",
                                                    "ftruncate",
                                                    "memfd_create",
                                                    "fcntl",
                                                    "fadvise",
                                                    "madvise",
                                                    "eventfd",
                                                    "pthread_create",
                                                    "uring_init",
                                                    "uring_register_files",
                                                    "uring_register_update",
                                                    "uring_register",
                                                    "uring_submit",
                                                    "uring_wait",
                                                    "uring_open",
                                                    "uring_read",
                                                    "malloc"};

constexpr int short_read = -1;
constexpr int end_of_file = -2;

std::array<std::atomic<std::uint64_t>, call_count> counts;

/// What is to fail, read from the environment once.
struct Plan {
  std::size_t call = call_count;
  std::uint64_t number = 0;
  int what = 0;
};

Plan read_plan() {
  Plan plan;
  const char* text = std::getenv("FAIL_NTH");
  if (text == nullptr) return plan;
  const char* colon = std::strchr(text, ':');
  const char* second = colon == nullptr ? nullptr : std::strchr(colon + 1, ':');
  if (second == nullptr) return plan;
  for (std::size_t call = 0; call < call_count; ++call) {
    if (std::strlen(names[call]) == static_cast<std::size_t>(colon - text) && std::strncmp(text, names[call], std::strlen(names[call])) == 0)
      plan.call = call;
  }
  plan.number = std::strtoull(colon + 1, nullptr, 10);
  plan.what = std::strcmp(second + 1, "short") == 0 ? short_read : std::strcmp(second + 1, "end") == 0 ? end_of_file : std::atoi(second + 1);
  return plan;
}

/// 0 when this call is not the one; else what it does instead.
int fault(Call call) {
  static const Plan plan = read_plan();
  const std::uint64_t number = counts[call].fetch_add(1) + 1;
  return plan.call == call && plan.number == number ? plan.what : 0;
}

/// Whether the call fails by an error; errno is set then.
bool fails(Call call) {
  const int what = fault(call);
  if (what > 0) errno = what;
  return what > 0;
}

template <typename Function>
Function* real(Function* /*like*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// The counts go out by the program's end; the descriptor is the kernel's, whatever else fails.
struct AtExit {
  ~AtExit() {
    const char* path = std::getenv("FAIL_NTH_COUNTS");
    if (path == nullptr) return;
    std::array<char, 2048> text{};
    std::size_t length = 0;
    for (std::size_t call = 0; call < call_count; ++call) {
      length += static_cast<std::size_t>(
          std::snprintf(text.data() + length, text.size() - length, "%s %llu\n", names[call], static_cast<unsigned long long>(counts[call].load())));
    }
    const auto descriptor = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (descriptor < 0) return;
    static_cast<void>(!syscall(SYS_write, descriptor, text.data(), length));
    ::close(descriptor);
  }
};
const AtExit at_exit;

/// The mode that stands behind the flags when the call may create a file.
#define MODE_OF(flags, mode)                              \
  mode_t mode = 0;                                        \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) {         \
    va_list arguments;                                    \
    va_start(arguments, flags);                           \
    (mode) = static_cast<mode_t>(va_arg(arguments, int)); \
    va_end(arguments);                                    \
  }

std::size_t given(int what, std::size_t size) { return what == short_read && size > 1 ? size / 2 : what == end_of_file ? 0 : size; }

// One entry that will fail in the kernel; its completion's result is then made the error that was asked for.
struct Sabotage {
  std::atomic<bool> pending{false};
  std::uint64_t user_data = 0;
  int natural = 0;
  int wanted = 0;
};
Sabotage sabotage;

void spoil(io_uring_sqe& entry, int natural, int wanted) {
  sabotage.user_data = entry.user_data;
  sabotage.natural = natural;
  sabotage.wanted = wanted;
  sabotage.pending = true;
}

/// Looks through what is about to be handed over.
void before_submit(io_uring* ring) {
  for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; ++at) {
    io_uring_sqe& entry = ring->sq.sqes[at & ring->sq.ring_mask];
    if (entry.opcode == IORING_OP_OPENAT || entry.opcode == IORING_OP_OPENAT2) {
      if (const int what = fault(uring_open_call); what > 0) {
        entry.addr = reinterpret_cast<std::uintptr_t>("");
        spoil(entry, -ENOENT, -what);
      }
    } else if (entry.opcode == IORING_OP_READ || entry.opcode == IORING_OP_READ_FIXED) {
      const int what = fault(uring_read_call);
      if (what < 0) entry.len = static_cast<std::uint32_t>(given(what, entry.len));
      if (what > 0) {
        entry.fd = INT32_MAX;
        spoil(entry, -EBADF, -what);
      }
    }
  }
}

void after_submit(io_uring* ring) {
  if (!sabotage.pending) return;
  const unsigned end = std::atomic_ref<unsigned>(*ring->cq.ktail).load(std::memory_order_acquire);
  for (unsigned at = *ring->cq.khead; at != end; ++at) {
    io_uring_cqe& completion = ring->cq.cqes[at & ring->cq.ring_mask];
    if (completion.user_data != sabotage.user_data || completion.res != sabotage.natural) continue;
    completion.res = sabotage.wanted;
    sabotage.pending = false;
    return;
  }
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  MODE_OF(flags, mode)
  static const auto next = real(&::open, "open");
  return fails(open_call) ? -1 : next(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags, mode)
  static const auto next = real(&::open64, "open64");
  return fails(open_call) ? -1 : next(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, mode)
  static const auto next = real(&::openat, "openat");
  return fails(openat_call) ? -1 : next(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  MODE_OF(flags, mode)
  static const auto next = real(&::openat64, "openat64");
  return fails(openat_call) ? -1 : next(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static const auto next = real(&::fopen, "fopen");
  return fails(fopen_call) ? nullptr : next(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto next = real(&::fopen64, "fopen64");
  return fails(fopen_call) ? nullptr : next(path, mode);
}
ssize_t read(int descriptor, void* into, std::size_t size) {
  static const auto next = real(&::read, "read");
  const int what = fault(read_call);
  if (what > 0) errno = what;
  return what > 0 ? -1 : next(descriptor, into, given(what, size));
}
ssize_t pread64(int descriptor, void* into, std::size_t size, off64_t offset) {
  static const auto next = real(&::pread64, "pread64");
  const int what = fault(pread_call);
  if (what > 0) errno = what;
  return what > 0 ? -1 : next(descriptor, into, given(what, size), offset);
}
ssize_t preadv64v2(int descriptor, const iovec* parts, int count, off64_t offset, int flags) {
  static const auto next = real(&::preadv64v2, "preadv64v2");
  const int what = fault(preadv2_call);
  if (what > 0) errno = what;
  if (what > 0) return -1;
  if (what == 0) return next(descriptor, parts, count, offset, flags);
  const iovec first{parts->iov_base, given(what, parts->iov_len)};
  return next(descriptor, &first, 1, offset, flags);
}
ssize_t write(int descriptor, const void* from, std::size_t size) {
  static const auto next = real(&::write, "write");
  // What is said, and events (eight bytes: the kernel cannot refuse them), are not of interest.
  const bool is_of_interest = descriptor != STDOUT_FILENO && descriptor != STDERR_FILENO && size != sizeof(std::uint64_t);
  return is_of_interest && fails(write_call) ? -1 : next(descriptor, from, size);
}
ssize_t pwrite64(int descriptor, const void* from, std::size_t size, off64_t offset) {
  static const auto next = real(&::pwrite64, "pwrite64");
  return fails(pwrite_call) ? -1 : next(descriptor, from, size, offset);
}
int fsync(int descriptor) {
  static const auto next = real(&::fsync, "fsync");
  return fails(fsync_call) ? -1 : next(descriptor);
}
int fdatasync(int descriptor) {
  static const auto next = real(&::fdatasync, "fdatasync");
  return fails(fsync_call) ? -1 : next(descriptor);
}
int linkat(int folder, const char* path, int new_folder, const char* new_path, int flags) {
  static const auto next = real(&::linkat, "linkat");
  return fails(linkat_call) ? -1 : next(folder, path, new_folder, new_path, flags);
}
int rename(const char* path, const char* new_path) {
  static const auto next = reinterpret_cast<int (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "rename"));
  return fails(rename_call) ? -1 : next(path, new_path);
}
int fstat64(int descriptor, struct stat64* facts) {
  static const auto next = real(&::fstat64, "fstat64");
  return fails(fstat_call) ? -1 : next(descriptor, facts);
}
int stat64(const char* path, struct stat64* facts) {
  static const auto next = reinterpret_cast<int (*)(const char*, struct stat64*)>(dlsym(RTLD_NEXT, "stat64"));
  return fails(stat_call) ? -1 : next(path, facts);
}
int stat(const char* path, struct stat* facts) {
  static const auto next = reinterpret_cast<int (*)(const char*, struct stat*)>(dlsym(RTLD_NEXT, "stat"));
  return fails(stat_call) ? -1 : next(path, facts);
}
int lstat64(const char* path, struct stat64* facts) {
  static const auto next = real(&::lstat64, "lstat64");
  return fails(lstat_call) ? -1 : next(path, facts);
}
int lstat(const char* path, struct stat* facts) {
  static const auto next = real(&::lstat, "lstat");
  return fails(lstat_call) ? -1 : next(path, facts);
}
int fstatat64(int folder, const char* path, struct stat64* facts, int flags) {
  static const auto next = real(&::fstatat64, "fstatat64");
  return fails(fstatat_call) ? -1 : next(folder, path, facts, flags);
}
DIR* fdopendir(int descriptor) {
  static const auto next = real(&::fdopendir, "fdopendir");
  return fails(fdopendir_call) ? nullptr : next(descriptor);
}
dirent64* readdir64(DIR* folder) {
  static const auto next = real(&::readdir64, "readdir64");
  return fails(readdir_call) ? nullptr : next(folder);
}
void* mmap64(void* at, std::size_t size, int protection, int flags, int descriptor, off64_t offset) {
  static const auto next = real(&::mmap64, "mmap64");
  return fails(mmap_call) ? MAP_FAILED : next(at, size, protection, flags, descriptor, offset);
}
int ftruncate64(int descriptor, off64_t size) {
  static const auto next = real(&::ftruncate64, "ftruncate64");
  return fails(ftruncate_call) ? -1 : next(descriptor, size);
}
int memfd_create(const char* name, unsigned flags) {
  static const auto next = real(&::memfd_create, "memfd_create");
  return fails(memfd_create_call) ? -1 : next(name, flags);
}
int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  static const auto next = real(&::fcntl64, "fcntl64");
  return fails(fcntl_call) ? -1 : next(descriptor, command, argument);
}
int posix_fadvise64(int descriptor, off64_t offset, off64_t length, int advice) {
  static const auto next = real(&::posix_fadvise64, "posix_fadvise64");
  return fails(fadvise_call) ? errno : next(descriptor, offset, length, advice);
}
int madvise(void* at, std::size_t size, int advice) {
  static const auto next = real(&::madvise, "madvise");
  return fails(madvise_call) ? -1 : next(at, size, advice);
}
int eventfd(unsigned value, int flags) {
  static const auto next = real(&::eventfd, "eventfd");
  return fails(eventfd_call) ? -1 : next(value, flags);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) {
  static const auto next = real(&::pthread_create, "pthread_create");
  return fails(pthread_create_call) ? errno : next(thread, attributes, routine, argument);
}
int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* parameters) {
  static const auto next = real(&::io_uring_queue_init_params, "io_uring_queue_init_params");
  return fails(uring_init_call) ? -errno : next(entries, ring, parameters);
}
int io_uring_register_files(io_uring* ring, const int* files, unsigned count) {
  static const auto next = real(&::io_uring_register_files, "io_uring_register_files");
  return fails(uring_register_files_call) ? -errno : next(ring, files, count);
}
int io_uring_register_files_update(io_uring* ring, unsigned offset, const int* files, unsigned count) {
  static const auto next = real(&::io_uring_register_files_update, "io_uring_register_files_update");
  return fails(uring_register_update_call) ? -errno : next(ring, offset, files, count);
}
int io_uring_register(unsigned descriptor, unsigned code, const void* argument, unsigned count) {
  static const auto next = reinterpret_cast<int (*)(unsigned, unsigned, const void*, unsigned)>(dlsym(RTLD_NEXT, "io_uring_register"));
  return fails(uring_register_call) ? -errno : next(descriptor, code, argument, count);
}
int io_uring_submit(io_uring* ring) {
  static const auto next = real(&::io_uring_submit, "io_uring_submit");
  if (fails(uring_submit_call)) return -errno;
  before_submit(ring);
  const int result = next(ring);
  after_submit(ring);
  return result;
}
int io_uring_submit_and_wait_timeout(io_uring* ring, io_uring_cqe** completion, unsigned count, __kernel_timespec* time, sigset_t* signals) {
  static const auto next = real(&::io_uring_submit_and_wait_timeout, "io_uring_submit_and_wait_timeout");
  if (fails(uring_wait_call)) return -errno;
  before_submit(ring);
  const int result = next(ring, completion, count, time, signals);
  after_submit(ring);
  return result;
}

void* malloc(std::size_t size) { return fails(malloc_call) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return fails(malloc_call) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* memory, std::size_t size) { return fails(malloc_call) ? nullptr : __libc_realloc(memory, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return fails(malloc_call) ? nullptr : __libc_memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  if (fails(malloc_call)) return errno;
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
