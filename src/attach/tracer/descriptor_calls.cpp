#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "next_symbol.hpp"
#include "recorder.hpp"

// Calls on descriptors. Each does what the next library's does, and says what was read. Before the library's constructor has run, they are the
// system calls themselves. A file that was opened by a call that is none of these is told of at its first read.

namespace dsanalyze::tracing {
namespace {

using OpenCall = int(const char*, int, ...);
using OpenAtCall = int(int, const char*, int, ...);
using ReadCall = ssize_t(int, void*, size_t);
using CheckedReadCall = ssize_t(int, void*, size_t, size_t);
using PositionedCall = ssize_t(int, void*, size_t, off64_t);
using VectorCall = ssize_t(int, const iovec*, int);
using PositionedVectorCall = ssize_t(int, const iovec*, int, off64_t);
using MapCall = void*(void*, size_t, int, int, int, off64_t);
using ControlCall = int(int, int, ...);

using ReceiveCall = ssize_t(int, void*, size_t, int);
using CheckedReceiveCall = ssize_t(int, void*, size_t, size_t, int);
using ReceiveFromCall = ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*);
using CheckedReceiveFromCall = ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
using ReceiveMessageCall = ssize_t(int, msghdr*, int);

constinit Next<OpenCall> next_open{"open"}, next_open64{"open64"};
constinit Next<OpenAtCall> next_openat{"openat"}, next_openat64{"openat64"};
constinit Next<ReadCall> next_read{"read"};
constinit Next<CheckedReadCall> next_read_chk{"__read_chk"};
constinit Next<PositionedCall> next_pread{"pread"}, next_pread64{"pread64"};
constinit Next<VectorCall> next_readv{"readv"};
constinit Next<PositionedVectorCall> next_preadv{"preadv"}, next_preadv64{"preadv64"};
constinit Next<MapCall> next_mmap{"mmap"}, next_mmap64{"mmap64"};
constinit Next<int(int)> next_dup{"dup"}, next_close{"close"};
constinit Next<int(int, int)> next_dup2{"dup2"};
constinit Next<int(int, int, int)> next_dup3{"dup3"};
constinit Next<ControlCall> next_fcntl{"fcntl"}, next_fcntl64{"fcntl64"};
constinit Next<int(unsigned, unsigned, int)> next_close_range{"close_range"};

constinit Next<ReceiveCall> next_recv{"recv"};
constinit Next<CheckedReceiveCall> next_recv_chk{"__recv_chk"};
constinit Next<ReceiveFromCall> next_recvfrom{"recvfrom"};
constinit Next<CheckedReceiveFromCall> next_recvfrom_chk{"__recvfrom_chk"};
constinit Next<ReceiveMessageCall> next_recvmsg{"recvmsg"};

long failed_as_call(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

/// Calls what opens, `open()`, and records what that returned. The path of one that failed may point anywhere.
int recorded_open(const char* path, const auto& open, int folder = AT_FDCWD) {
  const uint64_t begin = time_of_call();
  const int descriptor = open();
  if (descriptor >= 0) opened(descriptor, path, folder != AT_FDCWD && path[0] != '/', begin);
  return descriptor;
}

bool has_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

int call_open(const Next<OpenCall>& next, const char* path, int flags, mode_t mode) {
  if (auto* const call = next.known()) return recorded_open(path, [&] { return call(path, flags, mode); });
  return static_cast<int>(failed_as_call(raw(SYS_openat, AT_FDCWD, word(path), flags, mode)));
}

int call_openat(const Next<OpenAtCall>& next, int folder, const char* path, int flags, mode_t mode) {
  if (auto* const call = next.known())
    return recorded_open(
        path, [&] { return call(folder, path, flags, mode); }, folder);
  return static_cast<int>(failed_as_call(raw(SYS_openat, folder, word(path), flags, mode)));
}

ssize_t call_pread(const Next<PositionedCall>& next, int descriptor, void* buffer, size_t size, off64_t offset) {
  auto* const call = next.known();
  if (call == nullptr) return failed_as_call(raw(SYS_pread64, descriptor, word(buffer), static_cast<long>(size), offset));
  const uint64_t begin = time_of_call();
  const ssize_t got = call(descriptor, buffer, size, offset);
  read_at(descriptor, got, offset, begin);
  return got;
}

ssize_t call_preadv(const Next<PositionedVectorCall>& next, int descriptor, const iovec* parts, int count, off64_t offset) {
  auto* const call = next.known();
  if (call == nullptr) return failed_as_call(raw(SYS_preadv, descriptor, word(parts), count, offset));
  const uint64_t begin = time_of_call();
  const ssize_t got = call(descriptor, parts, count, offset);
  read_at(descriptor, got, offset, begin);
  return got;
}

void* call_mmap(const Next<MapCall>& next, void* address, size_t size, int protection, int flags, int descriptor, off64_t offset) {
  auto* const call = next.known();
  if (call == nullptr)
    return pointer<void>(failed_as_call(raw(SYS_mmap, word(address), static_cast<long>(size), protection, flags, descriptor, offset)));
  if ((flags & MAP_ANONYMOUS) != 0) return call(address, size, protection, flags, descriptor, offset);
  const uint64_t begin = time_of_call();
  void* const memory = call(address, size, protection, flags, descriptor, offset);
  if (memory != MAP_FAILED) mapped(descriptor, static_cast<uint64_t>(offset), size, begin);
  return memory;
}

int copied_as(int descriptor, int copy) {
  if (copy >= 0 && copy != descriptor) duplicated(descriptor, copy);
  return copy;
}

int call_fcntl(const Next<ControlCall>& next, int descriptor, int command, void* argument) {
  auto* const call = next.known();
  if (call == nullptr) return static_cast<int>(failed_as_call(raw(SYS_fcntl, descriptor, command, word(argument))));
  const int result = call(descriptor, command, argument);
  return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied_as(descriptor, result) : result;
}

/// What is only looked at is received later.
ssize_t received_by(int descriptor, ssize_t got, int flags) {
  if ((flags & MSG_PEEK) == 0) received(descriptor, got);
  return got;
}

}  // namespace

void find_descriptor_calls() {
  NextSymbol* const symbols[] = {
      &next_open.symbol(),     &next_open64.symbol(),   &next_openat.symbol(),   &next_openat64.symbol(),     &next_read.symbol(),
      &next_read_chk.symbol(), &next_pread.symbol(),    &next_pread64.symbol(),  &next_readv.symbol(),        &next_preadv.symbol(),
      &next_preadv64.symbol(), &next_mmap.symbol(),     &next_mmap64.symbol(),   &next_dup.symbol(),          &next_close.symbol(),
      &next_dup2.symbol(),     &next_dup3.symbol(),     &next_fcntl.symbol(),    &next_fcntl64.symbol(),      &next_close_range.symbol(),
      &next_recv.symbol(),     &next_recv_chk.symbol(), &next_recvfrom.symbol(), &next_recvfrom_chk.symbol(), &next_recvmsg.symbol()};
  for (NextSymbol* const symbol : symbols) find(*symbol);
}

}  // namespace dsanalyze::tracing

namespace tracing = dsanalyze::tracing;

extern "C" {

int traced_open(const char* path, int flags, ...) DSANALYZE_STANDS_BEFORE("open");
int traced_open64(const char* path, int flags, ...) DSANALYZE_STANDS_BEFORE("open64");
int traced_openat(int folder, const char* path, int flags, ...) DSANALYZE_STANDS_BEFORE("openat");
int traced_openat64(int folder, const char* path, int flags, ...) DSANALYZE_STANDS_BEFORE("openat64");
ssize_t traced_read(int descriptor, void* buffer, size_t size) DSANALYZE_STANDS_BEFORE("read");
ssize_t traced_read_chk(int descriptor, void* buffer, size_t size, size_t room) DSANALYZE_STANDS_BEFORE("__read_chk");
ssize_t traced_pread(int descriptor, void* buffer, size_t size, off64_t offset) DSANALYZE_STANDS_BEFORE("pread");
ssize_t traced_pread64(int descriptor, void* buffer, size_t size, off64_t offset) DSANALYZE_STANDS_BEFORE("pread64");
ssize_t traced_readv(int descriptor, const iovec* parts, int count) DSANALYZE_STANDS_BEFORE("readv");
ssize_t traced_preadv(int descriptor, const iovec* parts, int count, off64_t offset) DSANALYZE_STANDS_BEFORE("preadv");
ssize_t traced_preadv64(int descriptor, const iovec* parts, int count, off64_t offset) DSANALYZE_STANDS_BEFORE("preadv64");
void* traced_mmap(void* address, size_t size, int protection, int flags, int descriptor, off64_t offset) DSANALYZE_STANDS_BEFORE("mmap");
void* traced_mmap64(void* address, size_t size, int protection, int flags, int descriptor, off64_t offset) DSANALYZE_STANDS_BEFORE("mmap64");
int traced_dup(int descriptor) DSANALYZE_STANDS_BEFORE("dup");
int traced_dup2(int descriptor, int copy) DSANALYZE_STANDS_BEFORE("dup2");
int traced_dup3(int descriptor, int copy, int flags) DSANALYZE_STANDS_BEFORE("dup3");
int traced_fcntl(int descriptor, int command, ...) DSANALYZE_STANDS_BEFORE("fcntl");
int traced_fcntl64(int descriptor, int command, ...) DSANALYZE_STANDS_BEFORE("fcntl64");
int traced_close(int descriptor) DSANALYZE_STANDS_BEFORE("close");
int traced_close_range(unsigned first, unsigned last, int flags) DSANALYZE_STANDS_BEFORE("close_range");

ssize_t traced_recv(int descriptor, void* buffer, size_t size, int flags) DSANALYZE_STANDS_BEFORE("recv");
ssize_t traced_recv_chk(int descriptor, void* buffer, size_t size, size_t room, int flags) DSANALYZE_STANDS_BEFORE("__recv_chk");
ssize_t traced_recvfrom(int descriptor, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length) DSANALYZE_STANDS_BEFORE("recvfrom");
ssize_t traced_recvfrom_chk(int descriptor, void* buffer, size_t size, size_t room, int flags, sockaddr* from, socklen_t* length)
    DSANALYZE_STANDS_BEFORE("__recvfrom_chk");
ssize_t traced_recvmsg(int descriptor, msghdr* message, int flags) DSANALYZE_STANDS_BEFORE("recvmsg");

// The mode is there where flags say so; fetching it from where it is not would be harmless, but not the language.
#define DSANALYZE_MODE_BEHIND(last) \
  mode_t mode = 0;                  \
  if (tracing::has_mode(flags)) {   \
    va_list more;                   \
    va_start(more, last);           \
    mode = va_arg(more, mode_t);    \
    va_end(more);                   \
  }

int traced_open(const char* path, int flags, ...) {
  DSANALYZE_MODE_BEHIND(flags)
  return tracing::call_open(tracing::next_open, path, flags, mode);
}
int traced_open64(const char* path, int flags, ...) {
  DSANALYZE_MODE_BEHIND(flags)
  return tracing::call_open(tracing::next_open64, path, flags, mode);
}
int traced_openat(int folder, const char* path, int flags, ...) {
  DSANALYZE_MODE_BEHIND(flags)
  return tracing::call_openat(tracing::next_openat, folder, path, flags, mode);
}
int traced_openat64(int folder, const char* path, int flags, ...) {
  DSANALYZE_MODE_BEHIND(flags)
  return tracing::call_openat(tracing::next_openat64, folder, path, flags, mode);
}

ssize_t traced_read(int descriptor, void* buffer, size_t size) {
  auto* const call = tracing::next_read.known();
  if (call == nullptr) return tracing::failed_as_call(tracing::raw(SYS_read, descriptor, tracing::word(buffer), static_cast<long>(size)));
  const uint64_t begin = tracing::time_of_call();
  const ssize_t got = call(descriptor, buffer, size);
  tracing::read_here(descriptor, got, begin);
  return got;
}
ssize_t traced_read_chk(int descriptor, void* buffer, size_t size, size_t room) {
  const uint64_t begin = tracing::time_of_call();
  const ssize_t got = tracing::next_read_chk.get()(descriptor, buffer, size, room);
  tracing::read_here(descriptor, got, begin);
  return got;
}
ssize_t traced_pread(int descriptor, void* buffer, size_t size, off64_t offset) {
  return tracing::call_pread(tracing::next_pread, descriptor, buffer, size, offset);
}
ssize_t traced_pread64(int descriptor, void* buffer, size_t size, off64_t offset) {
  return tracing::call_pread(tracing::next_pread64, descriptor, buffer, size, offset);
}
ssize_t traced_readv(int descriptor, const iovec* parts, int count) {
  auto* const call = tracing::next_readv.known();
  if (call == nullptr) return tracing::failed_as_call(tracing::raw(SYS_readv, descriptor, tracing::word(parts), count));
  const uint64_t begin = tracing::time_of_call();
  const ssize_t got = call(descriptor, parts, count);
  tracing::read_here(descriptor, got, begin);
  return got;
}
ssize_t traced_preadv(int descriptor, const iovec* parts, int count, off64_t offset) {
  return tracing::call_preadv(tracing::next_preadv, descriptor, parts, count, offset);
}
ssize_t traced_preadv64(int descriptor, const iovec* parts, int count, off64_t offset) {
  return tracing::call_preadv(tracing::next_preadv64, descriptor, parts, count, offset);
}

void* traced_mmap(void* address, size_t size, int protection, int flags, int descriptor, off64_t offset) {
  return tracing::call_mmap(tracing::next_mmap, address, size, protection, flags, descriptor, offset);
}
void* traced_mmap64(void* address, size_t size, int protection, int flags, int descriptor, off64_t offset) {
  return tracing::call_mmap(tracing::next_mmap64, address, size, protection, flags, descriptor, offset);
}

int traced_dup(int descriptor) {
  auto* const call = tracing::next_dup.known();
  if (call == nullptr) return static_cast<int>(tracing::failed_as_call(tracing::raw(SYS_dup, descriptor)));
  return tracing::copied_as(descriptor, call(descriptor));
}
int traced_dup2(int descriptor, int copy) { return tracing::copied_as(descriptor, tracing::next_dup2.get()(descriptor, copy)); }
int traced_dup3(int descriptor, int copy, int flags) {
  auto* const call = tracing::next_dup3.known();
  if (call == nullptr) return static_cast<int>(tracing::failed_as_call(tracing::raw(SYS_dup3, descriptor, copy, flags)));
  return tracing::copied_as(descriptor, call(descriptor, copy, flags));
}
int traced_fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return tracing::call_fcntl(tracing::next_fcntl, descriptor, command, argument);
}
int traced_fcntl64(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return tracing::call_fcntl(tracing::next_fcntl64, descriptor, command, argument);
}

int traced_close(int descriptor) {
  auto* const call = tracing::next_close.known();
  if (call == nullptr) return static_cast<int>(tracing::failed_as_call(tracing::raw(SYS_close, descriptor)));
  tracing::closing(descriptor);
  return call(descriptor);
}
int traced_close_range(unsigned first, unsigned last, int flags) {
  constexpr int only_close_on_exec = 4;
  auto* const call = tracing::next_close_range.known();
  if ((flags & only_close_on_exec) == 0) tracing::closing_from(first, last);
  if (call != nullptr) return call(first, last, flags);
  return static_cast<int>(tracing::failed_as_call(tracing::raw(SYS_close_range, first, last, flags)));
}

ssize_t traced_recv(int descriptor, void* buffer, size_t size, int flags) {
  auto* const call = tracing::next_recv.known();
  if (call == nullptr)
    return tracing::failed_as_call(tracing::raw(SYS_recvfrom, descriptor, tracing::word(buffer), static_cast<long>(size), flags, 0, 0));
  return tracing::received_by(descriptor, call(descriptor, buffer, size, flags), flags);
}
ssize_t traced_recv_chk(int descriptor, void* buffer, size_t size, size_t room, int flags) {
  return tracing::received_by(descriptor, tracing::next_recv_chk.get()(descriptor, buffer, size, room, flags), flags);
}
ssize_t traced_recvfrom(int descriptor, void* buffer, size_t size, int flags, sockaddr* from, socklen_t* length) {
  auto* const call = tracing::next_recvfrom.known();
  if (call == nullptr)
    return tracing::failed_as_call(
        tracing::raw(SYS_recvfrom, descriptor, tracing::word(buffer), static_cast<long>(size), flags, tracing::word(from), tracing::word(length)));
  return tracing::received_by(descriptor, call(descriptor, buffer, size, flags, from, length), flags);
}
ssize_t traced_recvfrom_chk(int descriptor, void* buffer, size_t size, size_t room, int flags, sockaddr* from, socklen_t* length) {
  return tracing::received_by(descriptor, tracing::next_recvfrom_chk.get()(descriptor, buffer, size, room, flags, from, length), flags);
}
ssize_t traced_recvmsg(int descriptor, msghdr* message, int flags) {
  auto* const call = tracing::next_recvmsg.known();
  if (call == nullptr) return tracing::failed_as_call(tracing::raw(SYS_recvmsg, descriptor, tracing::word(message), flags));
  return tracing::received_by(descriptor, call(descriptor, message, flags), flags);
}
}
