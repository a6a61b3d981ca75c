// Distributions build their static libraries for programs, where a variable of the C library has an address that is known when the program is linked.
// stderr is the only one that the libraries in libdsanalyze.so ask for: they find this one, hidden in it.

#include <dlfcn.h>

extern "C" {
__attribute__((visibility("hidden"))) void* stderr = nullptr;
}

namespace {

__attribute__((constructor(101))) void find_stderr() {
  if (void* const variable = dlsym(RTLD_DEFAULT, "stderr"); variable != nullptr) stderr = *static_cast<void**>(variable);
}

}  // namespace
