#pragma once

// What newer kernels than the build machine's headers offer. The running kernel is asked before any of it is relied on.

namespace dsanalyze {

/// preadv2 and io_uring reads: the pages that this read brings in leave the page cache once they are copied (Linux 6.14; ext4, xfs, btrfs).
constexpr int rwf_dontcache = 0x80;

}  // namespace dsanalyze
