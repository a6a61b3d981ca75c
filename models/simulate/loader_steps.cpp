#include "loader_steps.hpp"

#include <array>

namespace dsanalyze::whatif {
namespace {

struct Steps {
  std::string_view code;
  const char* pytorch;
  const char* dali;
  const char* webdataset;  ///< nullptr: nothing
};

constexpr std::array<Steps, 10> table{{
    {"add-cache",
     "copy a fixed part of the files to /dev/shm once and let the Dataset open those there: a part that is never replaced has as many hits an epoch "
     "as "
     "it holds, the page cache fewer; persistent_workers=True keeps what workers hold between epochs",
     "copy a fixed part to /dev/shm and list both places in fn.readers.file(files=[...]); or hold decoded images in GPU memory: "
     "fn.decoders.image(device='mixed', cache_type='threshold', cache_size=MIB) with skip_cached_images=True and stick_to_shard=True in the "
     "reader",
     "copy a fixed part of the shards to /dev/shm and give both places in urls; wds.WebDataset(urls, cache_dir=DIR, cache_size=BYTES) does it by "
     "itself "
     "when all shards fit"},
    {"faster-storage",
     "copy the dataset to a local disk before training (rsync -a) and give the Dataset that root; meanwhile more num_workers and prefetch_factor "
     "keep "
     "more reads under way",
     "fn.readers.file(file_root=LOCAL) after the same copy; on a network filesystem dont_use_mmap=True, and prefetch_queue_depth=2 or more in the "
     "reader",
     "wds.WebDataset(urls, cache_dir=LOCAL) copies each shard to the local disk when it is first read"},
    {"add-cores",
     "DataLoader(num_workers=N): N is for each training process, so divide the cores by the processes; persistent_workers=True, prefetch_factor=4, "
     "pin_memory=True",
     "@pipeline_def(num_threads=N) is for each GPU's pipeline; where cores are short, fn.decoders.image(device='mixed', hw_decoder_load=0.65) "
     "decodes "
     "on the GPU",
     "wds.WebLoader(dataset, num_workers=N, batch_size=None), batching in the workers with .batched(B); it needs at least as many shards as workers "
     "(dsanalyze dataset convert --shard-size makes smaller ones)"},
    {"more-workers",
     "raise DataLoader(num_workers=N) until the processes' workers together are as many as the cores (os.sched_getaffinity); 0, the default, "
     "prepares in "
     "the training process itself; persistent_workers=True, prefetch_factor=4, pin_memory=True",
     "raise num_threads of the pipeline, and its prefetch_queue_depth above the default 2 where batches come unevenly; give PyTorch the batches by "
     "DALIGenericIterator, without a DataLoader around it",
     "raise wds.WebLoader(num_workers=N), at most as many as shards for each process; decode with .decode('torchrgb8') or 'pil' in the workers"},
    {"prep-does-not-scale",
     "move prep off the CPU or out of the epoch: decode on the GPU (torchvision.io.decode_jpeg(device='cuda')), smaller source images, or samples "
     "prepared once (dsanalyze dataset convert --to npy)",
     "fn.decoders.image(device='mixed', hw_decoder_load=0.65) and the following operators with device='gpu'",
     "store smaller images in the shards, and leave resizing and normalising to the GPU"},
    {"pack-into-shards",
     "dsanalyze dataset convert DATA SHARDS --to tar; then wds.WebDataset(urls, shardshuffle=100).shuffle(5000) in place of the map-style Dataset",
     "dsanalyze dataset convert DATA SHARDS --to tar; wds2idx makes the indices; fn.readers.webdataset(paths=[...], index_paths=[...], "
     "ext=['jpg;jpeg', 'cls'], random_shuffle=True, initial_fill=5000)",
     "dsanalyze dataset convert DATA SHARDS --to tar; wds.WebDataset(urls, shardshuffle=100, nodesplitter=wds.split_by_node).shuffle(5000)"},
    {"share-prep",
     "DataLoader prepares for one job only: let one process prepare and hand the batches to all jobs (tensors in shared memory, "
     "torch.Tensor.share_memory_()), or run fewer jobs at once; one copy of the files in /dev/shm at least shares the reads",
     "a pipeline serves one process: feed the other jobs with fn.external_source from the one that prepares, or run fewer jobs at once",
     "one WebLoader feeding all jobs; or share the reads with one cache_dir on a local disk for all jobs"},
    {"fewer-accelerators",
     "torchrun --nproc_per_node=N, and batch_size higher by as much, so that the global batch stays; the workers of the processes that go are free "
     "for "
     "the others",
     "num_shards=N in the readers, batch_size and num_threads higher by as much",
     "wds.split_by_node follows the number of processes by itself; keep the global batch with .batched(B)"},
    {"measure-accelerator",
     "time 100 steps on one batch that already lies on the GPU, with torch.cuda.synchronize() before and after; then dsanalyze profile --accelerator "
     "emulated:RATE",
     "the same script: it needs no loader", "the same script: it needs no loader"},
    {"nothing-to-gain",
     "leave the loader as it is; what is left is in the training step (mixed precision, channels_last, torch.compile) and in the accelerators",
     "leave the pipeline as it is; cores that it does not need may be given back (num_threads)", nullptr},
}};

}  // namespace

std::vector<LoaderStep> loader_steps(std::string_view advice_code) {
  for (const Steps& steps : table) {
    if (steps.code != advice_code) continue;
    std::vector<LoaderStep> list{{"PyTorch DataLoader", steps.pytorch}, {"NVIDIA DALI", steps.dali}};
    if (steps.webdataset != nullptr) list.push_back({"WebDataset", steps.webdataset});
    return list;
  }
  return {};
}

}  // namespace dsanalyze::whatif
