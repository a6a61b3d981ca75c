#pragma once

#include <stddef.h>
#include <stdint.h>

// System calls that leave errno alone, take no lock, and are no symbol that another library could stand before.

namespace dsanalyze::tracing {

inline long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "the tracer knows no system calls of this architecture"
#endif
}

template <class T>
long word(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

template <class T>
T* pointer(long word) {
  return __builtin_bit_cast(T*, word);
}

template <class T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <class T>
void store(T& to, T value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}
template <class T>
T add(T& to, T value) {
  return __atomic_fetch_add(&to, value, __ATOMIC_RELAXED);
}
template <class T>
T take(T& from) {
  return __atomic_exchange_n(&from, T{0}, __ATOMIC_ACQ_REL);
}

}  // namespace dsanalyze::tracing
