// The plainest copies to a GPU that there are: cudaMemcpyAsync from pinned memory, again and again, timed by events. Prints bytes a second.
// usage: copy_loop BYTES COPIES; nvcc -O2 -o copy_loop copy_loop.cu

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define REQUIRE(CALL)                                                        \
  if (const cudaError_t error = (CALL); error != cudaSuccess) {              \
    std::fprintf(stderr, "%s: %s\n", #CALL, cudaGetErrorString(error));      \
    return 1;                                                                \
  }

int main(int count, char** words) {
  if (count != 3) return 2;
  const std::size_t bytes = std::strtoull(words[1], nullptr, 10);
  const int copies = std::atoi(words[2]);
  void* from = nullptr;
  void* to = nullptr;
  cudaEvent_t begun, ended;
  cudaStream_t stream;
  REQUIRE(cudaHostAlloc(&from, bytes, cudaHostAllocDefault));
  std::memset(from, 1, bytes);
  REQUIRE(cudaMalloc(&to, bytes));
  REQUIRE(cudaStreamCreate(&stream));
  REQUIRE(cudaEventCreate(&begun));
  REQUIRE(cudaEventCreate(&ended));
  for (int round = 0; round < 2; ++round) {  // the first one warms up
    REQUIRE(cudaEventRecord(begun, stream));
    for (int copy = 0; copy < copies; ++copy) REQUIRE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    REQUIRE(cudaEventRecord(ended, stream));
    REQUIRE(cudaEventSynchronize(ended));
  }
  float milliseconds = 0;
  REQUIRE(cudaEventElapsedTime(&milliseconds, begun, ended));
  std::printf("%.0f\n", static_cast<double>(bytes) * copies / milliseconds * 1000);
  return 0;
}
