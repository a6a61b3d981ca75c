#include <stdlib.h>

#include "next_symbol.hpp"
#include "recorder.hpp"

// The versions that the oldest supported C libraries have, too: the headers' own would bind the newest.
#if defined(__x86_64__)
__asm__(".symver dsanalyze_dlsym, dlsym@GLIBC_2.2.5");
__asm__(".symver dsanalyze_dlerror, dlerror@GLIBC_2.2.5");
#else
__asm__(".symver dsanalyze_dlsym, dlsym@GLIBC_2.17");
__asm__(".symver dsanalyze_dlerror, dlerror@GLIBC_2.17");
#endif

extern "C" {
void* dsanalyze_dlsym(void* handle, const char* name);
char* dsanalyze_dlerror();
int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(), void* library);
// There where a sanitizer's runtime is.
void __asan_init() __attribute__((weak));
void __msan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace dsanalyze::tracing {

void* find(NextSymbol& symbol) {
  void* found = load(symbol.found);
  if (found == nullptr) {
    void* const behind_this = pointer<void>(-1L);  // RTLD_NEXT
    found = dsanalyze_dlsym(behind_this, symbol.name);
    store(symbol.found, found);
  }
  return found;
}

namespace {

/// Sanitizers keep books of every call themselves, from before any constructor on.
bool under_sanitizer() { return __asan_init != nullptr || __msan_init != nullptr || __tsan_init != nullptr; }

__attribute__((constructor)) void loaded() {
  find_descriptor_calls();
  find_stream_calls();
  dsanalyze_dlerror();  // what an older C library lacks is no error of the program's
  const char* const socket = getenv("DSANALYZE_TRACE");
  if (socket == nullptr || under_sanitizer()) return;
  begin_recording(socket);
  __register_atfork(nullptr, nullptr, begin_in_child, nullptr);
}

}  // namespace
}  // namespace dsanalyze::tracing
