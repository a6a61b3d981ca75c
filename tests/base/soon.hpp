#pragma once

#include "base/clock.hpp"

namespace dsanalyze::testing {

/// A deadline that only a test that hangs meets: a minute from now.
inline Deadline soon() { return system_timing().clock->after(60); }

}  // namespace dsanalyze::testing
