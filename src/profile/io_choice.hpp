#pragma once

#include "runs.hpp"

namespace dsanalyze {

/// Sets how all runs read (RunContext::way). `--io pread` and `uring` are taken at their word; `auto` tries threads and io_uring, buffered and direct
/// (direct alone with --direct; buffered alone where the page cache is what is measured), by turns on a few cold samples for about `seconds`, takes
/// the fastest and says so. Where the kernel refuses io_uring, auto goes without and says so. Throws UsageError when uring was asked for and is
/// refused.
void choose_io(RunContext& context, double seconds);
/// "io_uring, direct"
std::string way_name(const FetchWay& way);

}  // namespace dsanalyze
