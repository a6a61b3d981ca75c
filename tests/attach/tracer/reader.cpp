// Reads a file in one of many ways, and prints how many bytes the kernel says that it read: reader WAY FILE. Built as programs of several kinds.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>

extern char** environ;
extern "C" {
ssize_t __read_chk(int, void*, size_t, size_t);
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);
int __open64_2(const char*, int);
}

namespace {

char buffer[1 << 16];
const char* file_path = nullptr;

/// By direct system calls, which no library can stand before.
std::uint64_t kernel_count(std::uint64_t* own = nullptr) {
  char text[1024];
  const long descriptor = syscall(SYS_openat, AT_FDCWD, "/proc/self/io", O_RDONLY);
  const long got = syscall(SYS_read, descriptor, text, sizeof text - 1);
  syscall(SYS_close, descriptor);
  if (got <= 0) return 0;  // not to be seen of a setuid program
  text[got] = '\0';
  if (own != nullptr) *own = static_cast<std::uint64_t>(got);
  return strtoull(strstr(text, "rchar:") + 6, nullptr, 10);
}

int opened(int flags = O_RDONLY) {
  const int descriptor = open(file_path, flags);
  if (descriptor < 0) abort();
  return descriptor;
}

FILE* stream() {
  FILE* const file = fopen(file_path, "rb");
  if (file == nullptr) abort();
  return file;
}

void read_all(int descriptor, std::size_t size = 10000) {
  while (read(descriptor, buffer, size) > 0) continue;
}

void read_stream(FILE* file, std::size_t size) {
  while (fread(buffer, 1, size, file) > 0) continue;
}

void* read_in_thread(void* number) {
  const int descriptor = opened();
  for (int i = 0; i < 100; ++i) {
    if (pread(descriptor, buffer + reinterpret_cast<std::intptr_t>(number) * 1000, 1000, i * 100) != 1000) abort();
  }
  close(descriptor);
  return nullptr;
}

void on_signal(int /*signal*/) {
  char small[100];
  const int descriptor = open(file_path, O_RDONLY);
  if (pread(descriptor, small, sizeof small, 0) != sizeof small) abort();
  close(descriptor);
}

void wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) abort();
}

void read_with_iovec(bool here) {
  const int descriptor = opened();
  char more[333];
  const iovec parts[] = {{buffer, 1000}, {more, sizeof more}};
  const ssize_t got = here ? readv(descriptor, parts, 2) : preadv(descriptor, parts, 2, 500);
  if (got != 1333) abort();
  close(descriptor);
}

void fork_and_read() {
  const int before = opened();
  if (read(before, buffer, 1000) != 1000) abort();
  const pid_t child = fork();
  if (child == 0) {
    if (read(before, buffer, 1000) != 1000) abort();
    const int own = opened();
    read_all(own);
    close(own);
    _exit(0);
  }
  wait_for(child);
  if (read(before, buffer, 1000) != 1000) abort();
  close(before);
}

/// As Python's subprocess does: the child of a vfork has the parent's memory.
void vfork_and_close() {
  const int kept = opened();
  if (read(kept, buffer, 1000) != 1000) abort();
  const pid_t child = vfork();
  if (child == 0) {
    close(kept);
    dup2(2, kept);
    if (read(open(file_path, O_RDONLY), buffer, 500) != 500) _exit(1);
    close_range(3, ~0U, 0);
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  wait_for(child);
  if (read(kept, buffer, 1000) != 1000) abort();
  close(kept);
}

void raw_fork_and_read() {
  const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    const int descriptor = open(file_path, O_RDONLY);
    _exit(read(descriptor, buffer, 2000) == 2000 ? 0 : 1);
  }
  wait_for(static_cast<pid_t>(child));
}

void read_in_threads() {
  pthread_t threads[8];
  for (std::intptr_t i = 0; i < 8; ++i)
    if (pthread_create(&threads[i], nullptr, read_in_thread, reinterpret_cast<void*>(i)) != 0) abort();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

void read_in_signals() {
  signal(SIGALRM, on_signal);
  const int descriptor = opened();
  for (int i = 0; i < 200; ++i) {
    raise(SIGALRM);
    if (pread(descriptor, buffer, 1000, i) != 1000) abort();
  }
}

/// What a program may rely on: errno stays, and the next descriptor is the lowest one that is free.
void read_and_look_around() {
  errno = 77;
  const int descriptor = opened();
  if (descriptor != 3 || errno != 77) abort();
  read_all(descriptor);
  if (errno != 77) abort();
  close(descriptor);
  for (int i = 3; i < 100; ++i)
    if (fcntl(i, F_GETFD) != -1) abort();
  if (open("/nowhere/at/all", O_RDONLY) != -1 || errno != ENOENT) abort();
  if (read(1000, buffer, 1) != -1 || errno != EBADF) abort();
}

const std::map<std::string, void (*)()> ways{
    {"read", [] { read_all(opened()); }},
    {"read_chk",
     [] {  // of a descriptor whose opening no call has told of
       if (__read_chk(__open64_2(file_path, O_RDONLY), buffer, 5000, sizeof buffer) != 5000) abort();
     }},
    {"pread",
     [] {
       if (pread(opened(), buffer, 5000, 100) != 5000) abort();
     }},
    {"readv", [] { read_with_iovec(true); }},
    {"preadv", [] { read_with_iovec(false); }},
    {"openat",
     [] {
       const int folder = open(std::string(file_path).substr(0, std::string(file_path).rfind('/')).c_str(), O_RDONLY | O_DIRECTORY);
       read_all(openat(folder, strrchr(file_path, '/') + 1, O_RDONLY));
     }},
    {"relative",
     [] {
       if (chdir(std::string(file_path).substr(0, std::string(file_path).rfind('/')).c_str()) != 0) abort();
       read_all(open(strrchr(file_path, '/') + 1, O_RDONLY));
     }},
    {"lseek",
     [] {
       const int descriptor = opened();
       lseek(descriptor, 30000, SEEK_SET);
       if (read(descriptor, buffer, 1234) != 1234) abort();
     }},
    {"dup",
     [] {
       const int descriptor = opened();
       read_all(dup(descriptor), 7000);
       lseek(descriptor, 0, SEEK_SET);
       close(descriptor);
       read_all(fcntl(dup2(4, 9), F_DUPFD_CLOEXEC, 20), 7000);
     }},
    {"mmap",
     [] {
       struct stat facts;
       const int descriptor = opened();
       fstat(descriptor, &facts);
       if (mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0) == MAP_FAILED) abort();
     }},
    {"fread", [] { read_stream(stream(), 1000); }},
    {"fread_large", [] { read_stream(stream(), 50000); }},
    {"fread_small", [] { read_stream(stream(), 4); }},
    {"fread_unbuffered",
     [] {
       FILE* const file = stream();
       setvbuf(file, nullptr, _IONBF, 0);
       read_stream(file, 3000);
     }},
    {"fread_chk",
     [] {
       if (__fread_chk(buffer, sizeof buffer, 1, 9000, stream()) != 9000) abort();
     }},
    {"fdopen", [] { read_stream(fdopen(opened(), "rb"), 3000); }},
    {"freopen",
     [] {
       FILE* const file = freopen(file_path, "rb", stream());
       read_stream(file, 3000);
       fclose(file);
     }},
    {"fseek",
     [] {
       FILE* const file = stream();
       for (const long offset : {5000, 5100, 70000, 8192, 20001, 20010, 0}) {
         if (fseek(file, offset, SEEK_SET) != 0 || fread(buffer, 1, 900, file) != 900) abort();
       }
       fseek(file, -300, SEEK_END);
       read_stream(file, 100);
     }},
    {"ifstream",
     [] {
       std::ifstream file(file_path, std::ios::binary);
       while (file.read(buffer, 3000)) continue;
     }},
    {"ifstream_lines",
     [] {
       std::ifstream file(file_path);
       for (std::string line; std::getline(file, line);) continue;
     }},
    {"fork", fork_and_read},
    {"vfork", vfork_and_close},
    {"raw_fork", raw_fork_and_read},
    {"threads", read_in_threads},
    {"signals", read_in_signals},
    {"around", read_and_look_around},
    {"sleep",
     [] {
       usleep(1000000);  // two looks of a busy machine at who is there
       read_all(opened());
     }},
    {"forever",
     [] {
       const int descriptor = opened();
       for (int i = 0;; ++i) {
         if (i % 50 == 0) usleep(500);
         if (pread(descriptor, buffer, 100, 0) != 100) abort();
       }
     }},
    {"storm",
     [] {
       const int descriptor = opened();
       for (int i = 0; i < 300000; ++i)
         if (pread(descriptor, buffer, 10, 0) != 10) abort();
     }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !ways.contains(argv[1])) return 2;
  file_path = argv[2];
  std::uint64_t own = 0;
  const std::uint64_t before = kernel_count(&own);
  ways.at(argv[1])();
  char text[40];
  const std::uint64_t after = kernel_count();
  const int length = snprintf(text, sizeof text, "kernel %llu\n", static_cast<unsigned long long>(after - before - own));
  return write(2, text, static_cast<std::size_t>(length)) == length ? 0 : 1;
}
