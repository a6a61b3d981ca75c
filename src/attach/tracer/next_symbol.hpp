#pragma once

#include <stddef.h>

#include "raw.hpp"

namespace dsanalyze::tracing {

/// A function that this library stands before: the one of the same name that the program would have called.
struct NextSymbol {
  const char* name;
  void* found = nullptr;
};

/// Looks a name up behind this library, once. nullptr where there is none.
void* find(NextSymbol& symbol);

template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : m_symbol{name} {}
  /// nullptr before the library's constructor has run, too: system calls are then made directly, as looking up may allocate.
  [[nodiscard]] Function* known() const { return reinterpret_cast<Function*>(load(m_symbol.found)); }
  [[nodiscard]] Function* get() { return reinterpret_cast<Function*>(find(m_symbol)); }
  [[nodiscard]] NextSymbol& symbol() { return m_symbol; }

 private:
  NextSymbol m_symbol;
};

/// Look up all functions on descriptors, and on streams.
void find_descriptor_calls();
void find_stream_calls();

}  // namespace dsanalyze::tracing

// A definition that other libraries and the program see, by a name of the C library that its headers declare in their own way.
#define DSANALYZE_STANDS_BEFORE(name) __asm__(name) __attribute__((visibility("default")))
