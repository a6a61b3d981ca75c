// Symbols by which the program and its library run with a glibc of 2018 (2.28), although they are linked against a newer one. The linker takes the
// newest version of each symbol that the C library has; what is defined here, hidden, comes before it, and leads to the version that all have. Whole,
// and only into these two (meson option old_glibc): what libraries that are linked in ask for is bound to it as well. scripts/package refuses any
// newer symbol.
//
// No header of the C library that declares one of these: they are defined here by name alone.

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

// A jump, so that the arguments, the caller and any exception pass as if it were not there. Works with any signature.
// clang-format off
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define SINCE(version) version
#define JUMP(name) "endbr64\n" "jmp *older_" #name "@GOTPCREL(%rip)\n"
#else  // AArch64, whose first version is newer than all that x86-64 tells apart here
#define OLDEST "GLIBC_2.17"
#define SINCE(version) OLDEST
#define JUMP(name) "hint #34\n" "adrp x16, :got:older_" #name "\n" "ldr x16, [x16, :got_lo12:older_" #name "]\n" "br x16\n"
#endif
#define FORWARD_TO(name, version)                     \
  __asm__(".symver older_" #name "," #name "@" version "\n" \
          ".text\n"                                   \
          ".globl " #name "\n"                        \
          ".hidden " #name "\n"                       \
          ".type " #name ",%function\n"               \
          #name ":\n"                                 \
          JUMP(name)                                  \
          ".size " #name ",.-" #name "\n")
// clang-format on
#define FORWARD(name) FORWARD_TO(name, OLDEST)

// 2.29: errors are no longer told through a function that a program can replace.
FORWARD(exp);
FORWARD(exp2);
FORWARD(log);
FORWARD(pow);
// 2.35: the same.
FORWARD(hypot);
// 2.32 and 2.34: what was in libraries of its own is in that of C.
FORWARD(pthread_sigmask);
FORWARD(pthread_attr_getstacksize);
FORWARD_TO(pthread_condattr_setclock, SINCE("GLIBC_2.3.3"));
FORWARD(pthread_create);
FORWARD(pthread_detach);
FORWARD(pthread_getspecific);
FORWARD(pthread_join);
FORWARD(pthread_key_create);
FORWARD(pthread_key_delete);
FORWARD(pthread_kill);
FORWARD(pthread_mutex_trylock);
FORWARD(pthread_once);
FORWARD(pthread_rwlock_destroy);
FORWARD(pthread_rwlock_init);
FORWARD(pthread_rwlock_rdlock);
FORWARD(pthread_rwlock_unlock);
FORWARD(pthread_rwlock_wrlock);
FORWARD(pthread_setspecific);
FORWARD(__pthread_key_create);
FORWARD(dladdr);
FORWARD(dlclose);
FORWARD(dlerror);
FORWARD(dlopen);
FORWARD(dlsym);

#define HIDDEN extern "C" __attribute__((visibility("hidden")))
#define OLDER(name, version) __asm__(".symver older_" #name "," #name "@" version)

// 2.33: stat and its kind are functions; before, they were calls of these, which name the layout of their result.
OLDER(__xstat, OLDEST);
OLDER(__lxstat, OLDEST);
OLDER(__fxstat, OLDEST);
OLDER(__fxstatat, SINCE("GLIBC_2.4"));
extern "C" {
int older___xstat(int layout, const char* path, void* found);
int older___lxstat(int layout, const char* path, void* found);
int older___fxstat(int layout, int file, void* found);
int older___fxstatat(int layout, int folder, const char* path, void* found, int flags);
}
// _STAT_VER_KERNEL of glibc's sysdeps, which its headers no longer have.
#if defined(__x86_64__)
constexpr int layout_of_the_kernel = 1;
#else
constexpr int layout_of_the_kernel = 0;
#endif
HIDDEN int stat(const char* path, void* found) { return older___xstat(layout_of_the_kernel, path, found); }
HIDDEN int stat64(const char* path, void* found) { return older___xstat(layout_of_the_kernel, path, found); }
HIDDEN int lstat(const char* path, void* found) { return older___lxstat(layout_of_the_kernel, path, found); }
HIDDEN int lstat64(const char* path, void* found) { return older___lxstat(layout_of_the_kernel, path, found); }
HIDDEN int fstat(int file, void* found) { return older___fxstat(layout_of_the_kernel, file, found); }
HIDDEN int fstat64(int file, void* found) { return older___fxstat(layout_of_the_kernel, file, found); }
HIDDEN int fstatat(int folder, const char* path, void* found, int flags) {
  return older___fxstatat(layout_of_the_kernel, folder, path, found, flags);
}
HIDDEN int fstatat64(int folder, const char* path, void* found, int flags) {
  return older___fxstatat(layout_of_the_kernel, folder, path, found, flags);
}

// 2.32: whether the process has one thread. It has several.
HIDDEN const char __libc_single_threaded = 0;

// 2.36, for std::random_device.
extern "C" long syscall(long number, ...);
HIDDEN std::uint32_t arc4random() {
  std::uint32_t value = 0;
  while (syscall(SYS_getrandom, &value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}

// 2.30, for waiting on a condition until an instant of the steady clock. An older library waits by the clock of the day, as libstdc++ itself does
// there.
extern "C" {
int clock_gettime(int clock, timespec* time);
int pthread_cond_timedwait(void* condition, void* mutex, const timespec* until);
}
namespace {

/// What a newer library has, set before anything of the program runs; nullptr in an older one.
int (*newer_clockwait)(void*, void*, int, const timespec*) = nullptr;
int (*newer_find_object)(void*, dl_find_object*) = nullptr;

__attribute__((constructor(101))) void find_newer() {
  newer_clockwait = reinterpret_cast<decltype(newer_clockwait)>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  newer_find_object = reinterpret_cast<decltype(newer_find_object)>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

}  // namespace

HIDDEN int pthread_cond_clockwait(void* condition, void* mutex, int clock, const timespec* until) {
  if (newer_clockwait != nullptr) return newer_clockwait(condition, mutex, clock, until);
  constexpr int clock_of_the_day = 0;
  constexpr long second = 1'000'000'000;
  timespec now{};
  timespec today{};
  clock_gettime(clock, &now);
  clock_gettime(clock_of_the_day, &today);
  timespec end{today.tv_sec + until->tv_sec - now.tv_sec, today.tv_nsec + until->tv_nsec - now.tv_nsec};
  if (end.tv_nsec < 0) end = {end.tv_sec - 1, end.tv_nsec + second};
  if (end.tv_nsec >= second) end = {end.tv_sec + 1, end.tv_nsec - second};
  return pthread_cond_timedwait(condition, mutex, &end);
}

// 2.35, for exceptions: in which object an instruction lies, and where that object's table is of how to unwind.
namespace {

struct Search {
  std::uintptr_t instruction;
  dl_find_object* found;
};

int look_at(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  const Search& search = *static_cast<Search*>(data);
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  std::uintptr_t table = 0;
  bool within = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t at = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_GNU_EH_FRAME) table = at;
    if (part.p_type != PT_LOAD) continue;
    within = within || (search.instruction >= at && search.instruction < at + part.p_memsz);
    begin = at < begin ? at : begin;
    end = at + part.p_memsz > end ? at + part.p_memsz : end;
  }
  if (!within || table == 0) return 0;
  search.found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search.found->dlfo_map_end = reinterpret_cast<void*>(end);
  search.found->dlfo_link_map = nullptr;
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(table);
  return 1;
}

}  // namespace

HIDDEN int _dl_find_object(void* instruction, dl_find_object* found) {
  if (newer_find_object != nullptr) return newer_find_object(instruction, found);
  Search search{reinterpret_cast<std::uintptr_t>(instruction), found};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}
