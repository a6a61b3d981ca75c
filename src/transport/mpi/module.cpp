#include <mpi.h>

#include <cstdio>

#include "abi.hpp"

namespace {

int failed(const char* what, int code, char* error, size_t error_size) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  std::snprintf(error, error_size, "%s%s%s", what, code == MPI_SUCCESS ? "" : ": ", text);
  return 1;
}

}  // namespace

int dsanalyze_mpi_abi(void) { return DSANALYZE_MPI_ABI; }

const char* dsanalyze_mpi_name(void) {
#if defined(OPEN_MPI)
  return "Open MPI";
#elif defined(MPICH_VERSION) || defined(MPICH)
  return "MPICH";
#else
  return "MPI";
#endif
}

int dsanalyze_mpi_exchange(const void* mine, size_t bytes, void* all, int* rank, int* world, char* error, size_t error_size) {
  int code = MPI_SUCCESS;
  int there = 0;
  MPI_Initialized(&there);
  if (there == 0) {
    int provided = 0;
    code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    if (code != MPI_SUCCESS) return failed("MPI_Init_thread", code, error, error_size);
    if (provided < MPI_THREAD_FUNNELED) return failed("this MPI does not allow threads", MPI_SUCCESS, error, error_size);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int room = *world;
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, world);
  if (*world != room) {
    std::snprintf(error, error_size, "it finds %d ranks where the launcher says %d: the module was built with another MPI than the one that launched",
                  *world, room);
    return 1;
  }
  code = MPI_Allgather(mine, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, MPI_COMM_WORLD);
  return code == MPI_SUCCESS ? 0 : failed("MPI_Allgather", code, error, error_size);
}

int dsanalyze_mpi_finish(char* error, size_t error_size) {
  const int code = MPI_Finalize();
  return code == MPI_SUCCESS ? 0 : failed("MPI_Finalize", code, error, error_size);
}
