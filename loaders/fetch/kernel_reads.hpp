#pragma once

#include <cerrno>
#include <cstdint>

namespace dsanalyze {

// What reading through the kernel comes with, in whichever way it is asked.

constexpr std::uint64_t page_bytes = 4096;                      ///< of the page cache
constexpr std::uint64_t largest_read = std::uint64_t{1} << 30;  ///< the kernel's limit for one call is just below 2 GiB
constexpr int most_retries = 100;                               ///< of one read, after errors that pass

/// Asked again, the kernel may well do it.
constexpr bool passes(int error) { return error == EINTR || error == EAGAIN; }

// What newer kernels than the build machine's headers offer. The running kernel is asked before any of it is relied on.

/// preadv2 and io_uring reads: the pages that this read brings in leave the page cache once they are copied (Linux 6.14; ext4, xfs, btrfs).
constexpr int rwf_dontcache = 0x80;

}  // namespace dsanalyze
