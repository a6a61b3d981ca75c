// The program's kernels. They are found by name; cuda_driver.cpp says with which arguments they are called.

// Every block is busy for `nanoseconds` of the GPU's clock: it adds to each 16 bytes of its part of `memory` again and again. `words` counts 16 bytes.
extern "C" __global__ void dsanalyze_occupy(unsigned long long nanoseconds, uint4* memory, unsigned long long words) {
  unsigned long long begun = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long at = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  while (true) {
    for (int turn = 0; turn < 8 && words > 0; ++turn, at += stride) {
      uint4& word = memory[at % words];
      word.x += 1;
    }
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begun >= nanoseconds) return;
  }
}
