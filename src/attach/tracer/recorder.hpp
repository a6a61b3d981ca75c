#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ring.hpp"

// What the tracer keeps of its process: which descriptors are files, and the ring. Nothing here sets errno, takes a lock, allocates or throws; all of
// it may be called by any thread, by signal handlers, and in the child of a fork.

namespace dsanalyze::tracing {

/// Where the launcher listens (DSANALYZE_TRACE). Without it nothing is traced. Called by the library's constructor.
void begin_recording(const char* socket);
/// In the child of a fork: it gets a ring of its own with its next record.
void begin_in_child();

/// Nanoseconds of CLOCK_MONOTONIC; 0 where nothing is traced, which makes the calls below return at once.
uint64_t time_of_call();

/// A descriptor that a call returned, which began at `begin`. `path` as it was passed, relative to the current folder unless `in_folder`; may be
/// nullptr.
void opened(int descriptor, const char* path, bool in_folder, uint64_t begin);
/// `copy` is another name of what `descriptor` is.
void duplicated(int descriptor, int copy);
/// To be called before the descriptor is closed: afterwards another thread may have it.
void closing(int descriptor);
void closing_from(unsigned first, unsigned last);

/// A read of `bytes` that just ended where the descriptor's position now is, or began at `offset`.
void read_here(int descriptor, int64_t bytes, uint64_t begin, RecordKind kind = RecordKind::read);
void read_at(int descriptor, int64_t bytes, int64_t offset, uint64_t begin, RecordKind kind = RecordKind::positioned);
/// What recv() or its like returned: it counts where the descriptor is a socket of the Internet's protocols, and the kernel's count of reads has none
/// of it.
void received(int descriptor, int64_t bytes);
void mapped(int descriptor, uint64_t offset, uint64_t bytes, uint64_t begin);
/// The kernel's position in the file; -1 where the descriptor is none that is recorded.
int64_t position_of(int descriptor);

}  // namespace dsanalyze::tracing
