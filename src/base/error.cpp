#include "error.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace dsanalyze {
namespace {

/// Whether there are addresses for another thread's stack: what pthread_create() says is EAGAIN for want of memory, too.
bool stack_fits() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  void* const stack = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return false;
  ::munmap(stack, bytes);
  return true;
}

}  // namespace

std::string describe_errno(int error_number) { return std::generic_category().message(error_number); }

bool says_no_memory(const std::exception& error) {
  return dynamic_cast<const NoMemoryError*>(&error) != nullptr || dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

void throw_errno(std::string_view what, std::string_view path, int error_number) {
  const std::string message = fmt::format("{} {}: {}", what, path, describe_errno(error_number));
  if (error_number == ENOMEM) throw NoMemoryError(message);
  throw Error(message);
}

void throw_no_thread(const std::exception& cause, std::string_view threads, std::string_view remedy) {
  if (says_no_memory(cause) || !stack_fits()) {
    throw NoMemoryError(fmt::format("cannot start {}: there is no memory for them, or a limit of it is too low (ulimit -v); {}", threads, remedy));
  }
  throw Error(fmt::format("cannot start {}: the system or a container limits how many there may be; {}", threads, remedy));
}

std::string_view status_name(StatusCode code) {
  constexpr std::array names = names_of(StatusCode{});
  const auto at = static_cast<std::size_t>(code);
  return at < names.size() ? names[at] : "unknown";
}

}  // namespace dsanalyze
