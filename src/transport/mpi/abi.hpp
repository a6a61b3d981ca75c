#pragma once

#include <stddef.h>

/* What dsanalyze-mpi.so offers to the program that loads it. Each function returns 0, or 1 with a text in `error` (ended by a zero, cut to
 * error_size). */

#define DSANALYZE_MPI_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/* DSANALYZE_MPI_ABI of the module. */
int dsanalyze_mpi_abi(void);

/* Whose MPI it was built with: "Open MPI", "MPICH" (and what derives from it) or "MPI". */
const char* dsanalyze_mpi_name(void);

/* Starts MPI (MPI_THREAD_FUNNELED) if it is not, and gathers `bytes` of every rank into `all`, in rank order. *world goes in as the ranks that `all`
   has room for and comes back as those there are; a mismatch is an error, and nothing is gathered. Errors of MPI are returned, they do not end the
   process. Once, by the thread that will call the finish. */
int dsanalyze_mpi_exchange(const void* mine, size_t bytes, void* all, int* rank, int* world, char* error, size_t error_size);

/* MPI_Finalize: waits for all ranks. */
int dsanalyze_mpi_finish(char* error, size_t error_size);

#ifdef __cplusplus
}
#endif
