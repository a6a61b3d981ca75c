#include "thread_time.hpp"

#include <ctime>

namespace dsanalyze {

Nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * nanoseconds_per_second + time.tv_nsec;
}

}  // namespace dsanalyze
