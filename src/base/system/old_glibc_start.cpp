// How a program starts that runs with an older glibc than it is linked against (old_glibc.cpp). No header: it would declare what is defined here.

// 2.34: the library runs the program's constructors. Before, the program brought a function that does, and the library still calls that if it is
// given.
#if defined(__x86_64__)
__asm__(".symver older___libc_start_main,__libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver older___libc_start_main,__libc_start_main@GLIBC_2.17");
#endif
extern "C" {
using Constructor = void (*)(int, char**, char**);
extern const Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern const Constructor __init_array_end[] __attribute__((visibility("hidden")));
void _init();
int older___libc_start_main(int (*main)(int, char**, char**), int count, char** words, Constructor construct, void (*destruct)(), void (*end)(),
                            void* stack);
}
namespace {

void construct_all(int count, char** words, char** environment) {
  _init();
  for (const Constructor* each = __init_array_start; each != __init_array_end; ++each) (*each)(count, words, environment);
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int __libc_start_main(int (*main)(int, char**, char**), int count, char** words,
                                                                       Constructor /*construct*/, void (* /*destruct*/)(), void (*end)(),
                                                                       void* stack) {
  return older___libc_start_main(main, count, words, construct_all, nullptr, end, stack);
}
