#undef _FILE_OFFSET_BITS
#include <stdio.h>

#include "next_symbol.hpp"
#include "recorder.hpp"

// Calls on FILE: what a stream takes from its descriptor happens inside of the C library, where no call can be stood before. It is told by how far
// the descriptor's position moves, which is looked at where the stream's buffer does not hold what is asked for.

namespace dsanalyze::tracing {
namespace {

using OpenStream = FILE*(const char*, const char*);
using ReopenStream = FILE*(const char*, const char*, FILE*);
using ReadStream = size_t(void*, size_t, size_t, FILE*);
using CheckedReadStream = size_t(void*, size_t, size_t, size_t, FILE*);

constinit Next<OpenStream> next_fopen{"fopen"}, next_fopen64{"fopen64"};
constinit Next<ReopenStream> next_freopen{"freopen"}, next_freopen64{"freopen64"};
constinit Next<int(FILE*)> next_fclose{"fclose"};
constinit Next<ReadStream> next_fread{"fread"}, next_fread_unlocked{"fread_unlocked"};
constinit Next<CheckedReadStream> next_fread_chk{"__fread_chk"}, next_fread_unlocked_chk{"__fread_unlocked_chk"};
constinit Next<int(FILE*, long, int)> next_fseek{"fseek"}, next_fseeko{"fseeko"}, next_fseeko64{"fseeko64"};

size_t buffered(const FILE* stream) {
  return stream->_IO_read_end > stream->_IO_read_ptr ? static_cast<size_t>(stream->_IO_read_end - stream->_IO_read_ptr) : 0;
}

/// One call that may take something from the descriptor.
class StreamRead {
 public:
  explicit StreamRead(FILE* stream)
      : m_descriptor(stream->_fileno), m_begin(time_of_call()), m_before(m_begin == 0 ? -1 : position_of(m_descriptor)) {}
  /// `got`: what the call returned of it, which counts where the descriptor has no position.
  void ended(int64_t got) const {
    if (m_begin == 0 || m_descriptor < 0) return;
    if (m_before < 0) {
      read_here(m_descriptor, got, m_begin, RecordKind::stream);
      return;
    }
    const int64_t after = position_of(m_descriptor);
    if (after > m_before) read_at(m_descriptor, after - m_before, m_before, m_begin, RecordKind::stream);
  }

 private:
  int m_descriptor;
  uint64_t m_begin;
  int64_t m_before;
};

/// Calls what opens, `open()`, and records what that returned.
FILE* recorded_stream(const char* path, const auto& open) {
  const uint64_t begin = time_of_call();
  FILE* const stream = open();
  if (stream != nullptr) opened(stream->_fileno, path, false, begin);
  return stream;
}

/// `size` bytes, `count` times.
template <class Call>
size_t call_fread(size_t size, size_t count, FILE* stream, Call call) {
  size_t wanted = 0;
  if (!__builtin_mul_overflow(size, count, &wanted) && buffered(stream) >= wanted) return call();
  const StreamRead read(stream);
  const size_t got = call();
  read.ended(static_cast<int64_t>(got * size));
  return got;
}

/// A stream that is moved elsewhere may read a part of its buffer there, up to the position that its descriptor has then.
template <class Call>
int call_seek(FILE* stream, Call call) {
  const int descriptor = stream->_fileno;
  const uint64_t begin = time_of_call();
  const int64_t before = begin == 0 ? -1 : position_of(descriptor);
  const int result = call();
  if (begin == 0 || before < 0 || stream->_IO_read_end <= stream->_IO_read_base) return result;
  const int64_t after = position_of(descriptor);
  const int64_t taken = stream->_IO_read_end - stream->_IO_read_base;
  if (after != before && after >= taken) read_at(descriptor, taken, after - taken, begin, RecordKind::stream);
  return result;
}

}  // namespace

void find_stream_calls() {
  NextSymbol* const symbols[] = {&next_fopen.symbol(),          &next_fopen64.symbol(),   &next_freopen.symbol(),
                                 &next_freopen64.symbol(),      &next_fclose.symbol(),    &next_fread.symbol(),
                                 &next_fread_unlocked.symbol(), &next_fread_chk.symbol(), &next_fread_unlocked_chk.symbol(),
                                 &next_fseek.symbol(),          &next_fseeko.symbol(),    &next_fseeko64.symbol()};
  for (NextSymbol* const symbol : symbols) find(*symbol);
}

}  // namespace dsanalyze::tracing

namespace tracing = dsanalyze::tracing;

extern "C" {

FILE* traced_fopen(const char* path, const char* mode) DSANALYZE_STANDS_BEFORE("fopen");
FILE* traced_fopen64(const char* path, const char* mode) DSANALYZE_STANDS_BEFORE("fopen64");
FILE* traced_freopen(const char* path, const char* mode, FILE* stream) DSANALYZE_STANDS_BEFORE("freopen");
FILE* traced_freopen64(const char* path, const char* mode, FILE* stream) DSANALYZE_STANDS_BEFORE("freopen64");
int traced_fclose(FILE* stream) DSANALYZE_STANDS_BEFORE("fclose");
size_t traced_fread(void* to, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("fread");
size_t traced_fread_unlocked(void* to, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("fread_unlocked");
size_t traced_fread_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("__fread_chk");
size_t traced_fread_unlocked_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("__fread_unlocked_chk");
int traced_fseek(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseek");
int traced_fseeko(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseeko");
int traced_fseeko64(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseeko64");

FILE* traced_fopen(const char* path, const char* mode) {
  return tracing::recorded_stream(path, [&] { return tracing::next_fopen.get()(path, mode); });
}
FILE* traced_fopen64(const char* path, const char* mode) {
  return tracing::recorded_stream(path, [&] { return tracing::next_fopen64.get()(path, mode); });
}
FILE* traced_freopen(const char* path, const char* mode, FILE* stream) {
  tracing::closing(stream->_fileno);
  return tracing::recorded_stream(path, [&] { return tracing::next_freopen.get()(path, mode, stream); });
}
FILE* traced_freopen64(const char* path, const char* mode, FILE* stream) {
  tracing::closing(stream->_fileno);
  return tracing::recorded_stream(path, [&] { return tracing::next_freopen64.get()(path, mode, stream); });
}
int traced_fclose(FILE* stream) {
  tracing::closing(stream->_fileno);
  return tracing::next_fclose.get()(stream);
}

size_t traced_fread(void* to, size_t size, size_t count, FILE* stream) {
  return tracing::call_fread(size, count, stream, [=] { return tracing::next_fread.get()(to, size, count, stream); });
}
size_t traced_fread_unlocked(void* to, size_t size, size_t count, FILE* stream) {
  return tracing::call_fread(size, count, stream, [=] { return tracing::next_fread_unlocked.get()(to, size, count, stream); });
}
size_t traced_fread_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) {
  return tracing::call_fread(size, count, stream, [=] { return tracing::next_fread_chk.get()(to, room, size, count, stream); });
}
size_t traced_fread_unlocked_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) {
  return tracing::call_fread(size, count, stream, [=] { return tracing::next_fread_unlocked_chk.get()(to, room, size, count, stream); });
}

int traced_fseek(FILE* stream, long offset, int from) {
  return tracing::call_seek(stream, [=] { return tracing::next_fseek.get()(stream, offset, from); });
}
int traced_fseeko(FILE* stream, long offset, int from) {
  return tracing::call_seek(stream, [=] { return tracing::next_fseeko.get()(stream, offset, from); });
}
int traced_fseeko64(FILE* stream, long offset, int from) {
  return tracing::call_seek(stream, [=] { return tracing::next_fseeko64.get()(stream, offset, from); });
}
}
