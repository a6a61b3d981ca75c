#undef _FILE_OFFSET_BITS
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

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
using GetLine = char*(char*, int, FILE*);
using CheckedGetLine = char*(char*, size_t, int, FILE*);
using GetCharacter = int(FILE*);
using GetDelimited = ssize_t(char**, size_t*, int, FILE*);
using ScanStream = int(FILE*, const char*, va_list);

constinit Next<OpenStream> next_fopen{"fopen"}, next_fopen64{"fopen64"};
constinit Next<ReopenStream> next_freopen{"freopen"}, next_freopen64{"freopen64"};
constinit Next<int(FILE*)> next_fclose{"fclose"}, next_pclose{"pclose"};
constinit Next<ReadStream> next_fread{"fread"}, next_fread_unlocked{"fread_unlocked"};
constinit Next<CheckedReadStream> next_fread_chk{"__fread_chk"}, next_fread_unlocked_chk{"__fread_unlocked_chk"};
constinit Next<GetLine> next_fgets{"fgets"}, next_fgets_unlocked{"fgets_unlocked"};
constinit Next<CheckedGetLine> next_fgets_chk{"__fgets_chk"}, next_fgets_unlocked_chk{"__fgets_unlocked_chk"};
constinit Next<GetCharacter> next_fgetc{"fgetc"}, next_getc{"getc"}, next_io_getc{"_IO_getc"}, next_fgetc_unlocked{"fgetc_unlocked"};
constinit Next<GetCharacter> next_getc_unlocked{"getc_unlocked"}, next_uflow{"__uflow"}, next_underflow{"__underflow"};
constinit Next<GetDelimited> next_getdelim{"getdelim"}, next_getdelim_inner{"__getdelim"};
constinit Next<ssize_t(char**, size_t*, FILE*)> next_getline{"getline"};
constinit Next<int(FILE*, long, int)> next_fseek{"fseek"}, next_fseeko{"fseeko"}, next_fseeko64{"fseeko64"};
constinit Next<int(FILE*, const fpos_t*)> next_fsetpos{"fsetpos"}, next_fsetpos64{"fsetpos64"};
constinit Next<void(FILE*)> next_rewind{"rewind"};
constinit Next<ScanStream> next_vfscanf{"vfscanf"}, next_c99_vfscanf{"__isoc99_vfscanf"}, next_c23_vfscanf{"__isoc23_vfscanf"};

size_t buffered(const FILE* stream) {
  return stream->_IO_read_end > stream->_IO_read_ptr ? static_cast<size_t>(stream->_IO_read_end - stream->_IO_read_ptr) : 0;
}

/// Whether the buffer holds a line, or as much of one as fits.
bool holds_line(const FILE* stream, int end, size_t most) {
  const size_t there = buffered(stream);
  return there >= most || (there > 0 && memchr(stream->_IO_read_ptr, end, there) != nullptr);
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

template <class Call>
char* call_fgets(const char* text, int room, FILE* stream, Call call) {
  if (room <= 1 || holds_line(stream, '\n', static_cast<size_t>(room - 1))) return call();
  const StreamRead read(stream);
  char* const got = call();
  read.ended(got == nullptr ? 0 : static_cast<int64_t>(strlen(text)));
  return got;
}

int call_getc(Next<GetCharacter>& next, FILE* stream) {
  if (buffered(stream) > 0) return next.get()(stream);
  const StreamRead read(stream);
  const int got = next.get()(stream);
  read.ended(got == EOF ? 0 : 1);
  return got;
}

template <class Call>
ssize_t call_getdelim(int end, FILE* stream, Call call) {
  if (holds_line(stream, end, SIZE_MAX)) return call();
  const StreamRead read(stream);
  const ssize_t got = call();
  read.ended(got);
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

int call_scan(Next<ScanStream>& next, FILE* stream, const char* format, va_list arguments) {
  const StreamRead read(stream);
  const int found = next.get()(stream, format, arguments);
  read.ended(0);
  return found;
}

}  // namespace

void find_stream_calls() {
  NextSymbol* const symbols[] = {&next_fopen.symbol(),      &next_fopen64.symbol(),
                                 &next_freopen.symbol(),    &next_freopen64.symbol(),
                                 &next_fclose.symbol(),     &next_fread.symbol(),
                                 &next_fread_chk.symbol(),  &next_fread_unlocked.symbol(),
                                 &next_fgets.symbol(),      &next_fread_unlocked_chk.symbol(),
                                 &next_fgets_chk.symbol(),  &next_fgets_unlocked.symbol(),
                                 &next_fgetc.symbol(),      &next_fgets_unlocked_chk.symbol(),
                                 &next_getc.symbol(),       &next_io_getc.symbol(),
                                 &next_uflow.symbol(),      &next_fgetc_unlocked.symbol(),
                                 &next_underflow.symbol(),  &next_getc_unlocked.symbol(),
                                 &next_getdelim.symbol(),   &next_getdelim_inner.symbol(),
                                 &next_getline.symbol(),    &next_fseek.symbol(),
                                 &next_fseeko.symbol(),     &next_fseeko64.symbol(),
                                 &next_fsetpos.symbol(),    &next_fsetpos64.symbol(),
                                 &next_rewind.symbol(),     &next_vfscanf.symbol(),
                                 &next_pclose.symbol(),     &next_c99_vfscanf.symbol(),
                                 &next_c23_vfscanf.symbol()};
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
int traced_pclose(FILE* stream) DSANALYZE_STANDS_BEFORE("pclose");
size_t traced_fread(void* to, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("fread");
size_t traced_fread_unlocked(void* to, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("fread_unlocked");
size_t traced_fread_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("__fread_chk");
size_t traced_fread_unlocked_chk(void* to, size_t room, size_t size, size_t count, FILE* stream) DSANALYZE_STANDS_BEFORE("__fread_unlocked_chk");
char* traced_fgets(char* text, int room, FILE* stream) DSANALYZE_STANDS_BEFORE("fgets");
char* traced_fgets_unlocked(char* text, int room, FILE* stream) DSANALYZE_STANDS_BEFORE("fgets_unlocked");
char* traced_fgets_chk(char* text, size_t memory, int room, FILE* stream) DSANALYZE_STANDS_BEFORE("__fgets_chk");
char* traced_fgets_unlocked_chk(char* text, size_t memory, int room, FILE* stream) DSANALYZE_STANDS_BEFORE("__fgets_unlocked_chk");
int traced_fgetc(FILE* stream) DSANALYZE_STANDS_BEFORE("fgetc");
int traced_getc(FILE* stream) DSANALYZE_STANDS_BEFORE("getc");
int traced_io_getc(FILE* stream) DSANALYZE_STANDS_BEFORE("_IO_getc");
int traced_fgetc_unlocked(FILE* stream) DSANALYZE_STANDS_BEFORE("fgetc_unlocked");
int traced_getc_unlocked(FILE* stream) DSANALYZE_STANDS_BEFORE("getc_unlocked");
int traced_uflow(FILE* stream) DSANALYZE_STANDS_BEFORE("__uflow");
int traced_underflow(FILE* stream) DSANALYZE_STANDS_BEFORE("__underflow");
ssize_t traced_getdelim(char** line, size_t* room, int end, FILE* stream) DSANALYZE_STANDS_BEFORE("getdelim");
ssize_t traced_getdelim_inner(char** line, size_t* room, int end, FILE* stream) DSANALYZE_STANDS_BEFORE("__getdelim");
ssize_t traced_getline(char** line, size_t* room, FILE* stream) DSANALYZE_STANDS_BEFORE("getline");
int traced_fseek(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseek");
int traced_fseeko(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseeko");
int traced_fseeko64(FILE* stream, long offset, int from) DSANALYZE_STANDS_BEFORE("fseeko64");
int traced_fsetpos(FILE* stream, const fpos_t* position) DSANALYZE_STANDS_BEFORE("fsetpos");
int traced_fsetpos64(FILE* stream, const fpos_t* position) DSANALYZE_STANDS_BEFORE("fsetpos64");
void traced_rewind(FILE* stream) DSANALYZE_STANDS_BEFORE("rewind");
int traced_vfscanf(FILE* stream, const char* format, va_list arguments) DSANALYZE_STANDS_BEFORE("vfscanf");
int traced_c99_vfscanf(FILE* stream, const char* format, va_list arguments) DSANALYZE_STANDS_BEFORE("__isoc99_vfscanf");
int traced_c23_vfscanf(FILE* stream, const char* format, va_list arguments) DSANALYZE_STANDS_BEFORE("__isoc23_vfscanf");
int traced_fscanf(FILE* stream, const char* format, ...) DSANALYZE_STANDS_BEFORE("fscanf");
int traced_c99_fscanf(FILE* stream, const char* format, ...) DSANALYZE_STANDS_BEFORE("__isoc99_fscanf");
int traced_c23_fscanf(FILE* stream, const char* format, ...) DSANALYZE_STANDS_BEFORE("__isoc23_fscanf");

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
int traced_pclose(FILE* stream) {
  tracing::closing(stream->_fileno);
  return tracing::next_pclose.get()(stream);
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

char* traced_fgets(char* text, int room, FILE* stream) {
  return tracing::call_fgets(text, room, stream, [=] { return tracing::next_fgets.get()(text, room, stream); });
}
char* traced_fgets_unlocked(char* text, int room, FILE* stream) {
  return tracing::call_fgets(text, room, stream, [=] { return tracing::next_fgets_unlocked.get()(text, room, stream); });
}
char* traced_fgets_chk(char* text, size_t memory, int room, FILE* stream) {
  return tracing::call_fgets(text, room, stream, [=] { return tracing::next_fgets_chk.get()(text, memory, room, stream); });
}
char* traced_fgets_unlocked_chk(char* text, size_t memory, int room, FILE* stream) {
  return tracing::call_fgets(text, room, stream, [=] { return tracing::next_fgets_unlocked_chk.get()(text, memory, room, stream); });
}

int traced_fgetc(FILE* stream) { return tracing::call_getc(tracing::next_fgetc, stream); }
int traced_getc(FILE* stream) { return tracing::call_getc(tracing::next_getc, stream); }
int traced_io_getc(FILE* stream) { return tracing::call_getc(tracing::next_io_getc, stream); }
int traced_fgetc_unlocked(FILE* stream) { return tracing::call_getc(tracing::next_fgetc_unlocked, stream); }
int traced_getc_unlocked(FILE* stream) { return tracing::call_getc(tracing::next_getc_unlocked, stream); }
int traced_uflow(FILE* stream) { return tracing::call_getc(tracing::next_uflow, stream); }
int traced_underflow(FILE* stream) { return tracing::call_getc(tracing::next_underflow, stream); }

ssize_t traced_getdelim(char** line, size_t* room, int end, FILE* stream) {
  return tracing::call_getdelim(end, stream, [=] { return tracing::next_getdelim.get()(line, room, end, stream); });
}
ssize_t traced_getdelim_inner(char** line, size_t* room, int end, FILE* stream) {
  return tracing::call_getdelim(end, stream, [=] { return tracing::next_getdelim_inner.get()(line, room, end, stream); });
}
ssize_t traced_getline(char** line, size_t* room, FILE* stream) {
  return tracing::call_getdelim('\n', stream, [=] { return tracing::next_getline.get()(line, room, stream); });
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
int traced_fsetpos(FILE* stream, const fpos_t* position) {
  return tracing::call_seek(stream, [=] { return tracing::next_fsetpos.get()(stream, position); });
}
int traced_fsetpos64(FILE* stream, const fpos_t* position) {
  return tracing::call_seek(stream, [=] { return tracing::next_fsetpos64.get()(stream, position); });
}
void traced_rewind(FILE* stream) {
  tracing::call_seek(stream, [=] {
    tracing::next_rewind.get()(stream);
    return 0;
  });
}

int traced_vfscanf(FILE* stream, const char* format, va_list arguments) {
  return tracing::call_scan(tracing::next_vfscanf, stream, format, arguments);
}
int traced_c99_vfscanf(FILE* stream, const char* format, va_list arguments) {
  return tracing::call_scan(tracing::next_c99_vfscanf, stream, format, arguments);
}
int traced_c23_vfscanf(FILE* stream, const char* format, va_list arguments) {
  return tracing::call_scan(tracing::next_c23_vfscanf, stream, format, arguments);
}
#define DSANALYZE_SCANS(next)                                            \
  va_list arguments;                                                     \
  va_start(arguments, format);                                           \
  const int found = tracing::call_scan(next, stream, format, arguments); \
  va_end(arguments);                                                     \
  return found;
int traced_fscanf(FILE* stream, const char* format, ...) { DSANALYZE_SCANS(tracing::next_vfscanf) }
int traced_c99_fscanf(FILE* stream, const char* format, ...) { DSANALYZE_SCANS(tracing::next_c99_vfscanf) }
int traced_c23_fscanf(FILE* stream, const char* format, ...) { DSANALYZE_SCANS(tracing::next_c23_vfscanf) }
}
